package fetch

import (
	"cmp"
	"errors"
	"mime"
	"net/http"
	"strings"
	"time"

	"peerd/crawl/extract"
	"peerd/store"
)

// drainLimit is the maximum size of a body that is read only to reuse its connection.
const drainLimit = 64 << 10

// maxContentType is the maximum length of a stored Content-Type field.
const maxContentType = 256

// maxLocation is the maximum length of a Location field that is followed. Canonical URLs are much
// shorter.
const maxLocation = 8 << 10

// outcomeOf returns the outcome of a response according to its head, and whether its body is
// wanted: the body of a 2xx response, if need be of a page. A 304 is OutcomeNotModified if the
// request was conditional.
func outcomeOf(resp *http.Response, req Request) (o store.Outcome, wanted bool) {
	switch s := resp.StatusCode; {
	case s < 200:
		return store.OutcomeProtocol, false
	case s < 300:
		if req.HTML && !extract.IsHTML(contentType(resp)) {
			return store.OutcomeNotHTML, false
		}
		return store.OutcomeOK, true
	case s == http.StatusNotModified && req.conditional():
		return store.OutcomeNotModified, false
	case s < 400 && s != http.StatusNotModified && location(resp) != "":
		return store.OutcomeRedirect, false
	case s == http.StatusTooManyRequests, s == http.StatusServiceUnavailable:
		return store.OutcomeThrottled, false
	default:
		return store.OutcomeHTTPError, false
	}
}

func contentType(resp *http.Response) string {
	ct := resp.Header.Get("Content-Type")
	return ct[:min(len(ct), maxContentType)]
}

// location returns the target of a redirect, or "" if there is none.
func location(resp *http.Response) string {
	to := resp.Header.Get("Location")
	if len(to) > maxLocation {
		return ""
	}
	return to
}

// read stores the head of a response in res, and the body if it is wanted. An error concerns the
// body; the head in res is valid.
func (f *Fetcher) read(x *exchange, c *conn, resp *http.Response, res *Result) (err error) {
	if c.tls == nil && resp.TLS != nil {
		c.tls = newTLSInfo(resp.TLS, c.key.host, f.tls)
	}
	res.Remote, res.TLS, res.Proto = c.remote, c.tls, protocol(resp)
	if d, ok := keepAlive(strings.Join(resp.Header["Keep-Alive"], ",")); ok && !c.h2 {
		c.idleTimeout = min(f.cfg.IdleTimeout, d)
	}
	var start []byte
	if x.partial != nil {
		joined, err := x.partial.join(resp)
		if err != nil {
			return err
		}
		if joined {
			start = x.partial.data
		}
	}
	outcome, wanted := outcomeOf(resp, x.req)
	res.Status = resp.StatusCode
	res.Header = resp.Header
	res.ContentType = contentType(resp)
	res.RetryAfter = retryAfter(resp.Header.Get("Retry-After"), time.Now())
	if resp.StatusCode < 200 {
		return errInterimStatus
	}
	if outcome == store.OutcomeRedirect {
		res.Location = location(resp)
	}
	wire := &countingReader{r: resp.Body}
	defer func() { res.Bytes = wire.n.Load() }()
	x.progress.body(&wire.n)
	hold := &reservation{memory: f.memory, ctx: x.ctx, wait: x.progress}
	res.pooled = &pooledBuffers{hold: hold}
	if !wanted {
		res.Outcome = outcome
		f.readUnwanted(x, resp, wire, nil, res)
		return nil
	}
	b, err := readBody(resp, wire, bodyOptions{
		limit: cmp.Or(x.req.MaxBody, f.cfg.MaxBody), raw: x.req.KeepRaw, start: start,
		html: x.req.HTML, sent: res.ContentType, hold: hold,
		decoders: f.decoders,
	})
	switch {
	case errors.Is(err, errUnwanted):
		res.Outcome = store.OutcomeNotHTML
		f.readUnwanted(x, resp, wire, b.raw, res)
		return nil
	case err != nil:
		hold.release()
		if !x.req.KeepRaw {
			x.cut = newPartial(resp.Header, resp.StatusCode, b.data)
		}
		return err
	}
	res.setBody(b, x.req.KeepRaw)
	res.Outcome = outcome
	if b.cut {
		res.Outcome = store.OutcomeTooLarge
	}
	return nil
}

// readUnwanted reads a body that is not wanted, after start: for the archive as far as
// Config.MaxRaw allows, and otherwise only to reuse the connection.
func (f *Fetcher) readUnwanted(
	x *exchange, resp *http.Response, wire *countingReader, start []byte, res *Result,
) {
	if !x.req.KeepRaw {
		f.drain(x.cancel, resp, wire)
		return
	}
	raw, err := readRaw(resp, wire, start, f.cfg.maxRaw(res.ContentType), res.pooled.hold)
	switch {
	case err == nil:
	case errors.Is(err, errTooLong):
		res.RawCut = "length"
	case x.progress.stop() != nil:
		res.RawCut = "time"
	default:
		res.RawCut = "disconnect"
	}
	res.Raw = raw
	res.pooled.raw.Store(&raw)
}

// maxRaw returns how much of a body with a Content-Type field is kept if it is not wanted.
func (c Config) maxRaw(contentType string) int64 {
	kind, _, err := mime.ParseMediaType(contentType)
	if err != nil {
		kind, _, _ = strings.Cut(contentType, ";")
		kind = strings.ToLower(strings.TrimSpace(kind))
	}
	class, _, _ := strings.Cut(kind, "/")
	for _, key := range []string{kind, class + "/*", "*/*"} {
		if limit, ok := c.MaxRaw[key]; ok {
			return limit
		}
	}
	return drainLimit
}

// setBody sets the body of the result.
func (r *Result) setBody(b body, raw bool) {
	r.Body = b.data
	r.pooled.body.Store(&b.data)
	if !raw {
		return
	}
	if r.Raw = b.raw; b.cut {
		r.RawCut = "length"
	}
	if b.coded {
		r.pooled.raw.Store(&b.raw)
	}
}

// sniffed is the number of bytes of a body that show its type.
const sniffed = 512

// sniffType returns the type of a body by its first bytes if the Content-Type field is missing or
// contradicted, and otherwise the field. A missing type is determined as by browsers (MIME Sniffing
// Standard, section 7.1, which http.DetectContentType implements), after a byte order mark. Unlike
// browsers, which would show garbage, it does not believe a field if the body begins with the
// signature of an image, sound, video, font, archive or document in PDF.
func sniffType(contentType string, first []byte) string {
	mediaType, _, _ := strings.Cut(contentType, ";")
	mediaType = strings.ToLower(strings.Trim(mediaType, " \t"))
	found := http.DetectContentType(first[:min(len(first), sniffed)])
	switch mediaType {
	case "", "unknown/unknown", "application/unknown", "*/*":
		if rest, ok := strings.CutPrefix(string(first), "\xef\xbb\xbf"); ok {
			found = http.DetectContentType([]byte(rest))
		}
		return found
	}
	if strings.HasPrefix(found, "text/") || found == "application/octet-stream" {
		return contentType
	}
	return found
}
