package owner

import (
	"context"
	"errors"
	"time"

	"peerd/internal/backoff"
	"peerd/overlay/lease"
	"peerd/overlay/ownership"
)

// leases is the part of a Manager that keeps its leases: it renews them, reads them again when
// they may have rivals, and stops work in a subnet that may have another owner.
type leases struct {
	*table
	placement *Placement
	reading   bool // leases are being read again; guarded by mu
}

// toRenew returns at most n subnets with a lease that is due for renewal.
func (k *leases) toRenew(now time.Time, n int) []*subnet {
	k.mu.Lock()
	defer k.mu.Unlock()
	var due []*subnet
	for _, s := range k.subnets {
		if len(due) < n && !s.renewing && !s.unit.Leaves() && !s.renewAt.After(now) {
			s.renewing = true
			due = append(due, s)
		}
	}
	return due
}

// renew signs a lease again. If there is a better one the subnet is yielded.
func (k *leases) renew(ctx context.Context, s *subnet) {
	k.placement.refresh(s)
	k.mu.Lock()
	l := s.lease
	k.mu.Unlock()
	within, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	began := time.Now()
	fresh, sealed, err := k.cfg.Leases.Renew(within, l)
	if k.renewed(s, l, fresh, sealed, began, err) {
		err = k.save(s)
		if err != nil {
			k.log.Error("failed to save subnet state", "subnet", l.Subnet, "err", err)
		}
		return
	}
	var beaten *lease.BeatenError
	if errors.As(err, &beaten) {
		k.beaten(beaten.By)
		return
	}
	if errors.Is(err, lease.ErrRefused) {
		k.doubt(s)
	}
	if ctx.Err() == nil {
		k.log.Warn("failed to renew lease", "subnet", l.Subnet, "err", err)
	}
}

// doubt has nothing fetched in a subnet before its lease has been renewed.
func (k *leases) doubt(s *subnet) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if s.unit.Doubt&ownership.Stale == 0 {
		k.step(s, ownership.Event{Kind: ownership.Suspected})
	}
}

// renewed enters what came of renewing the lease old, which began at that time,
// and says whether it went well.
func (k *leases) renewed(
	s *subnet, old, fresh lease.Lease, sealed []byte, began time.Time, err error,
) bool {
	third := k.cfg.LeaseTTL / 3
	k.mu.Lock()
	defer k.mu.Unlock()
	s.renewing = false
	now := time.Now()
	if err != nil {
		pause := 10 * time.Second
		if errors.Is(err, lease.ErrRefused) {
			pause = time.Minute
		}
		s.renewAt = now.Add(min(third, pause))
		return false
	}
	s.renewAt = now.Add(backoff.Later(third * 3 / 4))
	if s.lease.Proxy != old.Proxy { // decided meanwhile: the proxy is still to be told
		fresh.Proxy = s.lease.Proxy
		s.renewAt = now
	}
	if !s.moving { // what is being handed over stays as it was offered
		s.lease, s.sealed = fresh, sealed
	}
	k.settled(s, began)
	return true
}

// beaten stops a subnet of ours because a better lease is known; Run then yields it. A
// subnet that is already committed to a successor continues its way.
func (k *leases) beaten(by lease.Lease) {
	k.mu.Lock()
	s := k.subnets[by.Subnet]
	if s == nil || by.Owner == k.cfg.Self || s.unit.State >= ownership.Granted ||
		!k.beats(by, s.lease) {
		k.mu.Unlock()
		return
	}
	k.step(s, ownership.Event{Kind: ownership.Beaten})
	s.by = by
	k.mu.Unlock()
	k.log.Warn("yielded to better lease", "subnet", by.Subnet, "owner", by.Owner,
		"epoch", by.Epoch)
	k.wake()
}
