package replay

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"peerd/store/warc"
)

const (
	maxCDX      = 10_000    // lines of a response
	defaultPage = 1000      // lines of a page
	maxScanned  = 1_000_000 // index lines that are read for a response
)

// cdxFields are the fields of a line in pywb's order, and cdxAliases what the Wayback Machine calls
// them.
var (
	cdxFields = []string{"urlkey", "timestamp", "url", "mime", "status", "digest", "length",
		"offset", "filename"}
	cdxAliases = map[string]string{"original": "url", "mimetype": "mime", "statuscode": "status"}
)

// cdxQuery is a request to the CDX server API.
type cdxQuery struct {
	span        warc.Span
	from, to    time.Time
	skip, limit int
	json        bool
	fields      []string // nil: all, in the form of CDXJ
}

// parseCDX reads the parameters of a request. It refuses those that it does not know, because to
// ignore a filter would give wrong results.
func parseCDX(v url.Values) (q cdxQuery, err error) {
	known := []string{"url", "matchType", "from", "to", "limit", "output", "fl", "fields", "page",
		"pageSize", "closest"}
	for name := range v {
		if !slices.Contains(known, name) {
			return q, fmt.Errorf("the parameter %.40q is not supported, only %s", name,
				strings.Join(known, ", "))
		}
	}
	if q.span, err = parseSpan(v.Get("url"), v.Get("matchType")); err != nil {
		return q, err
	}
	q.to = time.Unix(1<<40, 0)
	if s := v.Get("from"); s != "" {
		if q.from, err = parseStamp(s, false); err != nil {
			return q, err
		}
	}
	if s := v.Get("to"); s != "" {
		if q.to, err = parseStamp(s, true); err != nil {
			return q, err
		}
	}
	if err := q.parsePages(v); err != nil {
		return q, err
	}
	switch v.Get("output") {
	case "", "text", "cdxj":
	case "json":
		q.json = true
	default:
		return q, errors.New("output is neither json nor text")
	}
	return q, q.parseFields(v.Get("fl") + v.Get("fields"))
}

func (q *cdxQuery) parsePages(v url.Values) error {
	number := func(name string, def, most int) int {
		n, err := def, error(nil)
		if s := v.Get(name); s != "" {
			n, err = strconv.Atoi(s)
		}
		if err != nil || n < 0 || n > most {
			return -1
		}
		return n
	}
	limit, size := number("limit", maxCDX, 1<<30), number("pageSize", defaultPage, maxCDX)
	page := number("page", 0, maxScanned)
	if limit < 0 || size < 0 || page < 0 || page*size > maxScanned {
		return fmt.Errorf("limit, page or pageSize is not a number from 0 to %d", maxCDX)
	}
	q.limit = min(limit, maxCDX)
	if v.Has("page") || v.Has("pageSize") {
		q.skip, q.limit = page*size, min(q.limit, size)
	}
	return nil
}

func (q *cdxQuery) parseFields(list string) error {
	if list == "" {
		return nil
	}
	for name := range strings.SplitSeq(list, ",") {
		if a, ok := cdxAliases[name]; ok {
			name = a
		}
		if !slices.Contains(cdxFields, name) {
			return fmt.Errorf("%.40q is not a field, want some of %s", name,
				strings.Join(cdxFields, ","))
		}
		q.fields = append(q.fields, name)
	}
	return nil
}

var cdxMatches = map[string]warc.Match{"": warc.MatchExact, "exact": warc.MatchExact,
	"prefix": warc.MatchPrefix, "host": warc.MatchHost, "domain": warc.MatchDomain}

// parseSpan returns the range of URLs of a request: "http://a.example/*" asks for a prefix, and
// "*.a.example" for a domain.
func parseSpan(raw, match string) (s warc.Span, err error) {
	m, ok := cdxMatches[match]
	if !ok {
		return s, errors.New("matchType is not exact, prefix, host or domain")
	}
	if match == "" {
		if rest, ok := strings.CutPrefix(raw, "*."); ok {
			raw, m = rest, warc.MatchDomain
		} else if rest, ok := strings.CutSuffix(raw, "*"); ok {
			raw, m = rest, warc.MatchPrefix
		}
	}
	if raw == "" {
		return s, errors.New("url is missing")
	}
	u, err := parseURL(raw)
	if err != nil {
		return s, err
	}
	return warc.SpanOf(string(u), m), nil
}

// cdx answers with one line for each capture.
func (h *Handler) cdx(w http.ResponseWriter, r *http.Request) {
	v, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		http.Error(w, "the query is not valid", http.StatusBadRequest)
		return
	}
	q, err := parseCDX(v)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	if q.json {
		w.Header().Set("Content-Type", "text/x-ndjson; charset=utf-8")
	}
	out := bufio.NewWriter(w)
	left, skip := q.limit, q.skip
	_, err = entries(r.Context(), h.cfg.Archive, q.span, maxScanned, func(e warc.Entry) error {
		switch {
		case left == 0:
			return errStop
		case e.Time.Before(q.from) || e.Time.After(q.to):
			return nil
		case skip > 0:
			skip--
			return nil
		}
		left--
		_, err := out.Write(append(q.line(e), '\n'))
		return err
	})
	if err == nil {
		err = out.Flush()
	}
	if err != nil {
		h.cfg.Logger.Debug("listing captures failed", "err", err)
		panic(http.ErrAbortHandler) // so that the client does not take the part for all
	}
}

// line formats an entry.
func (q *cdxQuery) line(e warc.Entry) []byte {
	values := map[string]string{"urlkey": e.Key, "timestamp": stamp(e.Time), "url": e.URL,
		"mime": e.MIME, "status": e.Status, "digest": e.Digest,
		"length": strconv.FormatInt(e.Location.Length, 10),
		"offset": strconv.FormatInt(e.Location.Offset, 10), "filename": e.Location.File}
	fields := q.fields
	if fields == nil {
		fields = cdxFields
	}
	var b []byte
	if !q.json && q.fields != nil {
		for i, name := range fields {
			if i > 0 {
				b = append(b, ' ')
			}
			b = append(b, values[name]...)
		}
		return b
	}
	if !q.json {
		b = fmt.Appendf(b, "%s %s ", e.Key, values["timestamp"])
		fields = fields[2:]
	}
	for i, name := range fields {
		b = append(b, "{,"[min(i, 1)])
		if i > 0 {
			b = append(b, ' ')
		}
		value, _ := json.Marshal(values[name]) // a string has no errors
		b = fmt.Appendf(b, "%q: %s", name, value)
	}
	return append(b, '}')
}
