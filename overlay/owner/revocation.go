package owner

import (
	"context"
	"time"

	"peerd/overlay/ownership"
	"peerd/overlay/witness"
)

// Revoked is Manager.Revoked.
func (k *leases) Revoked(_ context.Context, rs []witness.Revocation) error {
	now := time.Now()
	for _, r := range rs {
		k.mu.Lock()
		s := k.subnets[r.Subnet]
		if s == nil || s.lease.Epoch >= r.Epoch || s.unit.State >= ownership.Granted {
			k.mu.Unlock()
			continue
		}
		doubted := s.unit.Doubt&ownership.VotedAway != 0
		votes, first := s.votes.Add(r.By, now, !doubted)
		s.votes = votes
		news := (first || s.disk == diskUnsaved) && (doubted || k.outvoted(s, now))
		switch {
		case first && news:
			k.step(s, ownership.Event{Kind: ownership.Outvoted, At: now})
		case first:
			s.renewAt = now // to see whether there is a better lease all the same
		}
		k.mu.Unlock()
		if !news {
			continue
		}
		k.log.Warn("witness voted for another owner", "subnet", r.Subnet, "epoch", r.Epoch,
			"to", r.To, "by", r.By)
		if err := k.save(s); err != nil {
			return err
		}
	}
	k.wake()
	return k.cfg.DB.Sync()
}

// outvoted reports whether those witnesses that have not voted may be too few to prevent a
// takeover. The table's mutex is held.
func (k *leases) outvoted(s *subnet, now time.Time) bool {
	if len(s.votes) == 0 {
		return false
	}
	if k.cfg.Witness == nil {
		return true
	}
	ok, until := k.cfg.Witness.QuorumLeaseWithout(s.votes.By())
	return !ok || until.Sub(now) <= 2*k.cfg.Tick // it is looked at again in each tick
}

// recount stops the subnets that may have been voted away by now, and resumes those that cannot
// have been. The error comes from the store.
func (k *leases) recount(now time.Time) error {
	var stopped []*subnet
	k.mu.Lock()
	for _, s := range k.subnets {
		s.votes = s.votes.Since(now.Add(-witness.VoteLife))
		if len(s.votes) == 0 {
			continue
		}
		doubted := s.unit.Doubt&ownership.VotedAway != 0
		usable := len(s.votes.Since(now.Add(-k.cfg.Times.Revive))) > 0
		switch out := k.outvoted(s, now); {
		case out && !doubted && usable:
			if k.step(s, ownership.Event{Kind: ownership.Outvoted, At: now}) {
				stopped = append(stopped, s)
			}
		case !out && doubted:
			k.step(s, ownership.Event{Kind: ownership.Upheld})
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

// SuspectTakeover is Manager.SuspectTakeover.
func (k *leases) SuspectTakeover() {
	k.mu.Lock()
	for _, s := range k.subnets {
		k.step(s, ownership.Event{Kind: ownership.Suspected})
	}
	k.mu.Unlock()
	k.wake()
}

// settled records that the lease of a subnet was renewed in a request that began at the given
// time: no better one is known. Witnesses are replaced if their votes led to none. The table's
// mutex is held.
func (k *leases) settled(s *subnet, began time.Time) {
	if s.unit.Doubt&ownership.VotedAway != 0 && k.cfg.Witness != nil {
		votes, by := s.votes.Refuted(began, k.cfg.Times.Revive)
		s.votes = votes
		for _, id := range by {
			k.struck.Add(1)
			k.log.Warn("votes of a witness led to no lease; replacing it", "subnet", s.prefix,
				"witness", id)
			k.cfg.Witness.Strike(id)
		}
	}
	doubted := s.unit.Doubt&ownership.VotedAway != 0
	k.step(s, ownership.Event{Kind: ownership.Renewed, At: began})
	if doubted && s.unit.Doubt&ownership.VotedAway == 0 {
		s.votes = nil
	}
}

// Struck is Manager.Struck.
func (k *leases) Struck() int64 { return k.struck.Load() }
