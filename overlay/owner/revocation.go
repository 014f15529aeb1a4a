package owner

import (
	"context"
	"time"

	"peerd/overlay/ownership"
	"peerd/overlay/witness"
)

// Revoked takes in that witnesses have voted subnets of ours away: given to
// witness.Config.Revoked. When it returns nil nothing is begun there any more,
// and that is on the disk, unless the other witnesses are enough to prevent a takeover.
// The lease is renewed at once, which shows a better one; where there is none when the
// candidate's time is over, we go on.
func (k *leases) Revoked(_ context.Context, rs []witness.Revocation) error {
	now := time.Now()
	for _, r := range rs {
		k.mu.Lock()
		s := k.subnets[r.Subnet]
		if s == nil || s.lease.Epoch >= r.Epoch || s.unit.State >= ownership.Granted {
			k.mu.Unlock()
			continue
		}
		votes, what := s.votes.Told(s.unit, r.By, now, s.disk == diskUnsaved, k.tooFew(now))
		s.votes = votes
		switch what {
		case ownership.Outvoted:
			k.step(s, ownership.Event{Kind: what, At: now})
		case ownership.Renewed:
			s.renewAt = now
		}
		k.mu.Unlock()
		if what != ownership.Outvoted {
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

// tooFew returns a function that reports whether those witnesses that have not voted may be too
// few to prevent a takeover. It uses memory only.
func (k *leases) tooFew(now time.Time) func(ownership.Votes) bool {
	return func(vs ownership.Votes) bool {
		if k.cfg.Witness == nil {
			return true
		}
		ok, until := k.cfg.Witness.QuorumLeaseWithout(vs.By())
		return !ok || until.Sub(now) <= 2*k.cfg.Tick // it is looked at again in each tick
	}
}

// recount stops the subnets that may have been voted away by now, and resumes those that cannot
// have been. The error comes from the store.
func (k *leases) recount(now time.Time) error {
	var stopped []*subnet
	var retired time.Time
	if k.cfg.Witness != nil {
		retired = k.cfg.Witness.Retired()
	}
	k.mu.Lock()
	for _, s := range k.subnets {
		votes, what := s.votes.Recounted(s.unit, now, witness.VoteLife, k.cfg.Times.Revive,
			k.tooFew(now), retired)
		s.votes = votes
		if what != 0 && k.step(s, ownership.Event{Kind: what, At: now}) {
			stopped = append(stopped, s)
		}
	}
	k.mu.Unlock()
	for _, s := range stopped {
		if err := k.save(s); k.noteDiskFull(err) != nil {
			return err
		}
	}
	return nil
}

// SuspectTakeover reports that our subnets may have been taken over without our
// knowledge; package witness calls it. Each lease is renewed before anything is fetched
// there again.
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
