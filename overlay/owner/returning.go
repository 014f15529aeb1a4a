package owner

import (
	"context"
	"net/netip"
	"slices"
	"time"

	"peerd/overlay/lease"
	"peerd/overlay/witness"
	"peerd/store"
)

// Right says whether this peer may act as the owner of its subnets now. It only
// looks at memory.
func (m *Manager) Right() bool {
	if m.cfg.Witness == nil {
		return true
	}
	ok, _ := m.cfg.Witness.Right()
	return ok
}

// Revoked takes in that witnesses have voted subnets of ours away: given to
// witness.Config.Revoked. When it returns nil nothing is begun there any more,
// and that is on the disk. The lease is renewed at once, which shows a better one; where
// there is none when the candidate's time is over, we go on.
func (m *Manager) Revoked(_ context.Context, rs []witness.Revocation) error {
	now := time.Now()
	for _, r := range rs {
		m.mu.Lock()
		s := m.subnets[r.Subnet]
		if s == nil || s.lease.Epoch >= r.Epoch || s.lost || s.phase == store.PhaseCommitting {
			m.mu.Unlock()
			continue
		}
		news := s.revoked.IsZero() || s.unsaved
		s.revoked, s.renewAt = now, now
		m.cfg.Frontier.Shut(s.prefix)
		m.mu.Unlock()
		if !news {
			continue
		}
		m.log.Warn("a witness has voted for another owner", "subnet", r.Subnet, "epoch", r.Epoch, "to", r.To, "by", r.By)
		if err := m.save(s); err != nil {
			return err
		}
	}
	m.wake()
	return m.cfg.DB.Sync()
}

// Uncertain takes in that our subnets may have been taken over without our being
// told: given to witness.Config.Doubt. Each lease is renewed before anything is
// fetched there again.
func (m *Manager) Uncertain() {
	now := time.Now()
	m.mu.Lock()
	for _, s := range m.subnets {
		if !s.leaving() {
			s.stale, s.renewAt = true, now
			m.cfg.Frontier.Shut(s.prefix)
		}
	}
	m.mu.Unlock()
	m.wake()
}

// settled takes in that the lease of a subnet in doubt was renewed, which began
// at that time: no better one is known. The Manager's mutex is held.
func (m *Manager) settled(s *subnet, began time.Time) {
	was := s.doubted()
	s.stale = false
	switch end := s.revoked.Add(m.cfg.Times.Revive); {
	case s.revoked.IsZero():
	case began.Before(end):
		s.renewAt = end
	default:
		s.revoked = time.Time{}
	}
	if was && !s.doubted() && !s.leaving() {
		m.cfg.Frontier.Resume(s.prefix)
	}
}

// suspect has the lease of a subnet renewed soon, because a peer says that it
// knows a better one.
func (m *Manager) suspect(s *subnet, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if s.renewAt.After(now) && now.Sub(s.suspected) > suspectEvery {
		s.renewAt, s.suspected = now, now
	}
}

// suspectEvery is how often a lease is renewed on a peer's word.
const suspectEvery = 15 * time.Second

// unknown returns how much of our log the owner of a better lease may not have,
// if that is known: it is a shadow of ours that has taken over.
func (m *Manager) unknown(s *subnet, by lease.Lease) (after uint64, ok bool) {
	m.mu.Lock()
	mine := s.lease
	whole := slices.ContainsFunc(s.keepers, func(k keeper) bool { return k.id == by.Owner && k.synced })
	m.mu.Unlock()
	if !whole { // what it had of our log is no beginning: it may have begun anew
		return 0, false
	}
	if m.cfg.Replicas == nil || by.Epoch != mine.Epoch+1 || by.Takeover == nil || by.Takeover.Slow() {
		return 0, false
	}
	if from, err := by.Takeover.From(); err != nil || from != m.cfg.Self {
		return 0, false
	}
	head, _, logged := m.cfg.DB.TailHead(s.prefix)
	at := m.cfg.Replicas.State(s.prefix, by.Owner).Pos
	return at.Seq, logged && at.Log == head.Log && at.Seq > 0
}

// putRest routes what was queued in a paused subnet behind a place in its log and
// still is. What waits in the outbox goes its way anyway.
func (m *Manager) putRest(p netip.Prefix, after uint64) error {
	for more := true; more; {
		var found []store.Pending
		err := m.cfg.DB.View(func(tx *store.Tx) error {
			more = false
			return tx.Tail(p, after, func(seq uint64, raw []byte) (bool, error) {
				fs, err := queuedBy(tx, raw)
				found, after = append(found, fs...), seq
				more = len(found) >= asideAtOnce
				return !more, err
			})
		})
		if err == nil && len(found) > 0 {
			err = m.cfg.Route(found)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// queuedBy returns the URLs that a record of the log has queued and that are
// queued still.
func queuedBy(tx *store.Tx, raw []byte) (found []store.Pending, err error) {
	ops, err := store.DecodeOps(raw)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	for _, o := range ops {
		if o.Kind != store.OpEntry || o.Seq == 0 || o.Entry.Kind.Revisit() {
			continue
		}
		err := tx.QueueOf(o.Name, o.Depth, o.Seq-1, func(e store.Entry) (bool, error) {
			if _, seq := e.Place(); seq == o.Seq {
				found = append(found, aside(e, now, netip.Addr{}))
			}
			return false, nil
		})
		if err != nil {
			return nil, err
		}
	}
	return found, nil
}

// aside is a queued URL as it is put aside for another owner.
func aside(e store.Entry, now time.Time, hint netip.Addr) store.Pending {
	return store.Pending{
		URL: e.URL, Depth: e.Depth, Found: now, Hint: hint, Kind: e.Kind & store.KindSitemap, Hops: e.Hops,
	}
}
