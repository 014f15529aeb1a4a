package owner

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/overlay/handover"
	"peerd/overlay/lease"
	"peerd/store"
)

// handoverRetry is the wait before a handover in doubt is asked for again.
const handoverRetry = 2 * time.Second

// toMove returns the subnets that have an heir and nobody at work on it.
func (m *Manager) toMove() []*subnet {
	m.mu.Lock()
	defer m.mu.Unlock()
	var due []*subnet
	for _, s := range m.subnets {
		if s.to != "" && !s.moving {
			s.moving = true
			due = append(due, s)
		}
	}
	return due
}

// move hands a subnet over. It comes back to the subnet's state: gone, ours
// again, or still in doubt.
func (m *Manager) move(ctx context.Context, s *subnet) {
	m.mu.Lock()
	to := s.to
	m.mu.Unlock()
	for {
		err := m.handOver(ctx, s)
		switch {
		case err == nil:
			m.log.Info("subnet handed over", "subnet", s.prefix, "to", to)
			return
		case ctx.Err() != nil:
			return
		case m.committed(s):
			m.log.Warn("handover in doubt; asking the heir again", "subnet", s.prefix, "to", to, "err", err)
			select {
			case <-ctx.Done():
				return
			case <-time.After(handoverRetry):
			}
		default:
			m.log.Info("handover failed; the subnet stays for now", "subnet", s.prefix, "to", to, "err", err)
			m.stay(s)
			return
		}
	}
}

func (m *Manager) committed(s *subnet) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return s.phase == store.PhaseCommitting
}

// stay undoes the intention to leave: the strategy decides anew, without the
// heir that did not work out.
func (m *Manager) stay(s *subnet) {
	m.mu.Lock()
	s.exclude[s.to] = true
	s.to, s.moving = "", false
	s.idleSince = time.Time{}
	m.mu.Unlock()
	m.cfg.Frontier.Resume(s.prefix)
	m.cfg.Moved(s.prefix)
}

func (m *Manager) handOver(ctx context.Context, s *subnet) error {
	if err := m.cfg.Frontier.Pause(ctx, s.prefix); err != nil {
		return err
	}
	m.mu.Lock()
	state := *s
	rec, err := state.record()
	m.mu.Unlock()
	if err != nil {
		return err
	}
	id, err := peer.Decode(state.to)
	if err != nil {
		return fmt.Errorf("%w: heir %q: %w", handover.ErrBroken, state.to, err)
	}
	_, _, _, nextAt := m.cfg.Frontier.Load(s.prefix)
	sealed, err := m.cfg.Sender.Send(ctx, id, handover.Offer{
		Subnet: s.prefix, Epoch: state.lease.Epoch + 1, Lease: state.sealed, Evidence: rec.Evidence,
		Estimations: state.estimations, Wait: max(0, time.Until(nextAt)),
	}, func() ([]byte, error) { return m.commit(s, id) })
	if err != nil {
		return err
	}
	return m.gone(s, sealed)
}

// commit signs the grant and writes it down, before the heir may see it.
func (m *Manager) commit(s *subnet, to peer.ID) ([]byte, error) {
	m.mu.Lock()
	grant, epoch := s.grant, s.lease.Epoch
	m.mu.Unlock()
	if grant == nil {
		var err error
		grant, err = lease.SealGrant(lease.Grant{
			Subnet: s.prefix, From: m.cfg.Self, To: to, Epoch: epoch + 1, Issued: time.Now(),
		}, m.cfg.Key)
		if err != nil {
			return nil, err
		}
	}
	m.mu.Lock()
	s.grant, s.phase = grant, store.PhaseCommitting
	m.mu.Unlock()
	if err := m.save(s); err != nil {
		return nil, err
	}
	return grant, m.cfg.DB.Sync()
}

// gone forgets a subnet that its heir has.
func (m *Manager) gone(s *subnet, sealed []byte) error {
	l, err := m.cfg.Leases.Learn(sealed)
	if err != nil {
		return fmt.Errorf("owner: the heir's lease: %w", err)
	}
	if l.Subnet != s.prefix || l.Epoch <= s.lease.Epoch {
		return errors.New("owner: the heir's lease is not for what it was given")
	}
	return m.forget(s, store.Counters{HandoversOut: 1})
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
	for _, h := range hosts {
		if err := m.cfg.DB.DropHost(h.Name); err != nil {
			return err
		}
	}
	m.saves.Lock()
	m.mu.Lock()
	delete(m.subnets, s.prefix)
	m.mu.Unlock()
	err = m.cfg.DB.Update(func(tx *store.Tx) error {
		tx.Count(n)
		return tx.DeleteSubnet(s.prefix)
	})
	m.saves.Unlock()
	m.cfg.Moved(s.prefix)
	return err
}

// beaten yields a subnet of ours to the owner of a better lease: nothing is
// fetched there any more, and what was queued goes to the winner as URLs that
// we found.
func (m *Manager) beaten(by lease.Lease) {
	m.mu.Lock()
	s := m.subnets[by.Subnet]
	if s == nil || by.Owner == m.cfg.Self || lease.Better(by, s.lease) <= 0 || s.moving {
		m.mu.Unlock()
		return
	}
	s.moving = true
	m.mu.Unlock()
	m.log.Warn("subnet yielded to a better lease", "subnet", by.Subnet, "owner", by.Owner, "epoch", by.Epoch)
	if err := m.yield(s); err != nil {
		m.log.Error("subnet not yielded", "subnet", by.Subnet, "err", err)
	}
}

func (m *Manager) yield(s *subnet) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := m.cfg.Frontier.Pause(ctx, s.prefix); err != nil {
		return err
	}
	var found []store.Pending
	now := time.Now()
	err := m.cfg.DB.View(func(tx *store.Tx) error {
		hosts, err := tx.HostsOf(s.prefix)
		for _, h := range hosts {
			if err != nil {
				break
			}
			err = tx.Queue(h.Name, nil, func(e store.Entry) (bool, error) {
				found = append(found, store.Pending{URL: e.URL, Depth: e.Depth, Found: now, Hint: h.Addr})
				return true, nil
			})
		}
		return err
	})
	if err != nil {
		return err
	}
	if err := m.cfg.Route(found); err != nil { // paused, so all are put aside
		return err
	}
	return m.forget(s, store.Counters{HandoversOut: 1})
}
