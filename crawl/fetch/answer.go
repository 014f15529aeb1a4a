package fetch

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"peerd/store"
)

// drainLimit is the longest body that is read only to keep its connection.
const drainLimit = 64 << 10

// maxContentType bounds what is kept of a Content-Type field.
const maxContentType = 256

// maxLocation bounds a Location field that is followed. Canonical URLs are much
// shorter; what is longer is a trap.
const maxLocation = 8 << 10

// judge tells the outcome of an answer from its head, and whether its body is
// wanted. Only a body of a 2xx is, and only of a type that accept takes. A 304
// counts as such if the request was conditional.
func judge(resp *http.Response, accept func(string) bool, conditional bool) (o store.Outcome, wanted bool) {
	switch s := resp.StatusCode; {
	case s < 200:
		return store.OutcomeProtocol, false
	case s < 300:
		if accept != nil && !accept(contentType(resp)) {
			return store.OutcomeNotHTML, false
		}
		return store.OutcomeOK, true
	case s == http.StatusNotModified && conditional:
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

// location returns where an answer sends us, or "" if nowhere.
func location(resp *http.Response) string {
	to := resp.Header.Get("Location")
	if len(to) > maxLocation {
		return ""
	}
	return to
}

// read takes the answer of a request: head into res, and the body or not.
// An error is of the body; the head in res stands.
func (f *Fetcher) read(cancel context.CancelFunc, c *conn, resp *http.Response, req Request, res *Result) error {
	conditional := condition(req.IfNoneMatch) != "" || condition(req.IfModifiedSince) != ""
	outcome, wanted := judge(resp, req.Accept, conditional)
	if resp.TLS != nil && c.tls == nil {
		c.tls = session(resp.TLS, c.key.host, f.tls)
	}
	res.Remote, res.TLS, res.Proto = c.remote, c.tls, protocol(resp)
	res.Status = resp.StatusCode
	res.Header = resp.Header
	res.ContentType = contentType(resp)
	res.RetryAfter = retryAfter(resp.Header.Get("Retry-After"), time.Now())
	if d, ok := keepAlive(strings.Join(resp.Header["Keep-Alive"], ",")); ok && !c.h2 {
		c.idleFor = min(f.cfg.IdleTimeout, d)
	}
	if resp.StatusCode < 200 {
		return errStatus
	}
	if outcome == store.OutcomeRedirect {
		res.Location = location(resp)
	}
	wire := &meter{r: resp.Body}
	defer func() { res.Bytes = wire.n.Load() }()
	res.lent = new(lent)
	if !wanted {
		res.Outcome = outcome
		raw, whole := f.drain(cancel, resp, wire, req.Keep)
		if req.Keep {
			res.Raw, res.RawCut = raw, !whole
			res.lent.raw.Store(&raw)
		}
		return nil
	}
	limit := req.MaxBody
	if limit <= 0 {
		limit = f.cfg.MaxBody
	}
	pace := f.watch(&wire.n, cancel)
	b, err := f.readBody(resp, wire, limit, req.Keep)
	if slow := pace.stop(); slow && err != nil {
		return fmt.Errorf("%w: %w", ErrSlow, err)
	}
	if err != nil {
		return err
	}
	res.take(b, req.Keep)
	res.Outcome = outcome
	if b.cut {
		res.Outcome = store.OutcomeTooLarge
	}
	return nil
}

// take makes b the body of the result.
func (r *Result) take(b body, raw bool) {
	r.Body = b.data
	r.lent.body.Store(&b.data)
	if !raw {
		return
	}
	r.Raw, r.RawCut = b.raw, b.cut
	if b.coded {
		r.lent.raw.Store(&b.raw)
	}
}
