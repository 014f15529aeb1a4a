package lease

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	"peerd/coords"
	"peerd/overlay/lease/register"
)

// BeatenError is returned when a better lease than ours, of another owner or of
// a later epoch, is known. It is remembered, too.
type BeatenError struct {
	// By is the better lease. It may be expired, and still stands. It may be a
	// claim that is itself still settling, and lose to a third.
	By Lease
	// Sealed is its signed form.
	Sealed []byte
}

// Error names the winner.
func (e *BeatenError) Error() string {
	return fmt.Sprintf("lease: %v belongs to %v at epoch %d", e.By.Subnet, e.By.Owner, e.By.Epoch)
}

func beaten(e entry) error { return &BeatenError{By: e.lease, Sealed: e.sealed} }

// Claim makes this peer the owner of an unowned subnet: it reads, writes a lease of
// epoch 1, waits for Settle, and reads back. Only when it returns without an error
// may anything be fetched. A subnet that is already this peer's is renewed, at its
// epoch and with its grant; it is settled again if this Registry does not know
// it to be won, as after a restart or a claim that failed half-way.
// It fails with *BeatenError when somebody else owns or won the subnet, with
// ErrContested, ErrSubnet, or what the DHT said; then the lease may have been written
// and still win later, which the next Lookup or Claim shows.
func (r *Registry) Claim(ctx context.Context, subnet netip.Prefix) (Lease, []byte, error) {
	if err := checkNames(subnet, r.cfg.Self, 1); err != nil {
		return Lease{}, nil, err
	}
	e, ok, err := r.read(ctx, subnet)
	switch {
	case ok && e.lease.Owner == r.cfg.Self && e.won:
		return r.Renew(ctx, e.lease)
	case ok && e.lease.Owner != r.cfg.Self:
		return Lease{}, nil, beaten(e)
	case err != nil: // blind, nobody claims
		return Lease{}, nil, err
	}
	l := Lease{Subnet: subnet, Owner: r.cfg.Self, Epoch: 1}
	if ok {
		l = e.lease
	}
	return r.settle(ctx, l)
}

// Adopt makes this peer the owner after a handover: grant is the sealed Grant, by
// the previous owner, of subnet to this peer at epoch. It may be repeated. It
// fails with ErrGrant or ErrEvidence when the grant does not fit or is missing, with *BeatenError when a
// better lease is known, with ErrContested, or what the DHT said.
func (r *Registry) Adopt(ctx context.Context, subnet netip.Prefix, epoch uint64, grant []byte, proxy *coords.Proxy) (Lease, []byte, error) {
	l := Lease{Subnet: subnet, Owner: r.cfg.Self, Epoch: epoch, Grant: grant, Proxy: proxy}
	return r.publish(ctx, l)
}

// Renew signs l again with a later Issued and the Proxy that l has. It fails with
// ErrNotOwner when l is not this peer's, with *BeatenError when a better
// lease is known or a replica shows one, with ErrContested, or what the DHT said;
// after the latter two this peer still owns the subnet and should try again.
//
// A lease past its Grace has lost its rank: then any lease of another owner beats it.
func (r *Registry) Renew(ctx context.Context, l Lease) (Lease, []byte, error) {
	if l.Owner != r.cfg.Self {
		return Lease{}, nil, fmt.Errorf("%w: %v belongs to %v", ErrNotOwner, l.Subnet, l.Owner)
	}
	if r.now().Sub(l.Expires) > Grace {
		e, ok, err := r.read(ctx, l.Subnet)
		switch {
		case ok && e.lease.Owner != r.cfg.Self:
			return Lease{}, nil, beaten(e)
		case err != nil:
			return Lease{}, nil, err
		}
	}
	return r.publish(ctx, l)
}

// settle writes a lease where a rival of the same epoch may be written too.
func (r *Registry) settle(ctx context.Context, l Lease) (Lease, []byte, error) {
	return r.write(l, func(sealed []byte, beats func([]byte) bool) ([]byte, error) {
		return register.Settle(ctx, r.cfg.Values, Key(l.Subnet), sealed, r.cfg.Settle, beats)
	})
}

// publish writes a lease that outranks what may be there already.
func (r *Registry) publish(ctx context.Context, l Lease) (Lease, []byte, error) {
	return r.write(l, func(sealed []byte, beats func([]byte) bool) ([]byte, error) {
		return register.Publish(ctx, r.cfg.Values, Key(l.Subnet), sealed, beats)
	})
}

// write stamps and signs l, has put bring it to the DHT, and remembers it if it
// stands.
func (r *Registry) write(l Lease, put func(sealed []byte, beats func([]byte) bool) ([]byte, error)) (Lease, []byte, error) {
	l = r.stamp(l)
	sealed, err := SealLease(l, r.cfg.Key)
	if err != nil {
		return Lease{}, nil, err
	}
	if e, ok := r.get(l.Subnet, r.now()); ok && rivals(e.lease, l) {
		return Lease{}, nil, beaten(e)
	}
	var rival entry
	value, err := put(sealed, func(found []byte) bool {
		e, ok := r.found(l.Subnet, found)
		if !ok {
			return false
		}
		rival = r.keep(e)
		return rivals(rival.lease, l)
	})
	if err != nil {
		return Lease{}, nil, fmt.Errorf("lease: write %v at epoch %d: %w", l.Subnet, l.Epoch, err)
	}
	if value != nil {
		return Lease{}, nil, beaten(rival)
	}
	e := r.keep(entry{lease: l, sealed: sealed, asked: r.now(), won: true})
	if rivals(e.lease, l) { // learnt meanwhile from elsewhere
		return Lease{}, nil, beaten(e)
	}
	return e.lease, e.sealed, nil
}

// stamp sets the times of l: issued now, but later than any lease of this owner
// and epoch that is known, so that it replaces them even after a clock stepped
// back.
func (r *Registry) stamp(l Lease) Lease {
	now := r.now()
	issued := now
	later := func(t time.Time) {
		if !issued.After(t) {
			issued = t.Add(time.Millisecond)
		}
	}
	if !l.Issued.IsZero() {
		later(l.Issued)
	}
	if e, ok := r.get(l.Subnet, now); ok && e.lease.Owner == l.Owner && e.lease.Epoch == l.Epoch {
		later(e.lease.Issued)
	}
	l.Issued = millis(issued.UnixMilli())
	l.Expires = l.Issued.Add(r.cfg.TTL)
	return l
}
