package owner

import (
	"slices"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/coords"
	"peerd/coords/assign"
	"peerd/store"
)

const (
	// lendersKept bounds the lenders of a subnet that are remembered.
	lendersKept = 4
	// lentRest is how long a subnet stays at least whose lender's hours ended, and
	// givenBackAtOnce how many go back at one look.
	lentRest        = 10 * time.Minute
	givenBackAtOnce = 4
)

// handOn gives away what has work, some at a time, since the hours of this peer
// end: to the shadow if that takes it, else to the nearest that does. What nobody
// takes stays. The Manager's mutex is held.
func (m *Manager) handOn(all []assign.Candidate, now time.Time) {
	under := 0
	for _, s := range m.subnets {
		if s.leaving() || s.to != "" {
			under++
		}
	}
	for p, s := range m.subnets {
		if under >= drainsAtOnce {
			return
		}
		if s.leaving() || s.to != "" || s.doubted() || m.size(p) == 0 {
			continue
		}
		q, _ := m.question(s, all, now)
		ids := q.choose(all, 1)
		if len(ids) == 0 {
			continue
		}
		s.to, s.syncing, s.lends = ids[0].String(), true, true
		under++
		m.log.Info("subnet leaves as the working hours end", "subnet", s.prefix, "to", s.to)
	}
}

// borrows says whether a subnet of ours is one that somebody's hours brought here.
func (m *Manager) borrows() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, s := range m.subnets {
		if len(s.lenders) > 0 {
			return true
		}
	}
	return false
}

// giveBack sends subnets, with work or without, to whom they were taken from by the
// clock alone, once that peer takes some again and has room; all are this peer and
// those that do. It is decided on once: a lender that takes subnets and is not
// nearer than this peer any more is forgotten, and from then on reviews say where the
// subnet belongs. The Manager's mutex is held.
func (m *Manager) giveBack(all []assign.Candidate, now time.Time) {
	n := 0
	for p, s := range m.subnets {
		if n == givenBackAtOnce {
			return
		}
		if len(s.lenders) == 0 || s.phase != store.PhaseOwned || s.leaving() || s.to != "" || s.doubted() || s.again || now.Sub(s.since) < lentRest {
			continue
		}
		to := m.lenderOf(s, all, now)
		if to == "" {
			continue
		}
		m.balance.given = append(m.balance.given, gift{to, m.size(p), now})
		s.to, s.syncing = to, true
		n++
		m.log.Info("subnet goes back as its lender's hours begin", "subnet", s.prefix, "to", to)
	}
}

// lenderOf returns who is to have a subnet back, of several the one that had it
// first; "" if nobody is now. The Manager's mutex is held.
func (m *Manager) lenderOf(s *subnet, all []assign.Candidate, now time.Time) (to string) {
	q, own := m.question(s, all, now)
	s.lenders = slices.DeleteFunc(s.lenders, func(who string) bool {
		i := slices.IndexFunc(all, func(c assign.Candidate) bool { return c.ID == who })
		if i < 0 || q.not[who] {
			return false // closed, gone, or did not answer
		}
		if !q.nearer(s, all[i], own) {
			return true
		}
		if to == "" && m.size(s.prefix) <= m.balance.leftOf(who, all[i].Capacity*PlainPages) {
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
	there, known := meanTime(s.samples, c.ID)
	here, both := meanTime(s.samples, own.ID)
	return !known || !both || there+c.Wait < here+own.Wait
}

// meanTime is that of the pages that a peer fetched; ok is false if there are none.
func meanTime(samples []coords.Sample, who string) (d time.Duration, ok bool) {
	n := time.Duration(0)
	for _, x := range samples {
		if x.Peer == who && !x.Failed {
			d += x.Connect + x.FirstByte + x.Body
			n++
		}
	}
	return d / max(n, 1), n > 0
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
