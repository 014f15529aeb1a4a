package owner

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"peerd/overlay/lease"
	"peerd/store"
)

// ErrAlone is what Config.MayClaim says while this peer knows others and reaches none.
var ErrAlone = errors.New("owner: no other peer in reach; not claiming")

// errClearing says that what is left of a subnet's copy is being swept away.
var errClearing = errors.New("owner: the subnet's old copy is being cleared away")

// Claim makes this peer the owner of an unowned subnet, or learns who is. When
// it returns nil the subnet has an owner. A peer that may not act as an owner claims
// nothing.
func (m *Manager) Claim(ctx context.Context, p netip.Prefix) error {
	if m.broke(p) {
		return m.claimLate(ctx, p)
	}
	return m.claim(ctx, p)
}

func (m *Manager) claim(ctx context.Context, p netip.Prefix) error {
	l, sealed, err := m.settle(ctx, p)
	if err != nil || l.Owner != m.cfg.Self {
		return err
	}
	if err := m.begin(l, sealed); err != nil {
		_ = m.stall(err) // the caller tries again in any case
		return err
	}
	m.claimed(p)
	return nil
}

// settle writes a claim and returns our lease; none, without an error, if somebody owns
// the subnet.
func (m *Manager) settle(ctx context.Context, p netip.Prefix) (l lease.Lease, sealed []byte, err error) {
	if err := m.cfg.MayClaim(); err != nil {
		return l, nil, err
	}
	switch {
	case m.draining.Load():
		return l, nil, errDraining
	case m.full.Load():
		return l, nil, errDiskFull
	case !m.Right(): // nothing could be fetched there, and what others own may not be seen from here
		return l, nil, errNoRight
	}
	if err := m.ownedBefore(p); err != nil {
		return l, nil, err
	}
	l, sealed, err = m.cfg.Leases.Claim(ctx, p)
	var beaten *lease.BeatenError
	switch {
	case errors.As(err, &beaten):
		m.claimed(p)
		return lease.Lease{}, nil, nil // somebody owns it
	case err != nil:
		m.brokeOff(p) // it may have been written, and who wanted it may not come again
	}
	return l, sealed, err
}

// claimed takes in that a claim is over.
func (m *Manager) claimed(p netip.Prefix) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.claims, p)
}

// begin enters a subnet that a lease of ours gives us, on the disk first. If a copy of
// it is here, that is what we begin with.
func (m *Manager) begin(l lease.Lease, sealed []byte) error {
	if done, err := m.beginCopy(l, sealed); done || err != nil {
		return err
	}
	s := &subnet{
		prefix: l.Subnet, phase: store.PhaseDeciding, lease: l, sealed: sealed, since: time.Now(),
		exclude: map[string]bool{}, renewAt: time.Now().Add(m.cfg.LeaseTTL / 3), idleSince: time.Now(),
	}
	if fresh, err := m.found(s); err != nil || !fresh {
		return err
	}
	m.log.Info("subnet claimed", "subnet", l.Subnet, "epoch", l.Epoch)
	_, err := m.next(s, true) // a strategy that needs no estimation decides now
	return err
}

// found writes a new subnet down and makes it known to all of this peer, unless it is
// there already.
func (m *Manager) found(s *subnet) (fresh bool, err error) {
	m.saves.Lock()
	defer m.saves.Unlock()
	if m.Live(s.prefix) {
		return false, nil
	}
	rec, err := s.record()
	if err != nil {
		return false, err
	}
	err = m.cfg.DB.Update(func(tx *store.Tx) error {
		switch _, err := tx.Subnet(s.prefix); {
		case err == nil:
			return fmt.Errorf("%w: %v", errClearing, s.prefix)
		case !errors.Is(err, store.ErrNotFound):
			return err
		}
		return tx.PutSubnet(rec)
	})
	if err != nil {
		return false, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.subnets[s.prefix] != nil {
		return false, nil
	}
	s.arm(time.Now(), false)
	m.subnets[s.prefix] = s
	m.cfg.Frontier.Single(s.prefix, true)
	m.cfg.Frontier.Resume(s.prefix)
	return true, nil
}

// beginCopy is begin for a subnet of which there is a copy here; it says whether
// there is one.
func (m *Manager) beginCopy(l lease.Lease, sealed []byte) (bool, error) {
	if m.cfg.Replicas == nil || m.Live(l.Subnet) {
		return false, nil
	}
	h, held := m.cfg.Replicas.Copy(l.Subnet)
	switch {
	case held && h.Complete:
		return true, m.promote(h, l, sealed)
	case held:
		m.wreck(l.Subnet)
		return false, fmt.Errorf("%w: %v", errClearing, l.Subnet)
	}
	err := m.cfg.DB.View(func(tx *store.Tx) error {
		_, err := tx.Subnet(l.Subnet)
		return err
	})
	switch {
	case errors.Is(err, store.ErrNotFound):
		return false, nil
	case err != nil:
		return false, err
	}
	return false, fmt.Errorf("%w: %v", errClearing, l.Subnet)
}

// Receive says whether this peer takes URLs of a subnet now; moving, that they
// should be offered again soon; sealed is the lease of who else takes them, if
// that is known.
func (m *Manager) Receive(p netip.Prefix) (ok, moving bool, sealed []byte) {
	m.mu.Lock()
	s := m.subnets[p]
	if s != nil {
		moving = s.leaving() || s.doubted()
		m.mu.Unlock()
		moving = moving || !m.Right()
		return !moving, moving, nil
	}
	m.mu.Unlock()
	if m.cfg.Replicas != nil {
		if _, held := m.cfg.Replicas.Copy(p); held {
			m.resume(p) // who sends it here has reason to
			sealed, _ = m.cfg.Leases.Sealed(p)
			return false, false, sealed
		}
	}
	ours, unknown := m.ours(p)
	switch {
	case ours: // a claim may be under way
		m.loose(p, time.Now().Add(unsettledWait))
	case unknown:
		m.loose(p, time.Now())
	}
	sealed, _ = m.cfg.Leases.Sealed(p)
	return false, ours, sealed
}

// Learn takes in a lease that another peer sent.
func (m *Manager) Learn(sealed []byte) {
	l, err := m.cfg.Leases.Learn(sealed)
	if err != nil {
		m.log.Debug("a foreign lease was refused", "err", err)
		return
	}
	m.beaten(l)
}
