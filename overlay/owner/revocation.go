package owner

import (
	"context"
	"time"

	"peerd/overlay/witness"
	"peerd/store"
)

// Revoked is Manager.Revoked.
func (k *leases) Revoked(_ context.Context, rs []witness.Revocation) error {
	now := time.Now()
	for _, r := range rs {
		k.mu.Lock()
		s := k.subnets[r.Subnet]
		if s == nil || s.lease.Epoch >= r.Epoch || s.lost() || s.phase == store.PhaseCommitting {
			k.mu.Unlock()
			continue
		}
		first := s.voted(r.By, now)
		news := (first || s.disk == diskUnsaved) && (!s.revoked.IsZero() || k.outvoted(s, now))
		switch {
		case first && news:
			k.revoke(s, now)
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

// SuspectTakeover is Manager.SuspectTakeover.
func (k *leases) SuspectTakeover() {
	now := time.Now()
	k.mu.Lock()
	for _, s := range k.subnets {
		if !s.leaving() {
			s.stale, s.renewAt = true, now
			k.show(s)
		}
	}
	k.mu.Unlock()
	k.wake()
}

// settled records that the lease of an unverified subnet was renewed in a request that
// began at the given time: no better one is known. The table's mutex is held.
func (k *leases) settled(s *subnet, began time.Time) {
	was := s.unverified()
	s.stale = false
	if !s.revoked.IsZero() {
		k.strike(s, began)
	}
	switch end := s.revoked.Add(k.cfg.Times.Revive); {
	case s.revoked.IsZero():
	case began.Before(end):
		s.renewAt = end
	default:
		s.revoked, s.voters = time.Time{}, nil
	}
	if was {
		k.show(s)
	}
}
