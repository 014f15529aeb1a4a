package witness

import (
	"cmp"
	"context"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
)

// mutation removes a rule: it changes nodes after each start, and what the owner sends
// and receives.
type mutation struct {
	started   func(*node)
	before    func(*node)
	after     func(*node, peer.ID, reply)
	loseVotes bool // the Stores lose votes
}

// run runs a schedule and returns its judge.
func (s schedule) run(t testing.TB, bad mutation) *judge {
	f := newNet(s.Seed)
	f.loss, f.rareDelay, f.duplicate = s.Loss, s.RareDelay, s.Duplicate
	f.farDelay[testPeers[0].id] = s.FarDelay
	w := &judge{net: f, from: time.Now(), revoked: map[netip.Prefix]time.Time{},
		dht: map[netip.Prefix]int{}, hidden: map[int]bool{}}
	for i := range s.Peers {
		n := f.add(testPeers[i])
		n.rate, n.offset = s.Rates[i], s.Offsets[i]
		n.cfg.Members = 0
		if bad.loseVotes {
			n.disk = lossyStore{n.disk}
		}
		w.nodes = append(w.nodes, n)
	}
	owner := w.nodes[0]
	owner.cfg.Members = s.Members
	owner.tells.revoked, owner.tells.present = w.onRevoked, w.present
	owner.before = bad.before
	owner.setAfter(bad.after)
	start := func(n *node) {
		n.start(t)
		if bad.started != nil {
			bad.started(n)
		}
	}
	for _, n := range w.nodes {
		start(n)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { w.watch(ctx) })
	for i := 1; i < s.Peers && !s.EventsOnly; i++ {
		wg.Go(func() { w.compete(ctx, i, s.Seed) })
	}
	events := slices.Clone(s.Events)
	slices.SortStableFunc(events, func(a, b event) int { return cmp.Compare(a.At, b.At) })
	for _, e := range events {
		time.Sleep(e.At - time.Since(w.from))
		if e.Kind == "ask" { // peer A, with the witness set of number B
			w.mu.Lock()
			set := w.sets[min(e.B, len(w.sets)-1)]
			w.mu.Unlock()
			wg.Go(func() { w.try(ctx, e.A, simSubnets[0], set) })
			continue
		}
		w.apply(e, start)
	}
	time.Sleep(simLast - time.Since(w.from))
	cancel()
	for _, n := range w.nodes {
		n.kill()
	}
	wg.Wait()
	f.end()
	return w
}

// apply applies an event.
func (w *judge) apply(e event, start func(*node)) {
	n := w.nodes[e.A]
	cut := func(a, b int) { w.net.cut[[2]peer.ID{w.nodes[a].id, w.nodes[b].id}] = true }
	switch e.Kind {
	case "cut", "split", "alone", "deaf", "mute", "heal":
		w.net.mu.Lock()
		defer w.net.mu.Unlock()
		for b := range w.nodes {
			if e.Kind == "alone" || e.Kind == "deaf" {
				cut(b, e.A)
			}
			if e.Kind == "alone" || e.Kind == "mute" {
				cut(e.A, b)
			}
		}
		if e.Kind == "cut" || e.Kind == "split" {
			cut(e.A, e.B)
		}
		if e.Kind == "split" {
			cut(e.B, e.A)
		}
		if e.Kind == "heal" {
			clear(w.net.cut)
		}
	case "pause":
		n.pause(true)
	case "resume":
		n.pause(false)
	case "kill":
		n.kill()
	case "start":
		if n.service() == nil {
			start(n)
		}
	case "hide", "show":
		w.mu.Lock()
		defer w.mu.Unlock()
		w.hidden[e.A] = e.Kind == "hide"
	}
}

// present is the owner's Node.LivePeers.
func (w *judge) present() (all []peer.ID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i, n := range w.nodes[1:] {
		if !w.hidden[i+1] {
			all = append(all, n.id)
		}
	}
	return all
}
