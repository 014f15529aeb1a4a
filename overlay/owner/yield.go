package owner

import (
	"context"
	"errors"
	"net/netip"
	"time"

	"peerd/overlay/lease"
	"peerd/store"
)

// beats says whether the lease `by` of another peer ends what ours allows. One
// of ours that is past its grace has lost its rank.
func (m *Manager) beats(by, ours lease.Lease) bool {
	return lease.Better(by, ours) > 0 || time.Since(ours.Expires) > lease.Grace
}

// beaten stops a subnet of ours because the owner of a better lease was met;
// Run yields it then. One that is already committed to an heir goes its way.
func (m *Manager) beaten(by lease.Lease) {
	m.mu.Lock()
	s := m.subnets[by.Subnet]
	if s == nil || by.Owner == m.cfg.Self || s.lost || s.phase == store.PhaseCommitting || !m.beats(by, s.lease) {
		m.mu.Unlock()
		return
	}
	s.lost, s.by = true, by
	m.cfg.Frontier.Shut(s.prefix)
	m.mu.Unlock()
	m.log.Warn("subnet yields to a better lease", "subnet", by.Subnet, "owner", by.Owner, "epoch", by.Epoch)
	m.wake()
}

// leave yields a subnet that is lost; what goes wrong is tried again at the
// next tick.
func (m *Manager) leave(ctx context.Context, s *subnet) {
	err := m.save(s) // broken off, it is not to be used before its lease is renewed
	if err == nil {
		err = m.yield(ctx, s)
	}
	if err == nil {
		return
	}
	if m.stall(err) != nil && ctx.Err() == nil {
		m.log.Error("subnet not yielded", "subnet", s.prefix, "err", err)
	}
	m.mu.Lock()
	s.moving = false
	m.mu.Unlock()
}

// yield gives a subnet up: nothing is fetched there any more, and what is
// queued is put aside for the winner as URLs that we found, as far as it may not
// have it. When it returns nil the subnet has left this peer.
func (m *Manager) yield(ctx context.Context, s *subnet) error {
	s.adding.Wait()
	if err := m.cfg.Frontier.Pause(ctx, s.prefix); err != nil {
		return err
	}
	m.mu.Lock()
	by := s.by
	m.mu.Unlock()
	after, known := m.unknown(s, by)
	if known {
		err := m.putRest(s.prefix, after)
		if err == nil {
			return m.forget(s, store.Counters{})
		}
		if !errors.Is(err, store.ErrTailGone) {
			return err
		}
	}
	if err := m.putAll(s.prefix); err != nil {
		return err
	}
	return m.forget(s, store.Counters{})
}

// putAll routes what is queued in a paused subnet.
func (m *Manager) putAll(p netip.Prefix) error {
	var hosts []store.Host
	err := m.cfg.DB.View(func(tx *store.Tx) (err error) {
		hosts, err = tx.HostsOf(p)
		return err
	})
	for _, h := range hosts {
		if err == nil {
			err = m.putAside(h)
		}
	}
	return err
}

// asideAtOnce bounds the URLs in memory while a subnet is yielded.
const asideAtOnce = 1000

// putAside routes what is queued at a host of a paused subnet.
func (m *Manager) putAside(h store.Host) error {
	now := time.Now()
	var last []byte
	for {
		var found []store.Pending
		err := m.cfg.DB.View(func(tx *store.Tx) error {
			return tx.Queue(h.Name, last, func(e store.Entry) (bool, error) {
				found = append(found, aside(e, now, h.Addr))
				last = e.Key
				return len(found) < asideAtOnce, nil
			})
		})
		if err != nil || len(found) == 0 {
			return err
		}
		if err := m.cfg.Route(found); err != nil { // paused, so all are put aside
			return err
		}
	}
}

// forget removes a subnet's state and hosts.
func (m *Manager) forget(s *subnet, n store.Counters) error {
	var hosts []store.Host
	err := m.cfg.DB.View(func(tx *store.Tx) (err error) {
		hosts, err = tx.HostsOf(s.prefix)
		return err
	})
	if err != nil {
		return err
	}
	m.cfg.Frontier.Drop(s.prefix)
	if m.cfg.Replicas != nil { // before the hosts go: nobody has to follow that
		if err := m.cfg.Replicas.Leave(s.prefix); err != nil {
			return err
		}
	}
	for _, h := range hosts {
		if err := m.cfg.DB.DropHost(h.Name); err != nil {
			return err
		}
	}
	m.saves.Lock()
	err = m.cfg.DB.Update(func(tx *store.Tx) error {
		tx.Count(n)
		return tx.DeleteSubnet(s.prefix)
	})
	if err == nil {
		m.drop(s)
	}
	m.saves.Unlock()
	m.cfg.Moved(s.prefix)
	return err
}
