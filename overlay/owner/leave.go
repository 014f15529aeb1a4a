package owner

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/internal/clock"
	"peerd/overlay/handover"
	"peerd/overlay/lease"
	"peerd/overlay/ownership"
	"peerd/store"
)

// retryTicks is the wait, in Config.Tick, before an unconfirmed handover is retried; it
// doubles up to retryTicksMax.
const (
	retryTicks    = 4
	retryTicksMax = 128
)

// errNoQuorumLease prevents giving away a subnet that may already have another owner.
var errNoQuorumLease = errors.New("owner: no quorum lease")

// departures is the part of a Manager that sends subnets to other peers, and gives up those that
// other peers own.
type departures struct {
	*table
	leases   *leases
	replicas *replicas
	moves    atomic.Int64
}

// toMove returns the tasks for subnets that are on their way to another peer and not
// being worked on.
func (d *departures) toMove() []func(context.Context) {
	d.mu.Lock()
	defer d.mu.Unlock()
	var due []func(context.Context)
	for _, s := range d.subnets {
		switch {
		case s.moving:
			continue
		case s.unit.State == ownership.Yielding:
			due = append(due, func(ctx context.Context) { d.leave(ctx, s) })
		case s.unit.To != "":
			to := s.unit.To
			due = append(due, func(ctx context.Context) { d.move(ctx, s, to) })
		default:
			continue
		}
		s.moving = true
	}
	return due
}

// move hands a subnet over. It returns when the subnet is gone, is ours again, or is
// still unconfirmed at the end of ctx.
func (d *departures) move(ctx context.Context, s *subnet, to string) {
	for ticks := retryTicks; ; ticks = min(2*ticks, retryTicksMax) {
		err := d.handOver(ctx, s, to)
		switch {
		case err == nil:
			return
		case ctx.Err() != nil:
			return
		case d.granted(s) && d.elsewhere(ctx, s, to), d.granted(s) && d.reclaim(ctx, s, to):
			return
		case !d.granted(s): // if another peer owns it, it is yielded
			d.log.Info("handover failed; kept subnet", "subnet", s.prefix, "to", to,
				"err", err)
			d.stay(s, to)
			return
		}
		d.log.Warn("handover unconfirmed; asking the successor again", "subnet", s.prefix,
			"to", to, "err", err)
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Duration(ticks) * d.cfg.Tick):
		}
	}
}

// elsewhere ends an unconfirmed handover if the known leases show the owner: the
// successor may have taken the subnet and disappeared since.
func (d *departures) elsewhere(ctx context.Context, s *subnet, to string) bool {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	l, sealed, err := d.cfg.Leases.Lookup(ctx, s.prefix)
	if err != nil || l.Owner == d.cfg.Self {
		return false
	}
	if err := d.gone(ctx, s, to, sealed, time.Time{}); err != nil {
		d.log.Error("failed to release subnet", "subnet", s.prefix, "err", err)
		return false
	}
	return true
}

// stay cancels the intention to leave: the strategy decides again, without the successor
// that failed. A subnet that was decided has a cooldown.
func (d *departures) stay(s *subnet, to string) {
	d.mu.Lock()
	if s.unit.Searches() {
		s.exclude[to] = true
	} else {
		s.shun(to, time.Now())
	}
	d.step(s, ownership.Event{Kind: ownership.Failed})
	s.moving, s.idleSince = false, time.Time{}
	d.mu.Unlock()
	d.replicas.dismiss(s, to)
	d.wake()
	d.cfg.Outbox.ResolveAgain(s.prefix)
}

// handOver is one try to hand a subnet over. When it returns nil the subnet has
// left this peer.
func (d *departures) handOver(ctx context.Context, s *subnet, to string) error {
	id, err := peer.Decode(to)
	if err != nil {
		return fmt.Errorf("%w: successor %q: %w", handover.ErrBroken, to, err)
	}
	// who has adopted it already refuses
	if err := d.bringIn(ctx, s, id); err != nil && !d.granted(s) {
		return fmt.Errorf("%w: %w", handover.ErrBroken, err)
	}
	if err := d.stillOurs(ctx, s); err != nil {
		return fmt.Errorf("%w: %w", handover.ErrBroken, err)
	}
	d.close(s)
	if err := d.awaitExits(ctx, s); err != nil {
		return err
	}
	if err := d.cfg.Frontier.Pause(ctx, s.prefix); err != nil {
		return err
	}
	o, err := d.offer(s, id)
	if err != nil {
		return err
	}
	var confirmed time.Time // zero if the successor has taken the subnet by an earlier offer
	sealed, err := d.cfg.Sender.Send(ctx, id, o, func() ([]byte, error) {
		if o.Replica {
			confirmed = time.Now()
		}
		return d.commit(s, id)
	})
	if err != nil {
		return err
	}
	return d.gone(ctx, s, to, sealed, confirmed)
}

// bringInFor bounds the time that a successor may need to have nearly all of a subnet.
const bringInFor = 30 * time.Minute

// bringIn copies nearly all of a subnet to the successor while its pages are still
// fetched.
func (d *departures) bringIn(ctx context.Context, s *subnet, to peer.ID) error {
	if err := d.replicas.follow(s, to); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, bringInFor)
	defer cancel()
	return d.cfg.Replicas.Await(ctx, s.prefix, to)
}

// errBeaten keeps a subnet from being given away that is another's.
var errBeaten = errors.New("owner: the subnet has another owner")

// stillOurs reads the lease of a subnet again before it is given away: two owners of one
// epoch would make two of the next. That is also so for a grant that was saved before a crash,
// and perhaps not sent. A lease of the successor by this grant does not count: it is offered the
// subnet again, because it may have lost its disk since. If the DHT does not answer the subnet is
// treated as ours; the successor reads the lease again.
func (d *departures) stillOurs(ctx context.Context, s *subnet) error {
	d.leases.reread(ctx, s.prefix)
	best, known := d.cfg.Leases.Cached(s.prefix)
	d.mu.Lock()
	defer d.mu.Unlock()
	adopted := s.unit.State == ownership.Granted && best.Owner.String() == s.unit.To &&
		best.Epoch == s.lease.Epoch+1
	if s.unit.State == ownership.Yielding ||
		known && !adopted && best.Owner != d.cfg.Self && d.beats(best, s.lease) {
		return errBeaten
	}
	return nil
}

// close stops work on a subnet after its successor has been brought in.
func (d *departures) close(s *subnet) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.step(s, ownership.Event{Kind: ownership.Ready})
}

// dismiss deletes the copy of a peer that is no longer the successor, unless it is a
// replica.
func (rs *replicas) dismiss(s *subnet, to string) {
	id, err := peer.Decode(to)
	if err != nil {
		return
	}
	rs.mu.Lock()
	isReplica := slices.ContainsFunc(s.replicas, func(k replicaPeer) bool { return k.id == id })
	rs.mu.Unlock()
	if !isReplica {
		rs.cfg.Replicas.Unfollow(s.prefix, id, true)
	}
}

// offer returns the offer for a handover. Its lease is signed again, because the proxy
// coordinate may be new.
func (d *departures) offer(s *subnet, to peer.ID) (handover.Offer, error) {
	d.mu.Lock()
	l := s.lease
	rec, err := s.record()
	d.mu.Unlock()
	if err != nil {
		return handover.Offer{}, err
	}
	l.Issued = clock.Later(l.Issued.Add(time.Millisecond), d.cfg.Leases.Now())
	l.Expires = l.Issued.Add(d.cfg.LeaseTTL)
	sealed, err := lease.SealLease(l, d.cfg.Key)
	if err != nil {
		return handover.Offer{}, err
	}
	_, _, _, nextAt := d.cfg.Frontier.SubnetLoad(s.prefix)
	return handover.Offer{
		Subnet: s.prefix, Epoch: l.Epoch + 1, Lease: sealed, Evidence: rec.Evidence,
		Estimations: rec.Estimations, Wait: max(0, time.Until(nextAt)),
		Replica: d.replicas.remains(s, to),
	}, nil
}

// remains reports whether this peer stays as a replica of a subnet that it hands over: the
// successor would choose it.
func (rs *replicas) remains(s *subnet, to peer.ID) bool {
	if rs.draining.Load() {
		return false
	}
	rs.mu.Lock()
	q := nomination{subnet: s.prefix, self: to.String(), proxy: s.lease.Proxy,
		prefer: []string{rs.self}, holders: rs.cfg.Holders}
	rs.mu.Unlock()
	return slices.Contains(q.choose(rs.candidates(), rs.cfg.ReplicaCount), rs.cfg.Self)
}

// commit signs the grant and saves it before the successor may see it. Without the quorum lease
// no peer sees it, even one that was sent before: the subnet may have another owner by now.
func (d *departures) commit(s *subnet, to peer.ID) ([]byte, error) {
	d.mu.Lock()
	grant, l := s.grant, s.lease
	d.mu.Unlock()
	first := grant == nil
	if first {
		var err error
		if grant, err = l.GrantTo(to, d.cfg.Leases.Now(), d.cfg.Key); err != nil {
			return nil, err
		}
	}
	quorum := d.HasQuorumLease()
	d.mu.Lock()
	save := d.step(s, ownership.Event{Kind: ownership.Granting, Quorum: quorum})
	if save {
		s.grant = grant
	}
	d.mu.Unlock()
	switch {
	case !save && !quorum:
		return nil, errNoQuorumLease
	case !save:
		return nil, errors.New("owner: the subnet may have another owner")
	}
	err := d.save(s)
	if first && errors.Is(err, store.ErrNoSpace) { // nothing was written; no peer has the grant
		d.mu.Lock()
		d.step(s, ownership.Event{Kind: ownership.NotSaved})
		s.grant = nil
		d.mu.Unlock()
	}
	if err == nil {
		err = d.cfg.DB.Sync()
	}
	if err == nil && !d.HasQuorumLease() { // a slow disk may outlast it
		err = errNoQuorumLease
	}
	if err != nil {
		return nil, err
	}
	return grant, nil
}

// gone removes a subnet that another peer owns by the given lease. If that is not the
// result of the commit to the successor, the other peer may not have what is queued
// here: it is sent as URLs that we found. confirmed is as in replica.Service.Demote.
func (d *departures) gone(
	ctx context.Context, s *subnet, to string, sealed []byte, confirmed time.Time,
) error {
	l, err := lease.OpenLease(sealed)
	if err != nil {
		return fmt.Errorf("owner: lease of the successor: %w", err)
	}
	best, err := d.cfg.Leases.Learn(sealed)
	if err != nil {
		return fmt.Errorf("owner: lease of the successor: %w", err)
	}
	d.mu.Lock()
	mine, epoch := s.lease, s.lease.Epoch+1
	byGrant := s.unit.State == ownership.Granted && l.Epoch == epoch && l.Owner.String() == to
	adapts := s.unit.Why == ownership.ReasonNearer
	d.mu.Unlock()
	switch {
	case l.Subnet != s.prefix || best.Owner == d.cfg.Self || !d.beats(best, mine):
		return errors.New("owner: lease of the successor does not match the grant")
	case byGrant:
		d.log.Info("handed over subnet", "subnet", s.prefix, "to", to, "epoch", epoch)
		err := d.retire(s, l, sealed, confirmed)
		if err == nil && adapts {
			d.moves.Add(1)
		}
		return err
	}
	d.mu.Lock()
	d.step(s, ownership.Event{Kind: ownership.Elsewhere})
	d.step(s, ownership.Event{Kind: ownership.Beaten})
	s.by = best
	d.mu.Unlock()
	return d.yield(ctx, s)
}

// retire turns what was handed over into a copy of the successor's subnet, from which
// the successor's log continues.
func (d *departures) retire(s *subnet, l lease.Lease, sealed []byte, confirmed time.Time) error {
	err := d.remove(s, func() error {
		err := d.cfg.Replicas.Demote(s.prefix, l.Owner, l.Epoch, sealed, confirmed)
		if err != nil {
			return err
		}
		// The copy is there: if it were made again, without the log, it would be wiped.
		err = d.cfg.DB.Update(func(tx *store.Tx) error {
			tx.Count(store.Counters{HandoversOut: 1})
			return nil
		})
		if err = d.noteDiskFull(err); err != nil {
			d.log.Error("failed to count handover", "subnet", s.prefix, "err", err)
		}
		return nil
	})
	d.cfg.Outbox.ResolveAgain(s.prefix)
	return err
}
