package owner

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"time"

	"peerd/overlay/lease"
	"peerd/overlay/shadow"
	"peerd/store"
)

// promote makes a copy ours, by a lease that stands in the DHT. It may be
// repeated.
func (m *Manager) promote(h shadow.Held, l lease.Lease, sealed []byte) error {
	p := h.Subnet
	if m.Live(p) {
		return nil
	}
	err := m.cfg.Replicas.PromoteBy(p, func(at store.TailPos) error {
		rec, hosts, err := m.copyOf(p)
		if err != nil {
			return err
		}
		if err := m.putLinks(p); err != nil {
			return err
		}
		s, err := m.taken(rec, l, sealed)
		if err != nil {
			return err
		}
		s.shun(h.Owner.String(), time.Now())
		if err := m.enrol(s, at, store.Counters{}); err != nil {
			return err
		}
		m.admit(s, hosts, time.Now().Add(m.cfg.Rest))
		return nil
	})
	if err != nil {
		return fmt.Errorf("promote: %w", err)
	}
	m.takeovers.Add(1)
	m.log.Warn("subnet taken over from a silent owner", "subnet", p, "owner", h.Owner, "epoch", l.Epoch)
	return nil
}

// copyOf reads what is on the disk of a copy.
func (m *Manager) copyOf(p netip.Prefix) (rec store.Subnet, hosts []store.Host, err error) {
	err = m.cfg.DB.View(func(tx *store.Tx) (err error) {
		if rec, err = tx.Subnet(p); err != nil {
			return err
		}
		hosts, err = tx.HostsOf(p)
		return err
	})
	if err == nil && rec.Phase != store.PhaseShadow && !m.halfTaken(rec) {
		err = fmt.Errorf("the subnet is %v here", rec.Phase)
	}
	return rec, hosts, err
}

// halfTaken says whether a record is what a promotion wrote that failed afterwards,
// as the disk did not sync: it is done again.
func (m *Manager) halfTaken(rec store.Subnet) bool {
	l, err := lease.OpenLease(rec.Lease)
	return err == nil && l.Owner == m.cfg.Self && (rec.Phase == store.PhaseOwned || rec.Phase == store.PhaseDeciding)
}

// putLinks puts the URLs aside that the old owner's pages linked to and that it
// had not delivered: now that is for us. Done before the subnet is ours, since
// it is done again when it is broken off.
func (m *Manager) putLinks(p netip.Prefix) error {
	fresh, err := m.cfg.DB.PromoteOutlinks(p)
	if len(fresh) > 0 && m.cfg.Deferred != nil {
		byHost := make(map[string]int, len(fresh))
		for _, h := range fresh {
			byHost[h.Host] = h.Count
		}
		m.cfg.Deferred(byHost)
	}
	return err
}

// taken is a subnet that was taken over: what its owner was about to find out,
// we go on finding out.
func (m *Manager) taken(rec store.Subnet, l lease.Lease, sealed []byte) (*subnet, error) {
	now := time.Now()
	e := openEvidence(rec.Evidence).shifted(now)
	phase := store.PhaseOwned
	if e.Deciding {
		phase = store.PhaseDeciding
	}
	s, err := fromRecord(store.Subnet{
		Prefix: rec.Prefix, Phase: phase, Lease: sealed, Since: now,
		Estimations: min(max(rec.Estimations, 0), maxEstimations),
	})
	if err != nil {
		return nil, err
	}
	s.inherit(e)
	s.renewAt, s.idleSince = now.Add(m.cfg.LeaseTTL/3), now
	return s, nil
}

// inherit takes over what another owner knew of a subnet. Its shadows have
// most of what new ones would need.
func (s *subnet) inherit(e evidence) {
	s.samples, s.watch.Moves = e.Samples, e.Moves
	s.trim()
	s.prefer = append(s.prefer, e.Keepers...)
	s.lenders = lendersOf(e.Lenders, s.lease.Owner.String())
}

// enrol writes a subnet down that has come to this peer: its log, which
// continues base, its state, and n.
func (m *Manager) enrol(s *subnet, base store.TailPos, n store.Counters) error {
	if m.cfg.Replicas != nil {
		if err := m.cfg.DB.StartTail(s.prefix, rand.Uint64()|1, base); err != nil {
			return err
		}
	}
	rec, err := s.record()
	if err != nil {
		return err
	}
	err = m.cfg.DB.Update(func(tx *store.Tx) error {
		tx.Count(n)
		return tx.PutSubnet(rec)
	})
	if err != nil {
		return err
	}
	return m.cfg.DB.Sync()
}

// admit makes a subnet that is written down known to all of this peer. Its
// servers are not asked before at.
func (m *Manager) admit(s *subnet, hosts []store.Host, at time.Time) {
	m.mu.Lock()
	s.arm(time.Now(), false)
	m.subnets[s.prefix] = s
	m.cfg.Frontier.Adopt(s.prefix, hosts, at)
	if s.phase == store.PhaseDeciding {
		m.cfg.Frontier.Single(s.prefix, true)
	}
	m.mu.Unlock()
	m.cfg.Moved(s.prefix)
	m.wake()
}
