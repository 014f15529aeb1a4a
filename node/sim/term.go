package sim

import (
	"net/netip"
	"slices"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/node/admin"
	"peerd/node/emulate/web"
	"peerd/store"
)

// term is a time in which a peer took itself for the owner of a subnet, under one
// epoch, and the shadows that it had were the same.
type term struct {
	from, to time.Duration // first and last seen, since the crawl was seeded
	peer     int
	epoch    uint64
	shadows  []int // those with a complete copy
}

// holds notes what a peer holds at this moment.
func (w *world) holds(m *machine, s admin.Subnet, shadows []int) {
	if w.terms == nil {
		w.terms = map[string][]*term{}
	}
	now := time.Since(w.seeded)
	all := w.terms[s.Subnet]
	for i := len(all) - 1; i >= 0; i-- {
		t := all[i]
		if t.peer != m.n {
			continue
		}
		if t.epoch == s.Epoch && now-t.to <= 2*look && slices.Equal(t.shadows, shadows) {
			t.to = now
			return
		}
		break
	}
	w.terms[s.Subnet] = append(all, &term{from: now, to: now, peer: m.n, epoch: s.Epoch, shadows: shadows})
}

// numbers are the numbers of peers, in order.
func (w *world) numbers(ids []peer.ID) (all []int) {
	for _, id := range ids {
		for _, m := range w.machines {
			if m.id == id {
				all = append(all, m.n)
			}
		}
	}
	slices.Sort(all)
	return all
}

// termAt returns who held a subnet at a time: of two the one of the higher epoch. A
// peer that died holds it until another does. It is nil before anybody did.
func (w *world) termAt(subnet string, at time.Duration) (best *term) {
	for _, t := range w.terms[subnet] {
		if t.from <= at && (best == nil || t.epoch > best.epoch || t.epoch == best.epoch && t.to >= best.to) {
			best = t
		}
	}
	return best
}

// holders are the peers that took themselves for the owner of a subnet at a time, who
// died meanwhile included, as in termAt.
func (w *world) holders(subnet string, at time.Duration) (all []int) {
	if t := w.termAt(subnet, at); t != nil {
		all = append(all, t.peer)
	}
	for _, t := range w.terms[subnet] {
		if t.from <= at+look && t.to >= at-2*look && !slices.Contains(all, t.peer) {
			all = append(all, t.peer)
		}
	}
	return all
}

// ask is a request to a site, by a peer that held the site's subnet when the
// request was read there. A peer that doubts whether it does fetches there for others
// alone, as an estimator or scout.
type ask struct {
	at     time.Duration // since the world began
	subnet string
	peer   int
	epoch  uint64
	url    string
}

// asked is called by the sites with each request.
func (w *world) asked(h web.Hit) {
	n := w.peerOf(h.Peer)
	if n < 0 || h.Bare {
		return
	}
	node := w.machines[n].up.Load()
	if node == nil {
		return
	}
	p := store.SubnetOf(h.Addr)
	for _, s := range node.Subnets() {
		if netip.MustParsePrefix(s.Subnet) == p && !s.Doubted {
			w.mu.Lock()
			w.asks = append(w.asks, ask{w.clock(), s.Subnet, n, s.Epoch, h.Host + h.Path})
			w.mu.Unlock()
		}
	}
}
