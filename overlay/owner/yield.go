package owner

import (
	"context"
	"errors"
	"slices"
	"time"

	"peerd/overlay/hosttransfer"
	"peerd/overlay/lease"
	"peerd/store"
)

// leave yields a subnet that is lost; what goes wrong is tried again at the
// next tick.
func (d *departures) leave(ctx context.Context, s *subnet) {
	err := d.save(s) // broken off, it is not to be used before its lease is renewed
	if err == nil {
		err = d.yield(ctx, s)
	}
	if err == nil {
		return
	}
	if d.noteDiskFull(err) != nil && ctx.Err() == nil {
		d.log.Error("failed to yield subnet", "subnet", s.prefix, "err", err)
	}
	d.mu.Lock()
	s.moving = false
	d.mu.Unlock()
}

// yield gives a subnet up: nothing is fetched there any more, and what is queued is
// rerouted to the winner as URLs that we found, as far as it may not have them. When it
// returns nil the subnet has left this peer.
func (d *departures) yield(ctx context.Context, s *subnet) error {
	if err := d.awaitExits(ctx, s); err != nil {
		return err
	}
	if err := d.cfg.Frontier.Pause(ctx, s.prefix); err != nil {
		return err
	}
	d.mu.Lock()
	by := s.by
	d.mu.Unlock()
	d.tellFetched(ctx, s, by)
	after, known := d.unknown(s, by)
	if known {
		err := d.rerouteAfter(s.prefix, after)
		if err == nil {
			return d.release(s, by)
		}
		if !errors.Is(err, store.ErrNotInLog) {
			return err
		}
	}
	if err := d.rerouteAll(s.prefix); err != nil {
		return err
	}
	return d.release(s, by)
}

// tellFor bounds the time for which a peer that loses a subnet tells what it has fetched there.
const tellFor = time.Minute

// tellFetched tells the owner of a better lease which pages this peer has fetched. If that fails,
// or it does not believe it, they are fetched again.
func (d *departures) tellFetched(ctx context.Context, s *subnet, by lease.Lease) {
	if d.cfg.Transferrer == nil {
		return
	}
	hosts, err := d.cfg.DB.HostsOf(s.prefix)
	ctx, cancel := context.WithTimeout(ctx, tellFor)
	defer cancel()
	d.mu.Lock()
	lost := s.sealed
	d.mu.Unlock()
	for _, h := range hosts {
		if err != nil {
			break
		}
		err = d.cfg.Transferrer.TellFetched(ctx, by.Owner, h.Name, lost)
		if errors.Is(err, hosttransfer.ErrRefused) { // perhaps it does not know the host
			d.log.Debug("failed to tell fetched pages", "host", h.Name, "err", err)
			err = nil
		}
	}
	if err != nil {
		d.log.Info("failed to tell fetched pages", "subnet", s.prefix, "to", by.Owner, "err", err)
	}
}

// release ends this peer's state of a subnet that another peer owns by a better lease: it is
// deleted. If the other peer has taken the subnet over and is silent, it may have lost what it took
// over, and this peer keeps a copy instead.
func (d *departures) release(s *subnet, by lease.Lease) error {
	best, ok := d.cfg.Leases.Cached(s.prefix)
	sealed, known := d.cfg.Leases.Sealed(s.prefix)
	if by.Takeover == nil || !ok || !known || best.Owner != by.Owner || best.Epoch != by.Epoch ||
		d.silence(by.Owner, time.Now()) <= d.cfg.Times.Silence {
		return d.forget(s)
	}
	err := d.remove(s, func() error {
		return d.cfg.Replicas.Keep(s.prefix, best.Owner, best.Epoch, sealed)
	})
	d.cfg.Outbox.ResolveAgain(s.prefix)
	return err
}

// forget removes a subnet's state and hosts.
func (d *departures) forget(s *subnet) error {
	hosts, err := d.cfg.DB.HostsOf(s.prefix)
	if err != nil {
		return err
	}
	d.cfg.Frontier.Drop(s.prefix)
	// before the hosts are deleted: replicas need not follow that
	if err := d.cfg.Replicas.Release(s.prefix); err != nil {
		return err
	}
	for _, h := range hosts {
		if err := d.cfg.DB.DropHost(h.Name); err != nil {
			return err
		}
	}
	err = d.remove(s, func() error {
		return d.cfg.DB.Update(func(tx *store.Tx) error {
			return tx.DeleteSubnet(s.prefix)
		})
	})
	d.cfg.Outbox.ResolveAgain(s.prefix)
	return err
}

// unknown returns the part of our log that the owner of a better lease may not have, if
// that is known: the owner is then a replica of ours that has taken over.
func (d *departures) unknown(s *subnet, by lease.Lease) (after uint64, ok bool) {
	d.mu.Lock()
	mine := s.lease
	whole := slices.ContainsFunc(s.replicas, func(k replicaPeer) bool {
		return k.id == by.Owner && k.synced
	})
	d.mu.Unlock()
	if !whole { // it may have recreated the subnet without our log
		return 0, false
	}
	if by.Epoch != mine.Epoch+1 || by.Takeover == nil || by.Takeover.Slow() {
		return 0, false
	}
	if from, err := by.Takeover.From(); err != nil || from != d.cfg.Self {
		return 0, false
	}
	head, _, logged := d.cfg.DB.LogHead(s.prefix)
	at := d.cfg.Replicas.State(s.prefix, by.Owner).Pos
	return at.Seq, logged && at.Log == head.Log && at.Seq > 0
}
