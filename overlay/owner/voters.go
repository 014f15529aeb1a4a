package owner

import (
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/overlay/witness"
	"peerd/store"
)

// A witness that says that it has voted a subnet away may lie, or its candidate may not have got
// the other votes. As long as so many of the other witnesses hear this peer that the rest are too
// few for a takeover, the vote changes nothing: whoever hears this peer has not voted, as its
// acknowledgement would say so, and does not for some time. So work stops only if the others
// are too few, and a witness is replaced if its vote led to no lease.

// voter is what is known of the votes of one witness: when it told of the first one for which it is
// not struck yet, and of the last one.
type voter struct{ first, last time.Time }

// revoteAfter is how long after a witness has told of a vote it may have voted again for the same
// candidate: it heard this peer when it told, and then keeps its promise of 20 s. Less 5 s for the
// reply, and a quarter for the rates of clocks.
const revoteAfter = 10 * time.Second

// voted notes that a witness voted for another owner, and reports whether that is another vote than
// those that are known. The table's mutex is held.
func (s *subnet) voted(by peer.ID, now time.Time) bool {
	v, known := s.voters[by]
	if known && now.Sub(v.last) < revoteAfter {
		return false
	}
	if s.voters == nil {
		s.voters = map[peer.ID]voter{}
	}
	if !known || s.revoked.IsZero() {
		v.first = now
	}
	v.last = now
	s.voters[by] = v
	return true
}

// outvoted reports whether those witnesses that have not voted may be too few to prevent a
// takeover. The table's mutex is held.
func (k *leases) outvoted(s *subnet, now time.Time) bool {
	var by []peer.ID
	for id := range s.voters {
		by = append(by, id)
	}
	if len(by) == 0 {
		return false
	}
	if k.cfg.Witness == nil {
		return true
	}
	ok, until := k.cfg.Witness.QuorumLeaseWithout(by)
	return !ok || until.Sub(now) <= 2*k.cfg.Tick // it is looked at again in each tick
}

// recount stops the subnets that may have been voted away by now, and resumes those that cannot
// have been. The error comes from the store.
func (k *leases) recount(now time.Time) error {
	var stopped []*subnet
	k.mu.Lock()
	for _, s := range k.subnets {
		for id, v := range s.voters {
			if now.Sub(v.last) >= witness.VoteLife {
				delete(s.voters, id)
			}
		}
		if len(s.voters) == 0 || s.lost() || s.phase == store.PhaseCommitting {
			continue
		}
		switch out := k.outvoted(s, now); {
		case out && s.revoked.IsZero() && s.votable(now, k.cfg.Times.Revive):
			k.revoke(s, now)
			stopped = append(stopped, s)
		case !out && !s.revoked.IsZero():
			s.revoked = time.Time{}
			k.show(s)
		}
	}
	k.mu.Unlock()
	for _, s := range stopped {
		if err := k.save(s); k.intake.noteDiskFull(err) != nil {
			return err
		}
	}
	return nil
}

// votable reports whether the newest vote against s may still be used by its candidate. The
// table's mutex is held.
func (s *subnet) votable(now time.Time, revive time.Duration) bool {
	for _, v := range s.voters {
		if now.Sub(v.last) < revive {
			return true
		}
	}
	return false
}

// revoke stops a subnet until it is known whether it has another owner. The table's mutex is
// held.
func (k *leases) revoke(s *subnet, now time.Time) {
	s.revoked, s.renewAt = now, now
	k.show(s)
}

// strike has the witnesses replaced that voted against s when there was still no better lease at a
// time when that vote could not be used any more. The table's mutex is held.
func (k *leases) strike(s *subnet, checked time.Time) {
	if k.cfg.Witness == nil {
		return
	}
	for id, v := range s.voters {
		if checked.Before(v.first.Add(k.cfg.Times.Revive)) {
			continue
		}
		s.voters[id] = voter{first: checked, last: v.last}
		k.struck.Add(1)
		k.log.Warn("votes of a witness led to no lease; replacing it", "subnet", s.prefix,
			"witness", id)
		k.cfg.Witness.Strike(id)
	}
}

// Struck is Manager.Struck.
func (k *leases) Struck() int64 { return k.struck.Load() }
