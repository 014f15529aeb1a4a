package owner

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"sync"

	"github.com/libp2p/go-libp2p/core/peer"
	"golang.org/x/sync/errgroup"

	"peerd/overlay/lease"
	"peerd/overlay/replica"
)

// Before a subnet is begun with nothing, those are asked who may have a copy of it. What
// they say is their word; who has one goes on with it as ever.

const (
	// maxHolders is how many peers are asked about one subnet, and asksOfHolders how
	// many at a time.
	maxHolders    = 20
	asksOfHolders = 8
)

// errHeld says that a peer that is there keeps a copy: it is to take over with that.
var errHeld = errors.New("another peer has a copy")

// holding is what is known of who has copies.
type holding struct {
	copies map[netip.Prefix][]held
	silent map[netip.Prefix]int // how many were asked for it and did not answer
	asked  map[netip.Prefix]int
}

// held is another peer's word of a copy.
type held struct {
	replica.RemoteCopy
	by peer.ID
}

// holders asks which peers have complete copies of subnets under their current leases,
// beginning with those that would have been chosen as replicas.
func (rs *replicas) holders(ctx context.Context, ls []lease.Lease) holding {
	all := rs.cfg.Directory.Candidates()
	h := holding{copies: map[netip.Prefix][]held{}, silent: map[netip.Prefix]int{},
		asked: map[netip.Prefix]int{}}
	under := map[netip.Prefix]lease.Lease{}
	questions := map[peer.ID][]netip.Prefix{}
	for _, l := range ls {
		under[l.Subnet] = l
		q := nomination{subnet: l.Subnet, self: l.Owner.String(), proxy: l.Proxy,
			not: map[string]bool{rs.self: true}, holders: rs.cfg.Holders}
		for _, id := range q.choose(all, maxHolders) {
			questions[id] = append(questions[id], l.Subnet)
			h.asked[l.Subnet]++
		}
	}
	var mu sync.Mutex
	var g errgroup.Group
	g.SetLimit(asksOfHolders)
	for id, ps := range questions {
		g.Go(func() error {
			for part := range slices.Chunk(ps, replica.MaxQuery) {
				copies, err := rs.cfg.Replicas.QueryCopies(ctx, id, part)
				mu.Lock()
				for _, p := range part {
					if err != nil {
						h.silent[p]++
					}
				}
				for _, c := range copies {
					if l := under[c.Subnet]; c.Complete && c.Owner == l.Owner &&
						c.Epoch == l.Epoch {
						h.copies[c.Subnet] = append(h.copies[c.Subnet], held{c, id})
					}
				}
				mu.Unlock()
			}
			return nil
		})
	}
	_ = g.Wait() // there are none
	return h
}

// best returns the copy that most likely has most: of one log that which is further, of
// several that which its owner counted on last.
func best(hs []held) (b held, ok bool) {
	for _, h := range hs {
		if !ok || further(h, b) {
			b, ok = h, true
		}
	}
	return b, ok
}

func further(a, b held) bool {
	switch {
	case a.Pos.Log == b.Pos.Log && a.Pos.Seq != b.Pos.Seq:
		return a.Pos.Seq > b.Pos.Seq
	case (a.SinceConfirmed < 0) != (b.SinceConfirmed < 0):
		return a.SinceConfirmed >= 0
	}
	return a.SinceConfirmed < b.SinceConfirmed
}
