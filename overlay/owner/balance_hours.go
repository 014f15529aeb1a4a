package owner

import (
	"slices"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/coords/assign"
	"peerd/overlay/ownership"
)

const (
	// lendersKept bounds the lenders of a subnet that are remembered.
	lendersKept = 4
	// lentCooldown is the least time that a lent subnet stays, and givenBackAtOnce the
	// number that return in one round.
	lentCooldown    = 10 * time.Minute
	givenBackAtOnce = 4
)

// handOn gives away subnets with work, some at a time, because the hours of this peer
// end: to a replica if it accepts, otherwise to the nearest peer that does. What no peer
// accepts stays. The table's mutex is held.
func (b *balance) handOn(all []assign.Candidate, now time.Time) {
	under := 0
	for _, s := range b.subnets {
		if !s.unit.Stays() {
			under++
		}
	}
	for p, s := range b.subnets {
		if under >= drainsAtOnce {
			return
		}
		if !s.unit.Usable() || b.size(p) == 0 {
			continue
		}
		q, _ := b.question(s, all, now)
		ids := q.choose(all, 1)
		if len(ids) == 0 {
			continue
		}
		b.step(s, ownership.Event{Kind: ownership.Moved, To: ids[0].String(),
			Why: ownership.ReasonHours})
		under++
		b.log.Info("started handover: working hours end", "subnet", s.prefix, "to", s.unit.To)
	}
}

// borrows reports whether a subnet came here because another peer's hours ended.
func (b *balance) borrows() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, s := range b.subnets {
		if len(s.lenders) > 0 {
			return true
		}
	}
	return false
}

// giveBack sends subnets, with work or without, to whom they were taken from by the
// clock alone, once that peer takes some again and has capacity; all are this peer and
// those that do. It is decided on once: a lender that takes subnets and is not
// nearer than this peer any more is forgotten, and from then on reviews say where the
// subnet belongs. The table's mutex is held.
func (b *balance) giveBack(all []assign.Candidate, now time.Time) {
	n := 0
	for p, s := range b.subnets {
		if n == givenBackAtOnce {
			return
		}
		if len(s.lenders) == 0 || !s.free() || now.Sub(s.since) < lentCooldown {
			continue
		}
		to := b.lenderOf(s, all, now)
		if to == "" {
			continue
		}
		b.balancer.given = append(b.balancer.given, release{to, b.size(p), now})
		b.step(s, ownership.Event{Kind: ownership.Moved, To: to})
		n++
		b.log.Info("started handover: lender's working hours begin", "subnet", s.prefix, "to", to)
	}
}

// lenderOf returns the peer to which a subnet returns, of several the first owner; "" if
// there is none now. The table's mutex is held.
func (b *balance) lenderOf(s *subnet, all []assign.Candidate, now time.Time) (to string) {
	q, own := b.question(s, all, now)
	s.lenders = slices.DeleteFunc(s.lenders, func(who string) bool {
		i := slices.IndexFunc(all, func(c assign.Candidate) bool { return c.ID == who })
		if i < 0 || q.not[who] {
			return false // closed, gone, or did not answer
		}
		if !q.nearer(s, all[i], own) {
			return true
		}
		if to == "" && b.size(s.prefix) <= b.balancer.leftOf(who, all[i].Capacity*NominalPages) {
			to = who
		}
		return false
	})
	return to
}

// nearer says whether a page of s comes sooner to c than to its owner: as its proxy
// predicts, else as measured. If nothing is known, as under strategies that do not
// ask where servers are, whoever was chosen is.
func (q nomination) nearer(s *subnet, c, own assign.Candidate) bool {
	if s.lease.Proxy != nil {
		return q.option(c, own).time < q.option(own, own).time
	}
	there, known := s.history.meanTime(c.ID)
	here, both := s.history.meanTime(own.ID)
	return !known || !both || there+c.Wait < here+own.Wait
}

// lendersOf are those of a subnet at its owner self: what was lent onwards from
// here is at home again.
func lendersOf(names []string, self string) []string {
	if i := slices.Index(names, self); i >= 0 {
		names = names[:i]
	}
	names = slices.DeleteFunc(slices.Clone(names), func(who string) bool {
		_, err := peer.Decode(who)
		return err != nil
	})
	return names[max(0, len(names)-lendersKept):]
}
