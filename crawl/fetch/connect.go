package fetch

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"peerd/store"
)

// Connect opens a TCP connection to the server of u at addr and closes it, to measure a round trip
// without a request. The guard applies as in Do, and no idle connection is used. It takes at most
// Config.ConnectTimeout. The outcome is OutcomeOK or the reason of the failure; OutcomeNone, as in
// Do, if the caller cancelled ctx first. took is the duration of the handshake.
func (f *Fetcher) Connect(
	ctx context.Context, u store.URL, addr netip.Addr,
) (o store.Outcome, took time.Duration, err error) {
	t, err := parseTarget(u)
	if err == nil {
		err = errors.Join(checkPort(t.port), f.mayDial(u, addr))
	}
	if err != nil {
		return classify(err, stageDial, false), 0, err
	}
	dctx, cancel := context.WithTimeout(ctx, f.cfg.ConnectTimeout)
	defer cancel()
	at := netip.AddrPortFrom(addr.Unmap(), t.port)
	start := time.Now()
	c, err := f.dial(dctx, "tcp", at.String())
	took = time.Since(start)
	if err == nil {
		f.addrs.answered(at)
		if f.cfg.Proxy == "" {
			_, err = f.checkRemote(c)
		}
		c.Close()
	}
	switch {
	case err == nil:
		return store.OutcomeOK, took, nil
	case context.Cause(ctx) == context.Canceled: //nolint:errorlint // other causes may wrap it
		return store.OutcomeNone, took, fmt.Errorf("%w: %w", context.Canceled, err)
	case dctx.Err() != nil:
		err = fmt.Errorf("%w: %w", dctx.Err(), err) // dialers word their timeouts in many ways
	}
	f.addrs.failed(at)
	return classify(err, stageDial, false), took, err
}

// Rank returns those of addrs at which the guard permits connections to the server of u, with those
// that did not answer when they were last asked at the end.
func (f *Fetcher) Rank(u store.URL, addrs []netip.Addr) []netip.Addr {
	t, err := parseTarget(u)
	if err != nil || checkPort(t.port) != nil {
		return nil
	}
	var ranked []netip.AddrPort
	for _, a := range addrs {
		if f.mayDial(u, a) == nil {
			ranked = append(ranked, netip.AddrPortFrom(a.Unmap(), t.port))
		}
	}
	f.addrs.rank(ranked)
	out := make([]netip.Addr, len(ranked))
	for i, a := range ranked {
		out[i] = a.Addr()
	}
	return out
}

// Answered reports whether the server of u accepted a connection at addr within the last d, and
// none has failed there since.
func (f *Fetcher) Answered(u store.URL, addr netip.Addr, d time.Duration) bool {
	t, err := parseTarget(u)
	if err != nil {
		return false
	}
	state, ago := f.addrs.state(netip.AddrPortFrom(addr.Unmap(), t.port))
	return state == addrAnswering && ago < d
}
