package replay

import (
	"bytes"
	"context"
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
	maxCDX      = 10_000  // lines of a response
	maxSorted   = 1000    // lines of a response that is sorted
	maxCDXBytes = 4 << 20 // of a response, with one line more
	maxScanned  = 200_000 // index lines that are read for a response
)

// cdxFields are the fields of a line in pywb's order.
var cdxFields = []string{"urlkey", "timestamp", "url", "mime", "status", "digest", "length",
	"offset", "filename"}

// cdxParams are the parameters of a request.
var cdxParams = []string{"url", "matchType", "from", "to", "limit", "sort", "closest", "filter",
	"output", "fl", "resumeKey"}

// cdxQuery is a request to the CDX server API.
type cdxQuery struct {
	span     warc.Span
	from, to time.Time
	limit    int
	closest  time.Time // sort by the distance to it, unless zero
	filters  []filter
	resume   position
	json     bool
	fields   []string // nil: all, in the form of CDXJ
}

// parseCDX reads the parameters of a request. It refuses those that it does not know, because to
// ignore one would give wrong results.
func parseCDX(v url.Values) (q cdxQuery, err error) {
	for name := range v {
		if !slices.Contains(cdxParams, name) {
			return q, fmt.Errorf("the parameter %.40q is not supported, only %s", name,
				strings.Join(cdxParams, ", "))
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
	for _, parse := range []func(url.Values) error{
		q.parseLimit, q.parseSort, q.parseFilters, q.parseResume, q.parseOutput,
	} {
		if err := parse(v); err != nil {
			return q, err
		}
	}
	return q, nil
}

func (q *cdxQuery) parseOutput(v url.Values) error {
	switch v.Get("output") {
	case "", "text", "cdxj":
	case "json":
		q.json = true
	default:
		return errors.New("output is neither json nor text")
	}
	return q.parseFields(v.Get("fl"))
}

// parseSort reads in which order the captures are sent. Clients send closest also without a sort.
func (q *cdxQuery) parseSort(v url.Values) (err error) {
	switch v.Get("sort") {
	case "", "default":
		return nil
	case "closest":
	default:
		return errors.New("sort is not default or closest")
	}
	if v.Has("resumeKey") {
		return errors.New("sort and resumeKey cannot be combined")
	}
	q.limit = min(q.limit, maxSorted)
	q.closest = time.Now()
	if s := v.Get("closest"); s != "" && s != "now" {
		q.closest, err = parseStamp(s, false)
	}
	return err
}

func (q *cdxQuery) parseLimit(v url.Values) (err error) {
	q.limit = maxCDX
	if s := v.Get("limit"); s != "" {
		q.limit, err = strconv.Atoi(s)
	}
	if err != nil || q.limit < 0 {
		return errors.New("limit is not a number")
	}
	q.limit = min(q.limit, maxCDX)
	return nil
}

func (q *cdxQuery) parseFields(list string) error {
	if list == "" {
		return nil
	}
	for name := range strings.SplitSeq(list, ",") {
		if err := checkField(name); err != nil {
			return err
		}
		q.fields = append(q.fields, name)
	}
	return nil
}

func checkField(name string) error {
	if !slices.Contains(cdxFields, name) {
		return fmt.Errorf("%.40q is not a field, want some of %s", name,
			strings.Join(cdxFields, ","))
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
	release, err := h.queries.take(r.Context())
	if err != nil {
		return
	}
	defer release()
	var out bytes.Buffer
	next, err := q.answer(r.Context(), h.cfg.Archive, &out)
	switch {
	case errors.Is(err, context.Canceled):
		return
	case errors.Is(err, errTooMany):
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	case err != nil:
		h.cfg.Logger.Warn("listing captures failed", "err", err)
		http.Error(w, "the captures cannot be listed: "+err.Error(), http.StatusInternalServerError)
		return
	}
	head := w.Header()
	head.Set("Content-Type", "text/plain; charset=utf-8")
	if q.json {
		head.Set("Content-Type", "text/x-ndjson; charset=utf-8")
	}
	if next != "" {
		v.Set("resumeKey", next)
		head.Set("Link", `</cdx?`+v.Encode()+`>; rel="next"`)
	}
	_, _ = w.Write(out.Bytes()) // the client may have gone
}

// errTooMany is returned if a sort would have to read too many captures.
var errTooMany = fmt.Errorf("there are more than %d captures to sort; ask for fewer URLs, or "+
	"leave out sort", maxScanned)

// answer writes the lines. It returns the resume key of the first capture that was not looked at,
// or "" if there is none.
func (q *cdxQuery) answer(
	ctx context.Context, r *warc.Reader, out *bytes.Buffer,
) (next string, err error) {
	span := q.span
	span.From = max(span.From, q.resume.line)
	sorted := nearestFirst{at: q.closest, limit: q.limit}
	sorts, left := !q.closest.IsZero(), q.limit
	var at position // of the capture before
	more, err := entries(ctx, r, span, maxScanned, func(e warc.Entry) error {
		now := at.next(e)
		switch {
		case now.line == q.resume.line && now.n < q.resume.n: // it was sent before
			at = now
			return nil
		case !sorts && (left == 0 || out.Len() > maxCDXBytes):
			next = now.String()
			return errStop
		}
		at = now
		switch {
		case !q.matches(e):
		case sorts:
			sorted.add(e)
		default:
			left--
			out.Write(append(q.line(e), '\n'))
		}
		return nil
	})
	switch {
	case err != nil:
		return "", err
	case more && sorts:
		return "", errTooMany
	case more && next == "":
		at.n++
		next = at.String()
	}
	sorted.order()
	for _, e := range sorted.all {
		out.Write(append(q.line(e), '\n'))
	}
	return next, nil
}

// matches reports whether a capture passes the filters.
func (q *cdxQuery) matches(e warc.Entry) bool {
	if e.Time.Before(q.from) || e.Time.After(q.to) {
		return false
	}
	for _, f := range q.filters {
		if !f.matches(e) {
			return false
		}
	}
	return true
}

// fieldValue returns a field of cdxFields.
func fieldValue(e warc.Entry, name string) string {
	switch name {
	case "urlkey":
		return e.Key
	case "timestamp":
		return stamp(e.Time)
	case "url":
		return e.URL
	case "mime":
		return e.MIME
	case "status":
		return e.Status
	case "digest":
		return e.Digest
	case "length":
		return strconv.FormatInt(e.Location.Length, 10)
	case "offset":
		return strconv.FormatInt(e.Location.Offset, 10)
	}
	return e.Location.File
}

func (q *cdxQuery) line(e warc.Entry) []byte {
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
			b = append(b, fieldValue(e, name)...)
		}
		return b
	}
	if !q.json {
		b = fmt.Appendf(b, "%s %s ", e.Key, stamp(e.Time))
		fields = fields[2:]
	}
	for i, name := range fields {
		b = append(b, "{,"[min(i, 1)])
		if i > 0 {
			b = append(b, ' ')
		}
		value, _ := json.Marshal(fieldValue(e, name)) // a string has no errors
		b = fmt.Appendf(b, "%q: %s", name, value)
	}
	return append(b, '}')
}
