package sim

import (
	"net/netip"
	"slices"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/lab/emulate/web"
	"peerd/node/admin"
	"peerd/store"
)

// term is a period in which a peer acted as owner of a subnet under one epoch and with
// the same replicas.
type term struct {
	from, to time.Duration // first and last sample, since the crawl was seeded
	peer     int
	epoch    uint64
	replicas []int // those with a complete copy
}

// recordTerm records that m owns s now.
func (w *world) recordTerm(m *machine, s admin.Subnet, replicas []int) {
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
		if t.epoch == s.Epoch && now-t.to <= 2*pollInterval && slices.Equal(t.replicas, replicas) {
			t.to = now
			return
		}
		break
	}
	w.terms[s.Subnet] = append(all, &term{from: now, to: now, peer: m.n, epoch: s.Epoch,
		replicas: replicas})
}

// peerNumbers returns the numbers of peers, sorted.
func (w *world) peerNumbers(ids []peer.ID) (all []int) {
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

// termAt returns the term of a subnet at a time, as latest does.
func (w *world) termAt(subnet string, at time.Duration) *term { return latest(w.terms[subnet], at) }

// latest returns the one of some terms of a subnet that it is in at a time: of two, that of the
// higher epoch. The term of a dead peer extends until the next one. It is nil before the first
// term.
func latest(terms []*term, at time.Duration) (best *term) {
	for _, t := range terms {
		if t.from <= at && (best == nil || t.epoch > best.epoch || t.epoch == best.epoch &&
			t.to >= best.to) {
			best = t
		}
	}
	return best
}

// termsAt returns the terms of a subnet at a time, first that of termAt.
func (w *world) termsAt(subnet string, at time.Duration) (all []*term) {
	if t := w.termAt(subnet, at); t != nil {
		all = append(all, t)
	}
	for _, t := range w.terms[subnet] {
		if t.from <= at+pollInterval && t.to >= at-2*pollInterval && !slices.Contains(all, t) {
			all = append(all, t)
		}
	}
	return all
}

// holders returns the peers that acted as owner of a subnet at a time, including a dead
// one as in termAt.
func (w *world) holders(subnet string, at time.Duration) (all []int) {
	for _, t := range w.termsAt(subnet, at) {
		if !slices.Contains(all, t.peer) {
			all = append(all, t.peer)
		}
	}
	return all
}

// request is a request to a site by a peer that owned the site's subnet when the site
// read the request. Requests under unverified ownership are not recorded: such a peer
// fetches there only for other peers, as an estimator or scout.
type request struct {
	at     time.Duration // since the start of the simulation
	subnet string
	peer   int
	epoch  uint64
	url    string
}

// recordRequest records a request; the sites call it for each.
func (w *world) recordRequest(h web.Hit) {
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
		if netip.MustParsePrefix(s.Subnet) == p && !s.Unverified {
			w.mu.Lock()
			w.requests = append(w.requests, request{w.clock(), s.Subnet, n, s.Epoch,
				h.Host + h.Path})
			w.mu.Unlock()
		}
	}
}
