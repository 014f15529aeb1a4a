package fetch

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"time"
)

// attemptDelay is how long an attempt to connect is waited for before the next one begins (RFC
// 8305, section 5: Connection Attempt Delay).
const attemptDelay = 250 * time.Millisecond

// attempt is an attempt to connect to an address that has ended.
type attempt struct {
	addr netip.AddrPort
	conn net.Conn
	took time.Duration // of the TCP handshake
	err  error
}

// race connects to one of several addresses: attempts begin one after the other, each when the one
// before has failed or attemptDelay has passed, and the first to succeed wins (RFC 8305, section
// 5). Other addresses than the first are looked up only when one is needed.
type race struct {
	f       *Fetcher
	network string
	port    uint16
	more    Addrs // nil if there is nothing more to look up

	known   []netip.AddrPort // all addresses, without duplicates
	waiting []netip.AddrPort // not dialled yet, best first
	running []netip.AddrPort
	ended   chan attempt
	over    chan struct{} // closed when the race is over
	found   chan []netip.Addr
	looking bool
	errs    []error
}

// dialFirst connects to an address, or to the one of more that answers first. It takes at most
// Config.ConnectTimeout. The caller has checked the first address with the guard.
func (f *Fetcher) dialFirst(
	ctx context.Context, network string, first netip.AddrPort, more Addrs,
) (attempt, error) {
	r := &race{
		f: f, network: network, port: first.Port(), more: more,
		ended: make(chan attempt), over: make(chan struct{}), found: make(chan []netip.Addr),
	}
	defer close(r.over)
	r.add([]netip.Addr{first.Addr()})
	dctx, cancel := context.WithTimeout(ctx, f.cfg.ConnectTimeout)
	defer cancel()
	return r.run(dctx)
}

// add adds addresses that are not known yet, and ranks those that wait.
func (r *race) add(addrs []netip.Addr) {
	for _, a := range addrs {
		at := netip.AddrPortFrom(a.Unmap(), r.port)
		if !slices.Contains(r.known, at) {
			r.known, r.waiting = append(r.known, at), append(r.waiting, at)
		}
	}
	r.f.addrs.rank(r.waiting)
}

// run returns the attempt that won. The others end with ctx, which the caller cancels. When ctx
// ends first, run waits for all of them.
func (r *race) run(ctx context.Context) (attempt, error) {
	timer := time.NewTimer(attemptDelay)
	defer timer.Stop()
	next := func() {
		r.next(ctx)
		timer.Reset(attemptDelay)
	}
	if r.more != nil && r.f.addrs.dead(r.waiting[0]) {
		r.look(ctx) // perhaps there is a better one
	} else {
		next()
	}
	for ctx.Err() == nil && (len(r.running)+len(r.waiting) > 0 || r.looking) {
		select {
		case <-ctx.Done():
		case <-timer.C:
			next()
		case found := <-r.found:
			r.looking = false
			r.add(found)
			next()
		case a := <-r.ended:
			if r.end(ctx, a) {
				return a, nil
			}
			next()
		}
	}
	for len(r.running) > 0 {
		if a := <-r.ended; r.end(ctx, a) {
			return a, nil
		}
	}
	if len(r.errs) == 0 { // only looked up
		r.errs = append(r.errs, ctx.Err())
	}
	return attempt{}, errors.Join(r.errs...)
}

// next begins the next attempt. If no address waits, it looks for more.
func (r *race) next(ctx context.Context) {
	if len(r.waiting) == 0 {
		r.look(ctx)
		return
	}
	a := r.waiting[0]
	r.waiting, r.running = r.waiting[1:], append(r.running, a)
	go func() {
		start := time.Now()
		c, err := r.f.dial(ctx, r.network, a.String())
		done := attempt{addr: a, conn: c, took: time.Since(start), err: err}
		select {
		case r.ended <- done:
		case <-r.over:
			if err == nil {
				c.Close()
			}
		}
	}()
}

// look begins to look up more addresses, once.
func (r *race) look(ctx context.Context) {
	if r.more == nil {
		return
	}
	more := r.more
	r.more, r.looking = nil, true
	go func() {
		var ok []netip.Addr
		for _, a := range more(ctx) {
			if r.f.mayDial("", a) == nil {
				ok = append(ok, a)
			}
		}
		select {
		case r.found <- ok:
		case <-r.over:
		}
	}()
}

// end records the end of an attempt and reports whether it won. Those that began before it and have
// not answered yet count as dead: they had a head start.
func (r *race) end(ctx context.Context, a attempt) (won bool) {
	i := slices.Index(r.running, a.addr)
	r.running = slices.Delete(r.running, i, i+1)
	switch {
	case a.err == nil:
		for _, slow := range r.running[:i] {
			r.f.addrs.failed(slow)
		}
		return true
	case errors.Is(ctx.Err(), context.Canceled):
		r.errs = append(r.errs, a.err)
		return false
	case ctx.Err() != nil:
		a.err = fmt.Errorf("%w: %w", ctx.Err(), a.err) // dialers word their timeouts in many ways
	}
	r.f.addrs.failed(a.addr)
	r.errs = append(r.errs, a.err)
	return false
}
