package owner

import (
	"context"
	"errors"
	"fmt"
	"slices"
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

// errNoRight keeps a subnet from being given away that may be another's already.
var errNoRight = errors.New("owner: too few witnesses have heard this peer lately")

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
		case m.elsewhere(ctx, s, to), m.reclaim(ctx, s, to):
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
// heir that did not work out. A subnet that was decided rests.
func (m *Manager) stay(s *subnet, to string) {
	m.mu.Lock()
	if s.phase == store.PhaseDeciding {
		s.exclude[to] = true
	} else {
		s.shun(to, time.Now())
	}
	s.to, s.moving, s.adapting, s.syncing, s.decided, s.lends = "", false, false, false, false, false
	s.idleSince = time.Time{}
	if !s.lost && !s.doubted() {
		m.cfg.Frontier.Resume(s.prefix)
	}
	m.mu.Unlock()
	m.dismiss(s, to)
	m.wake()
	m.cfg.Moved(s.prefix)
}

// handOver is one try to hand a subnet over. When it returns nil the subnet has
// left this peer.
func (m *Manager) handOver(ctx context.Context, s *subnet, to string) error {
	id, err := peer.Decode(to)
	if err != nil {
		return fmt.Errorf("%w: heir %q: %w", handover.ErrBroken, to, err)
	}
	if err := m.bringIn(ctx, s, id); err != nil && !m.committed(s) { // who has adopted it already refuses
		return fmt.Errorf("%w: %w", handover.ErrBroken, err)
	}
	if err := m.stillOurs(ctx, s); err != nil {
		return fmt.Errorf("%w: %w", handover.ErrBroken, err)
	}
	m.close(s)
	s.adding.Wait()
	if err := m.cfg.Frontier.Pause(ctx, s.prefix); err != nil {
		return err
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

// bringInFor bounds how long an heir may need to have nearly all of a subnet.
const bringInFor = 30 * time.Minute

// bringIn makes the heir hold nearly all of a subnet, while its pages go on being
// fetched.
func (m *Manager) bringIn(ctx context.Context, s *subnet, to peer.ID) error {
	if m.cfg.Replicas == nil {
		return nil
	}
	if err := m.follow(s, to); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, bringInFor)
	defer cancel()
	return m.cfg.Replicas.Await(ctx, s.prefix, to)
}

// errBeaten keeps a subnet from being given away that is another's.
var errBeaten = errors.New("owner: the subnet is another peer's")

// stillOurs reads the lease of a subnet again before it is given away: two owners
// of one epoch would make two of the next. If the DHT does not answer it counts as
// ours; the heir reads it again.
func (m *Manager) stillOurs(ctx context.Context, s *subnet) error {
	if m.committed(s) {
		return nil
	}
	m.reread(ctx, s.prefix)
	m.mu.Lock()
	defer m.mu.Unlock()
	if s.lost {
		return errBeaten
	}
	return nil
}

// close ends that a subnet is worked on while its heir is brought in.
func (m *Manager) close(s *subnet) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if s.syncing {
		s.syncing = false
		m.cfg.Frontier.Shut(s.prefix)
	}
}

// dismiss ends that a peer which is no heir any more has a copy, unless it is a
// shadow.
func (m *Manager) dismiss(s *subnet, to string) {
	id, err := peer.Decode(to)
	if m.cfg.Replicas == nil || err != nil {
		return
	}
	m.mu.Lock()
	shadows := slices.ContainsFunc(s.keepers, func(k keeper) bool { return k.id == id })
	m.mu.Unlock()
	if !shadows {
		m.cfg.Replicas.Unfollow(s.prefix, id, true)
	}
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
	grant, epoch, lost, doubted := s.grant, s.lease.Epoch, s.lost, s.doubted()
	m.mu.Unlock()
	switch {
	case grant != nil:
	case lost || doubted:
		return nil, errors.New("owner: the subnet may be another's")
	case !m.Right():
		return nil, errNoRight
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
	had, was := s.grant, s.phase
	s.grant, s.phase = grant, store.PhaseCommitting
	m.mu.Unlock()
	err := m.save(s)
	if errors.Is(err, store.ErrFull) { // nothing was written, and nobody has seen the grant
		m.mu.Lock()
		s.grant, s.phase = had, was
		m.mu.Unlock()
	}
	if err != nil {
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
	adapts := s.adapting
	m.mu.Unlock()
	switch {
	case l.Subnet != s.prefix || best.Owner == m.cfg.Self || !m.beats(best, mine):
		return errors.New("owner: the heir's lease is not for what it was given")
	case byGrant:
		m.log.Info("subnet handed over", "subnet", s.prefix, "to", to, "epoch", epoch)
		err := m.retire(s, l, sealed)
		if err == nil && adapts {
			m.moves.Add(1)
		}
		return err
	}
	m.mu.Lock()
	s.by = best
	m.mu.Unlock()
	return m.yield(ctx, s)
}

// retire makes what was handed over a copy of the heir's subnet, from which the
// heir's log goes on.
func (m *Manager) retire(s *subnet, l lease.Lease, sealed []byte) error {
	if m.cfg.Replicas == nil {
		return m.forget(s, store.Counters{HandoversOut: 1})
	}
	m.saves.Lock()
	err := m.cfg.Replicas.Demote(s.prefix, l.Owner, l.Epoch, sealed)
	if err == nil {
		err = m.cfg.DB.Update(func(tx *store.Tx) error { tx.Count(store.Counters{HandoversOut: 1}); return nil })
	}
	if err == nil {
		m.drop(s)
	}
	m.saves.Unlock()
	m.cfg.Moved(s.prefix)
	return err
}

// drop takes a subnet out of memory whose record is no longer that of one of
// ours.
func (m *Manager) drop(s *subnet) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.subnets, s.prefix)
	m.cfg.Frontier.Drop(s.prefix)
	m.seeker.forget(s.prefix)
}
