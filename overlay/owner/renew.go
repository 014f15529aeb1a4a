package owner

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"peerd/overlay/lease"
)

// toRenew returns the subnets whose lease is due, at most n.
func (m *Manager) toRenew(now time.Time, n int) []*subnet {
	m.mu.Lock()
	defer m.mu.Unlock()
	var due []*subnet
	for _, s := range m.subnets {
		if len(due) < n && !s.renewing && !s.leaving() && !s.renewAt.After(now) {
			s.renewing = true
			due = append(due, s)
		}
	}
	return due
}

// renew signs a lease anew. Met by a better one, the subnet is yielded.
func (m *Manager) renew(ctx context.Context, s *subnet) {
	m.refresh(s)
	m.mu.Lock()
	l := s.lease
	m.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	began := time.Now()
	fresh, sealed, err := m.cfg.Leases.Renew(ctx, l)
	if m.renewed(s, l, fresh, sealed, began, err) {
		err = m.save(s)
		if err != nil {
			m.log.Error("subnet state not written", "subnet", l.Subnet, "err", err)
		}
		return
	}
	var beaten *lease.BeatenError
	if errors.As(err, &beaten) {
		m.beaten(beaten.By)
	} else if ctx.Err() == nil {
		m.log.Warn("lease not renewed; trying again", "subnet", l.Subnet, "err", err)
	}
}

// renewed enters what came of renewing the lease old, which began at that time,
// and says whether it went well.
func (m *Manager) renewed(s *subnet, old, fresh lease.Lease, sealed []byte, began time.Time, err error) bool {
	third := m.cfg.LeaseTTL / 3
	m.mu.Lock()
	defer m.mu.Unlock()
	s.renewing = false
	now := time.Now()
	if err != nil {
		s.renewAt = now.Add(min(third, 10*time.Second))
		return false
	}
	s.renewAt = now.Add(third - rand.N(third/4+1))
	if s.lease.Proxy != old.Proxy { // decided meanwhile: the proxy is still to be told
		fresh.Proxy = s.lease.Proxy
		s.renewAt = now
	}
	if !s.moving { // what is being handed over stays as it was offered
		s.lease, s.sealed = fresh, sealed
	}
	m.settled(s, began)
	return true
}
