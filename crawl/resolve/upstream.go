package resolve

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/miekg/dns"
	"golang.org/x/time/rate"
)

// failingFor is how long a name server that did not answer is asked after the others.
const failingFor = 10 * time.Second

// upstream is a name server with its limit and its state.
type upstream struct {
	server    Server
	rate      *rate.Limiter
	transport transport

	mu       sync.Mutex
	failedAt time.Time // of the last time-out or broken connection; zero after an answer
}

// A transport exchanges messages with a name server. Methods are safe for concurrent use.
type transport interface {
	// exchange sends a query and returns the response, which answers reports to belong to it.
	// ctx has a deadline.
	exchange(ctx context.Context, query *dns.Msg) (*dns.Msg, error)
	close()
}

func newUpstream(s Server, cfg ClientConfig) *upstream {
	u := &upstream{server: s, rate: newBucket(cfg.Rate)}
	switch s.Scheme {
	case SchemeTLS:
		u.transport = newTLSTransport(s.Address, cfg)
	case SchemeHTTPS:
		u.transport = newHTTPSTransport(s.Address, cfg)
	default:
		u.transport = &plainTransport{addr: s.Address, dial: cfg.Dial}
	}
	return u
}

// isFailing reports whether the server did not answer recently.
func (u *upstream) isFailing(now time.Time) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return !u.failedAt.IsZero() && now.Sub(u.failedAt) < failingFor
}

// query sends one query. It returns a response without error or with NXDOMAIN.
func (u *upstream) query(
	ctx context.Context, name string, qtype uint16, timeout time.Duration,
) (*dns.Msg, *Error) {
	resp, err := u.exchange(ctx, newQuery(name, qtype), timeout)
	if err != nil {
		reason := transportReason(err)
		reason = cmp.Or(reason, ReasonMalformed)
		return nil, &Error{Reason: reason, cause: fmt.Errorf("%v: %w", u.server, err)}
	}
	switch resp.Rcode {
	case dns.RcodeSuccess, dns.RcodeNameError:
		return resp, nil
	case dns.RcodeServerFailure:
		return nil, &Error{Reason: ReasonServFail, cause: errors.New(u.server.String())}
	}
	return nil, &Error{Reason: ReasonRefused, cause: fmt.Errorf("%v: %s", u.server,
		dns.RcodeToString[resp.Rcode])}
}

// exchange sends a query within timeout and records whether the server answered.
func (u *upstream) exchange(
	ctx context.Context, query *dns.Msg, timeout time.Duration,
) (*dns.Msg, error) {
	timed, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	resp, err := u.transport.exchange(timed, query)
	if err != nil && timed.Err() != nil {
		err = context.DeadlineExceeded
	}
	if ctx.Err() != nil { // the caller has stopped waiting, which says nothing about the server
		return resp, err
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.failedAt = time.Time{}
	if err != nil {
		u.failedAt = time.Now()
	}
	return resp, err
}
