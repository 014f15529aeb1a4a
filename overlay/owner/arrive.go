package owner

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"sync/atomic"
	"time"

	"peerd/overlay/lease"
	"peerd/overlay/ownership"
	"peerd/overlay/replica"
	"peerd/overlay/wire"
	"peerd/store"
)

// arrivals is the part of a Manager that makes subnets this peer's, on the disk first, then for the
// frontier, and that takes those that other peers hand over (receive.go).
type arrivals struct {
	*table
	balance      *balance
	leases       *leases
	placement    *Placement
	reachability *reachability
	salvager     *salvager
	takeovers    atomic.Int64
	limiter      wire.Limiter // of offers without a copy
}

// promote makes a copy ours, by a lease that stands in the DHT. It may be
// repeated.
func (a *arrivals) promote(h replica.LocalCopy, l lease.Lease, sealed []byte) error {
	p := h.Subnet
	if a.Live(p) {
		return nil
	}
	err := a.cfg.Replicas.Promote(p, func(at store.LogPos) error {
		rec, hosts, err := a.copyOf(p)
		if err != nil {
			return err
		}
		if err := a.promoteLinks(p); err != nil {
			return err
		}
		s, err := a.taken(rec, l, sealed)
		if err != nil {
			return err
		}
		s.shun(h.Owner.String(), time.Now())
		if err := a.enrol(s, at, store.Counters{}); err != nil {
			return err
		}
		a.admit(s, hosts, time.Now().Add(a.cfg.Cooldown))
		return nil
	})
	if err != nil {
		return fmt.Errorf("promote: %w", err)
	}
	a.takeovers.Add(1)
	a.log.Warn("took over subnet", "subnet", p, "owner", h.Owner,
		"epoch", l.Epoch)
	return nil
}

// copyOf reads what is on the disk of a copy.
func (a *arrivals) copyOf(p netip.Prefix) (rec store.Subnet, hosts []store.Host, err error) {
	err = a.cfg.DB.View(func(tx *store.Tx) (err error) {
		if rec, err = tx.Subnet(p); err != nil {
			return err
		}
		hosts, err = tx.HostsOf(p)
		return err
	})
	if err == nil && rec.Phase != store.PhaseReplica && !a.halfTaken(rec) {
		err = fmt.Errorf("the subnet is %v here", rec.Phase)
	}
	return rec, hosts, err
}

// halfTaken says whether a record is what a promotion wrote that failed afterwards,
// as the disk did not sync: it is done again.
func (a *arrivals) halfTaken(rec store.Subnet) bool {
	l, err := lease.OpenLease(rec.Lease)
	return err == nil && l.Owner == a.cfg.Self && (rec.Phase == store.PhaseOwned ||
		rec.Phase == store.PhaseDeciding)
}

// taken is a subnet that was taken over: what its owner was about to find out,
// we go on finding out.
func (a *arrivals) taken(rec store.Subnet, l lease.Lease, sealed []byte) (*subnet, error) {
	now := time.Now()
	e := openEvidence(rec.Evidence).shifted(now)
	s, err := fromRecord(store.Subnet{
		Prefix: rec.Prefix, Lease: sealed, Since: now,
		Estimations: min(max(rec.Estimations, 0), maxEstimations),
	})
	if err != nil {
		return nil, err
	}
	s.unit, _ = ownership.Unit{}.Step(ownership.Event{Kind: ownership.Arrived,
		Decided: !e.Deciding})
	s.inherit(e)
	s.watch.Reconsider(now) // this peer was not chosen: it has a copy
	s.renewAt, s.idleSince = now.Add(a.cfg.LeaseTTL/3), now
	return s, nil
}

// inherit takes over what another owner knew of a subnet. Its replicas already have most
// of what new ones would need.
func (s *subnet) inherit(e evidence) {
	s.history, s.watch.Moves = historyOf(e.Samples), e.Moves
	s.history.trim()
	s.prefer = append(s.prefer, e.Replicas...)
	s.lenders = lendersOf(e.Lenders, s.lease.Owner.String())
}

// enrol writes a subnet down that has come to this peer: its log, which
// continues base, its state, and n.
func (a *arrivals) enrol(s *subnet, base store.LogPos, n store.Counters) error {
	if err := a.cfg.DB.StartLog(s.prefix, rand.Uint64()|1, base); err != nil {
		return err
	}
	rec, err := s.record()
	if err != nil {
		return err
	}
	err = a.cfg.DB.Update(func(tx *store.Tx) error {
		tx.Count(n)
		return tx.PutSubnet(rec)
	})
	if err != nil {
		return err
	}
	return a.cfg.DB.Sync()
}

// admit makes a subnet that is written down known to all of this peer. Its
// servers are not asked before at.
func (a *arrivals) admit(s *subnet, hosts []store.Host, at time.Time) {
	a.mu.Lock()
	s.arm(time.Now())
	a.subnets[s.prefix] = s
	a.cfg.Frontier.Adopt(s.prefix, hosts, at)
	a.show(s)
	a.mu.Unlock()
	a.cfg.Outbox.ResolveAgain(s.prefix)
	a.wake()
}

// begin enters a subnet that a lease of ours gives us, on the disk first. If a copy of
// it is here, that is what we begin with.
func (a *arrivals) begin(l lease.Lease, sealed []byte) error {
	if done, err := a.beginCopy(l, sealed); done || err != nil {
		return err
	}
	now := time.Now()
	s := &subnet{
		prefix: l.Subnet,
		ourLease: ourLease{lease: l, sealed: sealed, since: now,
			renewAt: now.Add(a.cfg.LeaseTTL / 3)},
		decision: decision{exclude: map[string]bool{}, idleSince: now},
	}
	s.unit, _ = s.unit.Step(ownership.Event{Kind: ownership.Began})
	if fresh, err := a.found(s); err != nil || !fresh {
		return err
	}
	a.log.Info("claimed subnet", "subnet", l.Subnet, "epoch", l.Epoch)
	_, err := a.placement.next(s, true) // a strategy that needs no estimation decides now
	return err
}

// found writes a new subnet down and makes it known to all of this peer, unless it is
// there already.
func (a *arrivals) found(s *subnet) (fresh bool, err error) {
	if a.Live(s.prefix) {
		return false, nil
	}
	rec, err := s.record()
	if err != nil {
		return false, err
	}
	err = a.cfg.DB.Batch(func(tx *store.Tx) error {
		switch _, err := tx.Subnet(s.prefix); {
		case err == nil: // or another claim has just been written down
			return fmt.Errorf("%w: %v", errClearing, s.prefix)
		case !errors.Is(err, store.ErrNotFound):
			return err
		}
		return tx.PutSubnet(rec)
	})
	if err != nil {
		return false, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.subnets[s.prefix] != nil {
		return false, nil
	}
	s.arm(time.Now())
	a.subnets[s.prefix] = s
	a.show(s)
	return true, nil
}

// beginCopy is begin for a subnet of which there is a copy here; it says whether
// there is one.
func (a *arrivals) beginCopy(l lease.Lease, sealed []byte) (bool, error) {
	if a.Live(l.Subnet) {
		return false, nil
	}
	h, held := a.cfg.Replicas.Copy(l.Subnet)
	switch {
	case held && h.Complete:
		return true, a.promote(h, l, sealed)
	case held:
		a.salvager.markOrphanedCopy(l.Subnet)
		return false, fmt.Errorf("%w: %v", errClearing, l.Subnet)
	}
	err := a.cfg.DB.View(func(tx *store.Tx) error {
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
