package lease

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/coords"
)

// A Takeover stands for the consent of an owner that is silent. It is of one of
// two kinds:
//
//	quick  Panel and Votes: the witnesses that the owner itself had named say so
//	slow   Last and At: nobody has heard of the owner for LongSilence
type Takeover struct {
	// Panel is the old owner's sealed Panel.
	Panel []byte
	// Votes are sealed Votes, as many as the panel needs, in the order of voters.
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
		last, err := openLast(t.Last)
		return last.Owner, err
	}
	p, err := OpenPanel(t.Panel)
	return p.Owner, err
}

// TakeOver makes this peer the owner of a subnet whose owner is silent: t is the
// evidence, for just this step. It reads the DHT first, and writes unless something
// as good is there. With votes it is made at once; the deadline of ctx has to be
// the end of the time within which the votes may be used, and after it the
// caller must not act upon what was written. Without votes it is settled like a
// claim, and a single replica that heard the old owner is enough to refuse.
// It may be repeated. It fails with ErrTakeover and the other reasons of checks,
// with *BeatenError when another has the epoch or a later one, with ErrContested,
// with the end of ctx, or what the DHT said.
func (r *Registry) TakeOver(ctx context.Context, subnet netip.Prefix, epoch uint64, t Takeover, proxy *coords.Proxy) (Lease, []byte, error) {
	if t.Slow() && t.At.IsZero() {
		t.At = r.now()
	}
	t, err := t.normal()
	if err != nil {
		return Lease{}, nil, err
	}
	l := Lease{Subnet: subnet, Owner: r.cfg.Self, Epoch: epoch, Takeover: &t, Proxy: proxy}
	if _, err := SealLease(r.stamp(l), r.cfg.Key); err != nil {
		return Lease{}, nil, err // before anybody is asked
	}
	e, ok, err := r.read(ctx, subnet)
	switch {
	case ok && rivals(e.lease, l) || ok && e.lease.Epoch >= epoch && e.lease.Owner != r.cfg.Self:
		return Lease{}, nil, beaten(e) // of equal epoch, too: who came first may be at work
	case err != nil:
		return Lease{}, nil, err
	case t.Slow():
		return r.settle(ctx, l)
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
		if s, err := split(t.Last); err == nil {
			t.Last = s.Envelope
		}
		t.At = millis(t.At.UnixMilli())
		return t, nil
	}
	p, err := OpenPanel(t.Panel)
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
	slices.SortFunc(votes, func(a, b signed) int { return cmp.Compare(a.by, b.by) })
	votes = slices.CompactFunc(votes, func(a, b signed) bool { return a.by == b.by })
	t.Votes = nil
	for _, v := range votes[:min(len(votes), p.Needed())] {
		t.Votes = append(t.Votes, v.raw)
	}
	return t, nil
}

// openLast opens what is left of the old owner's lease.
func openLast(envelope []byte) (Lease, error) {
	l, _, err := openEnvelope(envelope)
	return l, err
}

func (l Lease) checkTakeover() error {
	t := l.Takeover
	quick := len(t.Panel) > 0 || len(t.Votes) > 0
	if quick == (t.Slow() || !t.At.IsZero()) {
		return fmt.Errorf("%w: it is quick or slow, not both", ErrTakeover)
	}
	if quick {
		return l.checkVotes()
	}
	return l.checkSilence()
}

// checkVotes tells whether enough of the panel's members voted for just this step.
func (l Lease) checkVotes() error {
	p, err := OpenPanel(l.Takeover.Panel)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrTakeover, err)
	}
	if n := len(l.Takeover.Votes); n != p.Needed() {
		return fmt.Errorf("%w: %d votes, want %d", ErrTakeover, n, p.Needed())
	}
	if p.Owner == l.Owner {
		return fmt.Errorf("%w: from the owner itself", ErrTakeover)
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
		case v.From != p.Owner || v.PanelSeq != p.Seq:
			return fmt.Errorf("%w: a vote of panel %d of %v", ErrTakeover, v.PanelSeq, v.From)
		case v.Subnet != l.Subnet || v.Epoch != l.Epoch || v.To != l.Owner:
			return fmt.Errorf("%w: a vote that %v gets %v at epoch %d", ErrTakeover, v.To, v.Subnet, v.Epoch)
		case v.Issued.Sub(l.Issued) > 2*Skew:
			return fmt.Errorf("%w: a vote after the lease", ErrTakeover)
		}
		before = v.Voter
	}
	return nil
}

// checkSilence tells whether the old owner could have been silent for long enough.
func (l Lease) checkSilence() error {
	t := l.Takeover
	last, err := openLast(t.Last)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrTakeover, err)
	}
	if err := checkMillis(t.At); err != nil {
		return err
	}
	switch {
	case last.Subnet != l.Subnet || last.Epoch+1 != l.Epoch:
		return fmt.Errorf("%w: the last lease is of %v at epoch %d", ErrTakeover, last.Subnet, last.Epoch)
	case last.Owner == l.Owner:
		return fmt.Errorf("%w: from the owner itself", ErrTakeover)
	case t.At.Sub(last.Issued) < LongSilence:
		return fmt.Errorf("%w: %v after the last lease", ErrTakeover, t.At.Sub(last.Issued))
	case t.At.Sub(l.Issued) > Skew:
		return fmt.Errorf("%w: silence until after the lease", ErrTakeover)
	}
	return nil
}

// checkHeard tells whether a peer that heard the old owner at heard, the zero time
// for never, may hold a slow takeover at now. Once the old owner is heard again
// after the takeover, or the takeover is old, the answer is yes for good.
func (l Lease) checkHeard(heard func(peer.ID) time.Time, now time.Time) error {
	t := l.Takeover
	if heard == nil || t == nil || !t.Slow() || now.Sub(t.At) > LongSilence {
		return nil
	}
	from, err := t.From()
	if err != nil {
		return err
	}
	if at := heard(from); at.After(t.At.Add(-LongSilence)) && !at.After(t.At.Add(Skew)) {
		return fmt.Errorf("%w: %v before the takeover", ErrHeard, t.At.Sub(at))
	}
	return nil
}
