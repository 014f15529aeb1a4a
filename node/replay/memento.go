package replay

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"html"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/html/charset"

	"peerd/crawl/canon"
	"peerd/crawl/fetch"
	"peerd/store"
	"peerd/store/warc"
)

// safeHeaders are the fields of an archived response that are sent with it.
var safeHeaders = []string{"Content-Type", "Content-Language", "Content-Disposition"}

func stamp(t time.Time) string { return t.UTC().Format(stampLayout) }

func mementoPath(at time.Time, modifier string, url string) string {
	return "/web/" + stamp(at) + modifier + "/" + safe.Replace(url)
}

// timeGate redirects to the capture that is nearest to the time in Accept-Datetime, by default to
// the newest one (RFC 7089, section 4.1.1).
func (h *Handler) timeGate(w http.ResponseWriter, r *http.Request, u store.URL) error {
	w.Header().Set("Vary", "accept-datetime")
	at := time.Now()
	if s := r.Header.Get("Accept-Datetime"); s != "" {
		t, err := http.ParseTime(s)
		if err != nil {
			http.Error(w, "Accept-Datetime is not a time of HTTP", http.StatusBadRequest)
			return nil //nolint:nilerr // answered
		}
		at = t
	}
	n, err := nearest(r.Context(), h.cfg.Archive, u, at)
	if err != nil {
		return err
	}
	w.Header().Set("Link", links(r, u, n))
	redirect(w, mementoPath(n.at.Time, "", n.at.URL))
	return nil
}

// links returns the Link header of a capture or TimeGate.
func links(r *http.Request, u store.URL, n neighbours) string {
	root := "http://" + r.Host
	original := safe.Replace(string(u))
	all := []string{
		fmt.Sprintf(`<%s>; rel="original"`, original),
		fmt.Sprintf(`<%s/web/%s>; rel="timegate"`, root, original),
		fmt.Sprintf(`<%s/web/timemap/link/%s>; rel="timemap"; type="application/link-format"`,
			root, original),
	}
	add := func(rel string, e warc.Entry) {
		if e.URL != "" {
			all = append(all, fmt.Sprintf(`<%s%s>; rel="%s"; datetime="%s"`, root,
				mementoPath(e.Time, "", e.URL), rel, e.Time.UTC().Format(http.TimeFormat)))
		}
	}
	add("first memento", n.first)
	add("prev memento", n.prev)
	add("memento", n.at)
	add("next memento", n.next)
	add("last memento", n.last)
	return strings.Join(all, ", ")
}

// timeMap lists the captures of a URL (RFC 7089, section 5).
func (h *Handler) timeMap(w http.ResponseWriter, r *http.Request, u store.URL) error {
	release, err := h.queries.take(r.Context())
	if err != nil {
		return err
	}
	defer release()
	root, original, n := "http://"+r.Host, safe.Replace(string(u)), 0
	_, err = entries(r.Context(), h.cfg.Archive, warc.SpanOf(string(u), warc.MatchExact),
		maxListed, func(e warc.Entry) error {
			if n++; n == 1 {
				w.Header().Set("Content-Type", "application/link-format")
				fmt.Fprintf(w, "<%s>; rel=\"original\",\n<%s/web/timemap/link/%s>; rel=\"self\"; "+
					"type=\"application/link-format\",\n<%s/web/%s>; rel=\"timegate\"",
					original, root, original, root, original)
			}
			_, err := fmt.Fprintf(w, ",\n<%s%s>; rel=\"memento\"; datetime=\"%s\"", root,
				mementoPath(e.Time, "", e.URL), e.Time.UTC().Format(http.TimeFormat))
			return err
		})
	if n == 0 && err == nil {
		return errNotFound
	}
	if n > 0 {
		if err != nil {
			panic(http.ErrAbortHandler) // so that the client does not take the part for all
		}
		io.WriteString(w, "\n")
	}
	return err
}

// listing shows the captures of URLs that begin with u.
func (h *Handler) listing(w http.ResponseWriter, r *http.Request, u store.URL) error {
	const limit = 1000
	release, err := h.queries.take(r.Context())
	if err != nil {
		return err
	}
	defer release()
	var all []warc.Entry
	more, err := entries(r.Context(), h.cfg.Archive,
		warc.SpanOf(string(u), warc.MatchPrefix), limit, func(e warc.Entry) error {
			all = append(all, e)
			return nil
		})
	if err == nil {
		show(w, http.StatusOK, listPage(u, all, more))
	}
	return err
}

// memento sends a capture.
func (h *Handler) memento(w http.ResponseWriter, r *http.Request, t target) error {
	n, err := nearest(r.Context(), h.cfg.Archive, t.url, t.at)
	if err != nil {
		return err
	}
	if !t.exact || !n.at.Time.Equal(t.at) || n.at.URL != string(t.url) {
		redirect(w, mementoPath(n.at.Time, t.modifier, n.at.URL))
		return nil
	}
	release, err := h.bodies.take(r.Context())
	if err != nil {
		return err
	}
	defer release()
	c, err := open(r.Context(), h.cfg.Archive, n.at)
	if err != nil {
		return err
	}
	defer c.body.Close()
	head := w.Header()
	head.Set("Content-Security-Policy", pagePolicy)
	head.Set("Memento-Datetime", c.time.UTC().Format(http.TimeFormat))
	head.Set("Link", links(r, t.url, n))
	for _, name := range safeHeaders {
		if v := c.header.Get(name); v != "" {
			head.Set(name, v)
		}
	}
	if head.Get("Content-Type") == "" {
		head.Set("Content-Type", "application/octet-stream")
	}
	return h.send(w, r, t, c)
}

// send sends what is archived in the form that the modifier demands.
func (h *Handler) send(w http.ResponseWriter, r *http.Request, t target, c capture) error {
	if loc := c.header.Get("Location"); loc != "" && c.status >= 300 && c.status < 400 {
		u, err := canon.Join(c.url, loc)
		if err != nil || h.leadsBack(r.Context(), t.url, u, c.time) {
			clear(w.Header())
			w.Header().Set("Content-Security-Policy", ownPolicy)
			return errNotFound
		}
		w.Header().Set("Location", mementoPath(c.time, t.modifier, string(u)))
	}
	code := c.status
	if code < 200 || code == http.StatusNotModified || code > 599 ||
		code == http.StatusPartialContent {
		code = http.StatusOK
	}
	size, body := c.body.Size, io.Reader(c.body)
	if kind := rewritten(w.Header().Get("Content-Type")); kind == "" || t.modifier == "id_" ||
		size == 0 {
		if v := c.header.Get("Content-Encoding"); v != "" {
			w.Header().Set("Content-Encoding", v)
		}
	} else {
		release, err := h.rewriting.take(r.Context())
		if err != nil {
			return err
		}
		defer release()
		page, err := h.rewrite(w, t, c, kind)
		if err != nil {
			clear(w.Header())
			w.Header().Set("Content-Security-Policy", ownPolicy)
			return err
		}
		size, body = int64(len(page)), bytes.NewReader(page)
	}
	if code != http.StatusNoContent {
		w.Header().Set("Content-Length", strconv.FormatInt(size, 10))
	}
	w.WriteHeader(code)
	if r.Method == http.MethodHead || code == http.StatusNoContent {
		return nil
	}
	if _, err := io.Copy(w, body); err != nil {
		h.cfg.Logger.Debug("sending a capture failed", "url", t.url, "err", err)
		panic(http.ErrAbortHandler) // so that the client does not take the part for all
	}
	return nil
}

// leadsBack reports whether a redirect from one URL to another ends where it began: they are equal,
// or only the first one is archived, and found for the other because they have the same key.
func (h *Handler) leadsBack(ctx context.Context, from, to store.URL, at time.Time) bool {
	if from == to {
		return true
	}
	if warc.SURT(string(from)) != warc.SURT(string(to)) {
		return false
	}
	n, err := nearest(ctx, h.cfg.Archive, to, at)
	return err == nil && n.at.URL == string(from)
}

// rewritten returns "page" or "style" for content that is rewritten, and otherwise "".
func rewritten(contentType string) string {
	switch kind, _, _ := mime.ParseMediaType(contentType); kind {
	case "text/html", "application/xhtml+xml":
		return "page"
	case "text/css":
		return "style"
	}
	return ""
}

// rewrite returns the rewritten body of a capture, and sets the type of its content.
func (h *Handler) rewrite(
	w http.ResponseWriter, t target, c capture, kind string,
) ([]byte, error) {
	plain, err := plainText(w.Header().Get("Content-Type"), c)
	if err == nil && len(plain) > maxRewrite {
		err = errTooLarge
	}
	rw := rewriter{prefix: "/web/" + stamp(c.time), base: t.url, room: maxRewrite}
	var out bytes.Buffer
	switch {
	case err != nil:
	case kind == "style":
		w.Header().Set("Content-Type", "text/css; charset=utf-8")
		out.WriteString(rw.css(string(plain)))
	default:
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		banner := ""
		if t.modifier == "" {
			banner = h.banner(t.url, c)
		}
		err = rw.html(&out, plain, banner)
	}
	if err == nil && rw.room < 0 {
		err = errTooLarge
	}
	if errors.Is(err, errTooLarge) {
		err = fmt.Errorf("%w; its bytes are at %s", err, mementoPath(t.at, "id_", string(t.url)))
	}
	return out.Bytes(), err
}

var errTooLarge = fmt.Errorf("it is too large: it, or what is added to its links, has more than "+
	"%d bytes", maxRewrite)

// plainText returns the body of a capture without content coding and in UTF-8. One with more than
// maxRewrite bytes is cut behind them.
func plainText(contentType string, c capture) ([]byte, error) {
	if c.body.Size > maxRewrite {
		return nil, errTooLarge
	}
	body, err := io.ReadAll(c.body)
	if err != nil {
		return nil, err
	}
	plain, err := fetch.Decode(body, c.header, maxRewrite+1)
	if err != nil || len(plain) > maxRewrite {
		return plain, err
	}
	text, err := charset.NewReader(bytes.NewReader(plain), contentType)
	if err != nil {
		return nil, err
	}
	return io.ReadAll(io.LimitReader(text, maxRewrite+1))
}

// banner says what a page is. Its style is not that of the page.
func (h *Handler) banner(u store.URL, c capture) string {
	text := "fetched at " + c.time.UTC().Format("2006-01-02 15:04:05") + " UTC"
	if h.cfg.Source != "" {
		text += " by " + h.cfg.Source
	}
	if c.cut {
		text += "; it was longer"
	}
	url := html.EscapeString(safe.Replace(string(u)))
	return `<div style="all:initial;display:block;font:14px/1.4 sans-serif;color:#000;` +
		`background:#ffd;padding:4px 8px;border-bottom:1px solid #880">Archived page ` + url +
		`, ` + html.EscapeString(text) + `, without scripts. ` +
		`<a style="color:#00c" href="/web/*/` + url + `">Other captures</a></div>`
}
