package owner

import (
	"cmp"
	"context"
	"errors"
	"net/netip"
	"time"

	"peerd/internal/order"
	"peerd/overlay/hostmove"
	"peerd/overlay/lease"
	"peerd/overlay/record"
)

// A lease that came to this peer while other peers were unreachable may have a rival
// there: of the same claim, or of the same step from one epoch to the next. It is
// therefore read again (record.Rereads) when it was claimed, adopted or taken over, and when
// a silent peer is heard again or the quorum lease is regained; the tie-break then decides
// which owner yields.
//
// After an absence only what came to us shortly before it or during it is read: what
// both sides agreed on can only change by a takeover, which witnesses report.

const (
	// renewedAt and renewedAgainAt are the numbers of the reads that are renewals, if a peer is
	// back. In between, others have renewed theirs, of which the record holders judge.
	renewedAt, renewedAgainAt = 1, 2
	// beforehand is how long before an absence a lease must have come to be known
	// at both sides.
	beforehand = time.Minute
	// A peer that was never heard before may come from a network that was apart: what
	// came within apart is read then. That is done each newcomerSoon in the first
	// hour of this peer, which may have been started while it was cut off, and
	// each newcomerLate afterwards.
	apart        = hostmove.SettledFor
	newcomerSoon = 2 * time.Minute
	newcomerLate = 30 * time.Minute
	// allNew is how long after the start of this peer all peers are new to it.
	allNew = time.Minute
	// longAway is the least time between two reads of all leases because a peer is back
	// after so long that subnets may have been taken over without votes.
	longAway = time.Hour
	// asleep is the time without a look at the other peers after which this process was stopped,
	// or its machine slept. Every quorum lease has ended by then.
	asleep = 15 * time.Second
)

// An Absence is a time in which another peer was not heard.
type Absence struct {
	From time.Time // when it was last heard before; zero: never
	To   time.Time // when it was heard again
}

// absences is what is remembered of absences that are over. Of Run alone.
type absences struct {
	lostAt   time.Time // since when there is no right; zero: there is
	newcomer time.Time // when leases were last read because of one
	all      time.Time // when all were
}

// arm schedules reads of the lease of a subnet. The table's mutex is held.
func (s *subnet) arm(now time.Time) {
	s.rereads.Arm(now)
	s.back = false
}

// ObserveLease processes a lease that another peer announced. If it beats ours, ours is
// renewed at once, which shows whether it stands. URLs may wait for an earlier owner.
func (k *leases) ObserveLease(l lease.Lease) {
	k.mu.Lock()
	s := k.subnets[l.Subnet]
	rival := s != nil && l.Owner != k.cfg.Self && !s.unit.Leaves() && k.beats(l, s.lease)
	k.mu.Unlock()
	switch {
	case s == nil:
		k.cfg.Outbox.Announced(l.Subnet, l.Owner)
	case rival:
		k.suspect(s, time.Now())
		k.wake()
	}
}

// toRead returns what reads the leases that are due, the youngest first.
func (k *leases) toRead(now time.Time) []func(context.Context) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.reading {
		return nil
	}
	var due []*subnet
	for _, s := range k.subnets {
		if s.rereads.Due(now) {
			due = append(due, s)
		}
	}
	if len(due) == 0 {
		return nil
	}
	order.SortFunc(due, func(a, b *subnet) int {
		return cmp.Or(b.since.Compare(a.since), a.prefix.Addr().Compare(b.prefix.Addr()))
	})
	var prefixes []netip.Prefix
	for _, s := range due[:min(len(due), record.ReadsPerTick)] {
		// A read ends with the first few answers, which may all be of one side;
		// a renewal goes to all who keep the lease.
		n := s.rereads.Begin()
		if (n == renewedAt || n == renewedAgainAt) && s.back && s.renewAt.After(now) {
			s.renewAt = now
		}
		prefixes = append(prefixes, s.prefix)
	}
	k.reading = true
	return []func(context.Context){func(ctx context.Context) {
		record.Reread(ctx, prefixes, k.reread)
		k.mu.Lock()
		k.reading = false
		k.mu.Unlock()
	}}
}

// reread reads the lease of a subnet of ours, which is given up if there is a
// better one.
func (k *leases) reread(ctx context.Context, p netip.Prefix) {
	l, _, err := k.cfg.Leases.Refresh(ctx, p)
	switch {
	case err == nil:
		k.beaten(l)
	case !errors.Is(err, lease.ErrUnowned) && ctx.Err() == nil:
		k.log.Debug("failed to read lease", "subnet", p, "err", err)
	}
}
