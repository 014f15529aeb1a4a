package home

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
)

// ErrUnsettled is returned for a host that has no home yet.
var ErrUnsettled = errors.New("home: the host has no home")

// ErrMoved is returned when a host is elsewhere than its mover thought.
var ErrMoved = errors.New("home: the host has moved")

// Read returns the record of host that the DHT has now, or a better one that is
// remembered. It fails with ErrHost, ErrUnsettled, or what the DHT said.
func (r *Registry) Read(ctx context.Context, host string) (Record, error) {
	if err := checkHost(host); err != nil {
		return Record{}, err
	}
	e, ok, err := r.Register.Read(ctx, host)
	if err != nil {
		return Record{}, err
	}
	if !ok {
		return Record{}, fmt.Errorf("%w: %s", ErrUnsettled, host)
	}
	return r.Keep(e).Record, nil
}

// Value is Read that returns the record as it is sealed.
func (r *Registry) Value(ctx context.Context, host string) ([]byte, error) {
	if _, err := r.Read(ctx, host); err != nil {
		return nil, err
	}
	if value, ok := r.Sealed(host); ok {
		return value, nil
	}
	value, err := r.Register.Value(ctx, host)
	if err == nil && value == nil {
		err = fmt.Errorf("%w: %s", ErrUnsettled, host)
	}
	return value, err
}

// Known returns the record of host that is remembered, however old.
func (r *Registry) Known(host string) (Record, bool) { return r.Register.Cached(host) }

// Recent returns the home of host if the DHT was asked about it a minute ago at
// most.
func (r *Registry) Recent(host string) (netip.Prefix, bool) {
	if p, ok := literalHome(host); ok {
		return p, true
	}
	e, ok := r.Get(host)
	return e.Record.Subnet, ok && r.Now().Sub(e.Asked) < recent
}

// Draft signs, and does not publish, the record by which host moves from its home
// from to another subnet; see SealMove for the lease. It fails with ErrMoved when the
// home is not from any more, and like Read.
func (r *Registry) Draft(
	ctx context.Context, host string, from, to netip.Prefix, sealedLease []byte,
) ([]byte, error) {
	now, err := r.Read(ctx, host)
	if err != nil {
		return nil, err
	}
	if now.Subnet != from {
		return nil, fmt.Errorf("%w: %s to %v", ErrMoved, host, now.Subnet)
	}
	prior, ok := r.Sealed(host)
	if !ok {
		if prior, err = r.Register.Value(ctx, host); err != nil {
			return nil, err
		}
	}
	if rec, err := Open(prior); err != nil || rec.Subnet != from {
		return nil, fmt.Errorf("%w: %s, just now", ErrMoved, host)
	}
	return SealMove(Record{Host: host, Subnet: to, By: r.cfg.Self, Issued: r.Now()}, prior,
		sealedLease, r.cfg.Key)
}

// Announce publishes a sealed record, of whomever, and returns the one that stands:
// this or a better one. It is safe to repeat. It fails like Settle, and with the
// reason for which sealed is refused.
func (r *Registry) Announce(ctx context.Context, sealed []byte) (Record, error) {
	rec, err := Open(sealed)
	if err == nil {
		err = rec.CheckTime(r.Now())
	}
	if err != nil {
		return Record{}, err
	}
	e, err := r.Register.Settle(ctx, nil, rec, sealed)
	if err != nil {
		return Record{}, fmt.Errorf("home: announce %s: %w", rec.Host, err)
	}
	return e.Record, nil
}
