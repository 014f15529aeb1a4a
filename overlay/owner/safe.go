package owner

import (
	"context"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	"golang.org/x/sync/errgroup"

	"peerd/internal/clock"
)

// flushesAtOnce bounds the subnets for which one Safe waits at a time.
const flushesAtOnce = 64

// Safe returns when what was committed before the call for the given subnets would
// survive this peer, because their replicas have it on disk. It returns the subnets for
// which that is not so within Times.Flush: the sender has to keep what it sent for them
// and retry. It waits for a replica that does not answer until it is dropped (Times.Lost), and for
// the first replica, or the next one, as long as Times.First. After that, or if there is no peer to
// be a replica, this peer's disk has to suffice. A subnet that is no longer ours is not safe.
func (rs *replicas) Safe(ctx context.Context, subnets []netip.Prefix) (unsafe []netip.Prefix) {
	ctx, cancel := context.WithTimeout(ctx, rs.cfg.Times.Flush)
	defer cancel()
	var mu sync.Mutex
	var g errgroup.Group
	g.SetLimit(flushesAtOnce)
	for _, p := range subnets {
		to, ok := rs.guards(p, time.Now())
		if ok && len(to) == 0 {
			continue
		}
		g.Go(func() error {
			if ok {
				err := rs.cfg.Replicas.Flush(ctx, p, to...)
				if err == nil {
					return nil
				}
				rs.log.Debug("replicas not in sync", "subnet", p, "err", err)
			}
			mu.Lock()
			defer mu.Unlock()
			unsafe = append(unsafe, p)
			return nil
		})
	}
	_ = g.Wait() // there are no errors
	return unsafe
}

// guards returns the replicas that hold a subnet of ours: none if its URLs are accepted
// without. It returns false while they are not accepted. Slow ones count only if there are no
// others.
func (rs *replicas) guards(p netip.Prefix, now time.Time) (to []peer.ID, ok bool) {
	rs.mu.Lock()
	s := rs.subnets[p]
	if s == nil || !s.unit.Works() {
		rs.mu.Unlock()
		return nil, false
	}
	fast := slices.ContainsFunc(s.replicas, func(k replicaPeer) bool { return k.synced && !k.slow })
	for _, k := range s.replicas {
		if k.synced && (!fast || !k.slow) {
			to = append(to, k.id)
		}
	}
	fresh := now.Sub(clock.Later(s.since, s.copied)) < rs.cfg.Times.First
	rs.mu.Unlock()
	if rs.cfg.ReplicaCount == 0 || len(to) > 0 || !fresh {
		return to, true
	}
	return nil, rs.alone()
}

// ahead reports that a page fetched now would be known only to this peer, while the
// witnesses may soon declare it dead: the peer that takes over would fetch it again. A replica
// lacks a page, and either the witnesses were not heard until Times.QuorumMargin, or the replica
// was sent the page longer than half of Times.Flush ago and the witnesses have acknowledged no
// heartbeat that was sent later. It ends when the replica or the witnesses are heard, or the quorum
// lease is lost.
func (rs *replicas) ahead(p netip.Prefix, now time.Time) bool {
	if rs.cfg.Witness == nil {
		return false
	}
	ok, until := rs.cfg.Witness.QuorumLease()
	if !ok || until.IsZero() {
		return false // others see to that
	}
	heard, silent := until.Add(-rs.cfg.Times.Hold), until.Sub(now) < rs.cfg.Times.QuorumMargin
	if !silent && now.Sub(heard) <= rs.cfg.Times.Flush/2 {
		return false
	}
	rs.mu.Lock()
	var to []peer.ID
	if s := rs.subnets[p]; s != nil {
		for _, k := range s.replicas {
			to = append(to, k.id)
		}
	}
	rs.mu.Unlock()
	head, _, logged := rs.cfg.DB.LogHead(p)
	return slices.ContainsFunc(to, func(id peer.ID) bool {
		st := rs.cfg.Replicas.State(p, id)
		if silent {
			return !logged || !st.Synced || st.Pos.Log != head.Log || st.Pos.Seq < head.Seq
		}
		return heard.Before(st.Owes) && now.Sub(st.Owes) > rs.cfg.Times.Flush/2
	})
}
