package lease

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"peerd/coords"
	"peerd/overlay/record"
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

func beaten(e entry) error { return &BeatenError{By: e.Record, Sealed: e.Sealed} }

// Claim makes this peer the owner of an unowned subnet: it reads, writes a lease of
// epoch 1, waits for Settle, and reads back. Only when it returns without an error may
// anything be fetched. A subnet that is already this peer's is renewed, at its epoch and
// with its grant; it is settled again if this Registry does not know that it won, as
// after a restart or an interrupted claim. It fails with *BeatenError when another peer
// owns or won the subnet, with record.ErrContested, ErrSubnet, or the DHT's error; then the
// lease may have been written and still win later, which the next Lookup or Claim shows.
func (r *Registry) Claim(ctx context.Context, subnet netip.Prefix) (Lease, []byte, error) {
	if err := checkNames(subnet, r.cfg.Self, 1); err != nil {
		return Lease{}, nil, err
	}
	turn, err := r.Enter(ctx)
	if err != nil {
		return Lease{}, nil, err
	}
	defer turn.Leave()
	e, ok, err := r.read(ctx, subnet)
	switch {
	case ok && e.Record.Owner == r.cfg.Self && e.Won:
		return r.Renew(ctx, e.Record)
	case ok && e.Record.Owner != r.cfg.Self:
		return Lease{}, nil, beaten(e)
	case err != nil: // without a read there is no claim
		return Lease{}, nil, err
	}
	l := Lease{Network: r.cfg.Network, Subnet: subnet, Owner: r.cfg.Self, Epoch: 1,
		Claimed: record.Millis(r.Now().UnixMilli())}
	if ok {
		l = e.Record
	}
	return r.settle(ctx, turn, l)
}

// Adopt makes this peer the owner after a handover: old is the lease of the previous owner, and
// grant its sealed Grant to this peer. It may be repeated. It
// fails with ErrGrant or ErrEvidence when the grant does not fit or is missing, with *BeatenError
// when a better lease is known, with record.ErrContested, or what the DHT said.
func (r *Registry) Adopt(
	ctx context.Context, old Lease, grant []byte, proxy *coords.Proxy,
) (Lease, []byte, error) {
	l := old.Next(r.cfg.Self)
	l.Grant, l.Proxy = grant, proxy
	return r.publish(ctx, l)
}

// Renew signs l again with a later Issued and the Proxy that l has. It fails with
// ErrNotOwner when l is not this peer's, with *BeatenError when a better
// lease is known or a replica shows one, with record.ErrContested, or what the DHT said;
// after the latter two this peer still owns the subnet and should try again. It fails with
// ErrRefused if it may not act as the owner before that has succeeded.
//
// A lease past its Grace has lost its rank: then any lease of another owner beats it.
func (r *Registry) Renew(ctx context.Context, l Lease) (Lease, []byte, error) {
	if l.Owner != r.cfg.Self {
		return Lease{}, nil, fmt.Errorf("%w: %v belongs to %v", ErrNotOwner, l.Subnet, l.Owner)
	}
	if r.Now().Sub(l.Expires) > Grace {
		e, ok, err := r.read(ctx, l.Subnet)
		switch {
		case ok && e.Record.Owner != r.cfg.Self:
			return Lease{}, nil, beaten(e)
		case err != nil:
			return Lease{}, nil, err
		}
	}
	if k, _ := l.claim(); r.Now().Sub(k.Claimed) > receiptsFor {
		l.Receipts = nil
	}
	fresh, sealed, err := r.publish(ctx, l)
	var refused *record.RefusedError
	if errors.As(err, &refused) && r.cfg.Judge.most(l, refused.Held) {
		err = fmt.Errorf("%w: %w", ErrRefused, err)
	}
	return fresh, sealed, err
}

// settle writes a lease where a rival of the same epoch may be written too.
func (r *Registry) settle(ctx context.Context, turn *record.Turn, l Lease) (Lease, []byte, error) {
	l, err := r.receipted(ctx, l)
	if err != nil {
		return Lease{}, nil, err
	}
	return r.write(l, func(l Lease, sealed []byte) (entry, error) {
		return r.Settle(ctx, turn, l, sealed)
	})
}

// publish writes a lease that outranks what may be there already.
func (r *Registry) publish(ctx context.Context, l Lease) (Lease, []byte, error) {
	return r.write(l, func(l Lease, sealed []byte) (entry, error) {
		return r.Publish(ctx, l, sealed)
	})
}

// write stamps and signs l, and has put bring it to the DHT.
func (r *Registry) write(
	l Lease, put func(Lease, []byte) (entry, error),
) (Lease, []byte, error) {
	l = r.stamp(l)
	sealed, err := SealLease(l, r.cfg.Key)
	if err != nil {
		return Lease{}, nil, err
	}
	r.cfg.Judge.See(l, r.Now())
	e, err := put(l, sealed)
	if err != nil {
		return Lease{}, nil, fmt.Errorf("lease: write %v at epoch %d: %w", l.Subnet, l.Epoch, err)
	}
	if r.kind.Rivals(e.Record, l) {
		return Lease{}, nil, beaten(e)
	}
	return e.Record, e.Sealed, nil
}

// stamp sets the times of l: issued now, but later than any lease of this owner
// and epoch that is known, so that it replaces them even after a clock stepped
// back.
func (r *Registry) stamp(l Lease) Lease {
	issued := r.Now()
	later := func(t time.Time) {
		if !issued.After(t) {
			issued = t.Add(time.Millisecond)
		}
	}
	if !l.Issued.IsZero() {
		later(l.Issued)
	}
	if e, ok := r.Get(l.Subnet); ok && e.Record.Owner == l.Owner && e.Record.Epoch == l.Epoch {
		later(e.Record.Issued)
	}
	l.Issued = record.Millis(issued.UnixMilli())
	l.Expires = l.Issued.Add(r.cfg.TTL)
	return l
}
