package lease

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/coords"
	"peerd/internal/order"
	"peerd/overlay/record"
)

// A Takeover replaces the consent of a silent owner. There are two kinds:
//
//	quick  WitnessSet and Votes: the witnesses that the owner itself named consent
//	slow   Last and At: no peer has heard the owner for LongSilence
type Takeover struct {
	// WitnessSet is the old owner's sealed WitnessSet.
	WitnessSet []byte
	// Votes are sealed Votes, as many as the takeover quorum, in the order of voters.
	Votes [][]byte
	// Last is the old owner's sealed lease: as others show it, or, once it went
	// through SealLease or OpenLease, without its evidence.
	Last []byte
	// At is when the silence was long enough, by the new owner's clock.
	At time.Time
}

// Slow reports whether t does without votes.
func (t Takeover) Slow() bool { return len(t.Last) > 0 }

// From returns the owner that was silent. It fails when t cannot be opened.
func (t Takeover) From() (peer.ID, error) {
	if t.Slow() {
		last, _, err := openLast(t.Last)
		return last.Owner, err
	}
	p, err := OpenWitnessSet(t.WitnessSet)
	return p.Owner, err
}

// TakeOver makes this peer the owner of a subnet with a silent owner and its lease old: t is
// the evidence for exactly this step. It reads the DHT first, and writes unless something as good
// is there. With votes it does not settle; the deadline of ctx must be the end of the time
// within which the votes may be used, and after it the caller must not act on what was
// written. Without votes the lease is settled like a claim, and a single replica that
// heard the old owner suffices to refuse it. It may be repeated. It fails with
// ErrTakeover and the other reasons of checks, with *BeatenError when another peer has
// the epoch or a later one, with record.ErrContested, with the end of ctx, or with the DHT's
// error.
func (r *Registry) TakeOver(
	ctx context.Context, old Lease, t Takeover, proxy *coords.Proxy,
) (Lease, []byte, error) {
	if t.Slow() && t.At.IsZero() {
		t.At = r.Now()
	}
	t, err := t.normal()
	if err != nil {
		return Lease{}, nil, err
	}
	l := old.Next(r.cfg.Self)
	l.Takeover, l.Proxy = &t, proxy
	subnet := old.Subnet
	if _, err := SealLease(r.stamp(l), r.cfg.Key); err != nil {
		return Lease{}, nil, err // before anybody is asked
	}
	e, ok, err := r.read(ctx, subnet)
	switch {
	case ok && (r.kind.Rivals(e.Record, l) ||
		e.Record.Epoch >= l.Epoch && e.Record.Owner != r.cfg.Self):
		return Lease{}, nil, beaten(e) // of equal epoch, too: who came first may be at work
	case err != nil:
		return Lease{}, nil, err
	case t.Slow():
		return r.settle(ctx, nil, l)
	}
	l, sealed, err := r.publish(ctx, l)
	if err == nil && ctx.Err() != nil {
		r.Forget(subnet) // written, but not won
		err = fmt.Errorf("lease: take %v over: %w", subnet, context.Cause(ctx))
	}
	return l, sealed, err
}

// normal returns t as it is signed: no more votes than needed, in their order;
// of the last lease only what its owner signed; milliseconds.
func (t Takeover) normal() (Takeover, error) {
	if t.Slow() {
		if last, err := LastOf(t.Last); err == nil { // else it is that already
			t.Last = last
		}
		t.At = record.Millis(t.At.UnixMilli())
		return t, nil
	}
	p, err := OpenWitnessSet(t.WitnessSet)
	if err != nil {
		return Takeover{}, fmt.Errorf("%w: %w", ErrTakeover, err)
	}
	type signed struct {
		by  peer.ID
		raw []byte
	}
	var votes []signed
	for _, raw := range t.Votes {
		v, err := OpenVote(raw)
		if err != nil {
			return Takeover{}, fmt.Errorf("%w: %w", ErrTakeover, err)
		}
		votes = append(votes, signed{v.Voter, raw})
	}
	order.SortFunc(votes, func(a, b signed) int { return cmp.Compare(a.by, b.by) })
	votes = slices.CompactFunc(votes, func(a, b signed) bool { return a.by == b.by })
	t.Votes = nil
	for _, v := range votes[:min(len(votes), p.TakeoverQuorum())] {
		t.Votes = append(t.Votes, v.raw)
	}
	return t, nil
}

// openLast opens what is left of the old owner's lease, and returns the digest of its step.
func openLast(envelope []byte) (Lease, Digest, error) {
	l, b, err := openEnvelope(envelope, leaseKind.Open)
	if err != nil {
		return l, Digest{}, err
	}
	k := l.link()
	if l.Epoch > 1 {
		if k.Prev, err = digestOf(b.Prev); err != nil {
			return l, Digest{}, err
		}
	}
	return l, k.digest(l.Network, l.Subnet), nil
}

func (l Lease) checkTakeover() error {
	t := l.Takeover
	quick := len(t.WitnessSet) > 0 || len(t.Votes) > 0
	if quick == (t.Slow() || !t.At.IsZero()) {
		return fmt.Errorf("%w: it is quick or slow, not both", ErrTakeover)
	}
	if quick {
		return l.checkVotes()
	}
	return l.checkSilence()
}

// checkVotes reports whether enough members of the witness set voted for exactly this
// step.
func (l Lease) checkVotes() error {
	p, err := OpenWitnessSet(l.Takeover.WitnessSet)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrTakeover, err)
	}
	if n := len(l.Takeover.Votes); n != p.TakeoverQuorum() {
		return fmt.Errorf("%w: %d votes, want %d", ErrTakeover, n, p.TakeoverQuorum())
	}
	switch {
	case p.Owner == l.Owner:
		return fmt.Errorf("%w: from the owner itself", ErrTakeover)
	case p.Owner != l.before().Owner || p.Network != l.Network:
		return fmt.Errorf("%w: by witnesses of %v, who is not the owner before", ErrTakeover,
			p.Owner)
	}
	var before peer.ID
	for _, raw := range l.Takeover.Votes {
		v, err := OpenVote(raw)
		if err != nil {
			return fmt.Errorf("%w: %w", ErrTakeover, err)
		}
		switch {
		case !p.Has(v.Voter) || v.Voter <= before:
			return fmt.Errorf("%w: %v is no member, or votes out of order", ErrTakeover, v.Voter)
		case v.From != p.Owner || v.SetSeq != p.Seq:
			return fmt.Errorf("%w: a vote for witness set %d of %v", ErrTakeover, v.SetSeq, v.From)
		case v.Subnet != l.Subnet || v.Epoch != l.Epoch || v.To != l.Owner ||
			v.Ended != l.Prev():
			return fmt.Errorf("%w: a vote that %v gets %v at epoch %d", ErrTakeover, v.To, v.Subnet,
				v.Epoch)
		case !l.Issued.IsZero() && v.Issued.Sub(l.Issued) > 2*Skew:
			return fmt.Errorf("%w: a vote after the lease", ErrTakeover)
		}
		before = v.Voter
	}
	return nil
}

// checkSilence tells whether the old owner could have been silent for long enough.
func (l Lease) checkSilence() error {
	t := l.Takeover
	last, ended, err := openLast(t.Last)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrTakeover, err)
	}
	if err := record.CheckMillis(t.At); err != nil {
		return err
	}
	switch {
	case last.Subnet != l.Subnet || last.Epoch+1 != l.Epoch || ended != l.Prev():
		return fmt.Errorf("%w: the last lease is of %v at epoch %d", ErrTakeover, last.Subnet,
			last.Epoch)
	case last.Owner == l.Owner:
		return fmt.Errorf("%w: from the owner itself", ErrTakeover)
	case t.At.Sub(last.Issued) < LongSilence:
		return fmt.Errorf("%w: %v after the last lease", ErrTakeover, t.At.Sub(last.Issued))
	case !l.Issued.IsZero() && t.At.Sub(l.Issued) > Skew:
		return fmt.Errorf("%w: silence until after the lease", ErrTakeover)
	}
	return nil
}

// LastOf returns what a slow Takeover shows of a sealed lease: the part that its owner signed.
func LastOf(sealed []byte) ([]byte, error) {
	s, err := split(sealed)
	if err != nil {
		return nil, err
	}
	last, _, err := record.Attached(s.Envelope)
	return last, err
}
