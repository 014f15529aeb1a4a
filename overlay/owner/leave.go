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

// doubtTicks is the wait, in Config.Tick, before a handover in doubt is asked
// for again; it doubles up to doubtTicksMax.
const (
	doubtTicks    = 4
	doubtTicksMax = 128
)

// toMove returns what is to be done for the subnets that are on their way to
// another peer and have nobody at work on it.
func (m *Manager) toMove() []func(context.Context) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var due []func(context.Context)
	for _, s := range m.subnets {
		switch {
		case s.moving:
			continue
		case s.lost && s.phase != store.PhaseCommitting:
			due = append(due, func(ctx context.Context) { m.leave(ctx, s) })
		case s.to != "":
			to := s.to
			due = append(due, func(ctx context.Context) { m.move(ctx, s, to) })
		default:
			continue
		}
		s.moving = true
	}
	return due
}

// move hands a subnet over. It comes back to the subnet's state: gone, ours
// again, or still in doubt when ctx ends.
func (m *Manager) move(ctx context.Context, s *subnet, to string) {
	for ticks := time.Duration(doubtTicks); ; ticks = min(2*ticks, doubtTicksMax) {
		err := m.handOver(ctx, s, to)
		switch {
		case err == nil:
			return
		case ctx.Err() != nil:
			return
		case !m.committed(s):
			m.log.Info("handover failed; the subnet stays for now", "subnet", s.prefix, "to", to, "err", err)
			m.stay(s, to)
			return
		case m.elsewhere(ctx, s, to):
			return
		}
		m.log.Warn("handover in doubt; asking the heir again", "subnet", s.prefix, "to", to, "err", err)
		select {
		case <-ctx.Done():
			return
		case <-time.After(ticks * m.cfg.Tick):
		}
	}
}

func (m *Manager) committed(s *subnet) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return s.phase == store.PhaseCommitting
}

// elsewhere ends a handover in doubt by what is known of the subnet's leases,
// if that tells whose it is now: the heir may have taken it and be gone since.
func (m *Manager) elsewhere(ctx context.Context, s *subnet, to string) bool {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	l, sealed, err := m.cfg.Leases.Lookup(ctx, s.prefix)
	if err != nil || l.Owner == m.cfg.Self {
		return false
	}
	if err := m.gone(ctx, s, to, sealed); err != nil {
		m.log.Error("subnet not left", "subnet", s.prefix, "err", err)
		return false
	}
	return true
}

// stay undoes the intention to leave: the strategy decides anew, without the
// heir that did not work out.
func (m *Manager) stay(s *subnet, to string) {
	m.mu.Lock()
	s.exclude[to] = true
	s.to, s.moving = "", false
	s.idleSince = time.Time{}
	if !s.lost {
		m.cfg.Frontier.Resume(s.prefix)
	}
	m.mu.Unlock()
	m.wake()
	m.cfg.Moved(s.prefix)
}

// handOver is one try to hand a subnet over. When it returns nil the subnet has
// left this peer.
func (m *Manager) handOver(ctx context.Context, s *subnet, to string) error {
	s.adding.Wait()
	if err := m.cfg.Frontier.Pause(ctx, s.prefix); err != nil {
		return err
	}
	id, err := peer.Decode(to)
	if err != nil {
		return fmt.Errorf("%w: heir %q: %w", handover.ErrBroken, to, err)
	}
	o, err := m.offer(s)
	if err != nil {
		return err
	}
	sealed, err := m.cfg.Sender.Send(ctx, id, o, func() ([]byte, error) { return m.commit(s, id) })
	if err != nil {
		return err
	}
	return m.gone(ctx, s, to, sealed)
}

// offer says what is handed over. The lease in it is signed anew, because the
// proxy coordinate may have been found only now.
func (m *Manager) offer(s *subnet) (handover.Offer, error) {
	m.mu.Lock()
	l := s.lease
	rec, err := s.record()
	m.mu.Unlock()
	if err != nil {
		return handover.Offer{}, err
	}
	if l.Issued = l.Issued.Add(time.Millisecond); time.Now().After(l.Issued) {
		l.Issued = time.Now()
	}
	l.Expires = l.Issued.Add(m.cfg.LeaseTTL)
	sealed, err := lease.SealLease(l, m.cfg.Key)
	if err != nil {
		return handover.Offer{}, err
	}
	_, _, _, nextAt := m.cfg.Frontier.Load(s.prefix)
	return handover.Offer{
		Subnet: s.prefix, Epoch: l.Epoch + 1, Lease: sealed, Evidence: rec.Evidence,
		Estimations: rec.Estimations, Wait: max(0, time.Until(nextAt)),
	}, nil
}

// commit signs the grant and writes it down, before the heir may see it.
func (m *Manager) commit(s *subnet, to peer.ID) ([]byte, error) {
	m.mu.Lock()
	grant, epoch, lost := s.grant, s.lease.Epoch, s.lost
	m.mu.Unlock()
	if lost && grant == nil {
		return nil, errors.New("owner: a better lease was met")
	}
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

// gone forgets a subnet that another peer owns by the lease given. If that is
// not what the commit to the heir has led to, the other peer may not have what
// is queued here: it is told as of URLs that we found.
func (m *Manager) gone(ctx context.Context, s *subnet, to string, sealed []byte) error {
	l, err := lease.OpenLease(sealed)
	if err != nil {
		return fmt.Errorf("owner: the heir's lease: %w", err)
	}
	best, err := m.cfg.Leases.Learn(sealed)
	if err != nil {
		return fmt.Errorf("owner: the heir's lease: %w", err)
	}
	m.mu.Lock()
	mine, epoch := s.lease, s.lease.Epoch+1
	byGrant := s.phase == store.PhaseCommitting && l.Epoch == epoch && l.Owner.String() == to
	m.mu.Unlock()
	switch {
	case l.Subnet != s.prefix || best.Owner == m.cfg.Self || !m.beats(best, mine):
		return errors.New("owner: the heir's lease is not for what it was given")
	case byGrant:
		m.log.Info("subnet handed over", "subnet", s.prefix, "to", to, "epoch", epoch)
		return m.forget(s, store.Counters{HandoversOut: 1})
	}
	return m.yield(ctx, s)
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
	err = m.cfg.DB.Update(func(tx *store.Tx) error {
		tx.Count(n)
		return tx.DeleteSubnet(s.prefix)
	})
	if err == nil {
		m.mu.Lock()
		delete(m.subnets, s.prefix)
		m.mu.Unlock()
	}
	m.saves.Unlock()
	m.cfg.Moved(s.prefix)
	return err
}

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
	s.lost = true
	m.cfg.Frontier.Shut(s.prefix)
	m.mu.Unlock()
	m.log.Warn("subnet yields to a better lease", "subnet", by.Subnet, "owner", by.Owner, "epoch", by.Epoch)
	m.wake()
}

// leave yields a subnet that is lost; what goes wrong is tried again at the
// next tick.
func (m *Manager) leave(ctx context.Context, s *subnet) {
	err := m.yield(ctx, s)
	if err == nil {
		return
	}
	if ctx.Err() == nil {
		m.log.Error("subnet not yielded", "subnet", s.prefix, "err", err)
	}
	m.mu.Lock()
	s.moving = false
	m.mu.Unlock()
}

// yield gives a subnet up: nothing is fetched there any more, and what is
// queued is put aside for the winner as URLs that we found. When it returns nil
// the subnet has left this peer.
func (m *Manager) yield(ctx context.Context, s *subnet) error {
	s.adding.Wait()
	if err := m.cfg.Frontier.Pause(ctx, s.prefix); err != nil {
		return err
	}
	var hosts []store.Host
	err := m.cfg.DB.View(func(tx *store.Tx) (err error) {
		hosts, err = tx.HostsOf(s.prefix)
		return err
	})
	if err != nil {
		return err
	}
	for _, h := range hosts {
		if err := m.putAside(h); err != nil {
			return err
		}
	}
	return m.forget(s, store.Counters{})
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
				found = append(found, store.Pending{URL: e.URL, Depth: e.Depth, Found: now, Hint: h.Addr, Kind: e.Kind & store.KindSitemap, Hops: e.Hops})
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
