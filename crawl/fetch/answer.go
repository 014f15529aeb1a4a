package fetch

import (
	"context"
	"net/http"
	"strings"
	"time"

	"peerd/store"
)

// drainLimit is the longest body that is read only to keep its connection.
const drainLimit = 64 << 10

// maxContentType bounds what is kept of a Content-Type field.
const maxContentType = 256

// judge tells the outcome of an answer from its head, and whether its body is
// wanted. Only a body of a 2xx is, and only of a type that accept takes.
func judge(resp *http.Response, accept func(string) bool) (o store.Outcome, wanted bool) {
	switch s := resp.StatusCode; {
	case s < 200:
		return store.OutcomeProtocol, false
	case s < 300:
		if accept != nil && !accept(contentType(resp)) {
			return store.OutcomeNotHTML, false
		}
		return store.OutcomeOK, true
	case s < 400 && s != http.StatusNotModified && resp.Header.Get("Location") != "":
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

// read takes the answer of a request: head into res, and the body or not.
// An error is of the body; the head in res stands.
func (f *Fetcher) read(cancel context.CancelFunc, c *conn, resp *http.Response, req Request, res *Result) error {
	outcome, wanted := judge(resp, req.Accept)
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
		res.Location = resp.Header.Get("Location")
	}
	if !wanted {
		res.Outcome = outcome
		res.Bytes = f.drain(cancel, resp)
		return nil
	}
	limit := req.MaxBody
	if limit <= 0 {
		limit = f.cfg.MaxBody
	}
	b, err := f.readBody(resp, limit)
	res.Bytes = b.wire
	if err != nil {
		return err
	}
	res.Body = b.data
	res.Outcome = outcome
	if b.cut {
		res.Outcome = store.OutcomeTooLarge
	}
	return nil
}
