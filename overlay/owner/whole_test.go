package owner

import (
	"net/netip"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/store"
)

// urls returns what is queued at a host, in order.
func (m *member) urls(host string) (all []store.URL) {
	m.t.Helper()
	err := m.cfg.DB.View(func(tx *store.Tx) error {
		return tx.Queue(host, nil, func(e store.Entry) (bool, error) {
			all = append(all, e.URL)
			return true, nil
		})
	})
	if err != nil {
		m.t.Fatal(err)
	}
	return all
}

// An owner with a real replica is cut off in the middle of its work: what it had
// acknowledged is at the new owner, in order and once; and when it is back, it
// stops, and yields only what the other cannot know.
func TestVanishAndReturn(t *testing.T) {
	t.Parallel()
	dht := newDHT()
	a, b := listen(t, alice), listen(t, bob)
	b.Peerstore().AddAddrs(a.ID(), a.Addrs(), time.Hour)
	a.Peerstore().AddAddrs(b.ID(), b.Addrs(), time.Hour)
	dbs := map[peer.ID]*store.DB{alice.id: openStore(t), bob.id: openStore(t)}
	times := Times{Silence: 150 * time.Millisecond, Spread: time.Millisecond, Lost: time.Minute,
		Flush: time.Minute, Revive: time.Second}

	var heard atomic.Int64 // of alice, at bob's
	heard.Store(time.Now().Add(time.Hour).UnixNano())
	bobs := copiesOf(t, b, dbs[bob.id])
	successor := join(t, bob, dht, dbs[bob.id], func(c *Config) {
		c.Replicas, c.Times = bobs, times
		c.Witness = &fakeWitness{right: true, me: bob, voters: []someone{bob, carol}}
		contactsOf(c).heard = func(peer.ID) time.Time { return time.Unix(0, heard.Load()) }
	})
	runCopies(t, b, bobs, &laterPolicy{copyPolicy: successor.policy})
	successor.run()

	alices := copiesOf(t, a, dbs[alice.id])
	setup := func(c *Config) {
		c.Replicas, c.ReplicaCount, c.Times = alices, 1, times
		c.Directory = directory{alice, bob}
		c.Witness = &fakeWitness{right: true, me: alice, set: witnessSetOf(t, alice, bob, carol)}
	}
	m := join(t, alice, dht, dbs[alice.id], setup)
	cut := runCopies(t, a, alices, &laterPolicy{copyPolicy: m.policy})
	m.run()
	m.claim(subnetA)
	m.plant("a.test", subnetA, addrA, 300)
	until(t, "it is safe", func() bool {
		return len(m.Safe(t.Context(), []netip.Prefix{subnetA})) == 0
	})
	m.plant("b.test", subnetA, addrA, 20)
	if unsafe := m.Safe(t.Context(), []netip.Prefix{subnetA}); len(unsafe) > 0 {
		t.Fatal("what came later is not safe")
	}
	cut() // bob hears nothing more, and alice goes on for a while
	m.plant("c.test", subnetA, addrA, 7)
	heard.Store(time.Now().UnixNano())
	until(t, "bob has it", func() bool { return successor.Live(subnetA) })
	if successor.epoch(subnetA) != 2 || !slices.Equal(successor.urls("a.test"), m.urls("a.test")) ||
		!slices.Equal(successor.urls("b.test"), m.urls("b.test")) {
		t.Errorf("epoch %d, %d and %d URLs", successor.epoch(subnetA),
			len(successor.urls("a.test")), len(successor.urls("b.test")))
	}
	if n := len(successor.urls("c.test")); n != 0 {
		t.Errorf("%d URLs that no peer sent", n)
	}

	if err := m.Revoked(t.Context(), revocation(2)); err != nil {
		t.Fatal(err)
	}
	until(t, "alice yields", func() bool { return !m.Live(subnetA) })
	m.outboxMu.Lock()
	defer m.outboxMu.Unlock()
	if len(m.routed) != 7 || slices.ContainsFunc(m.routed, func(p store.Pending) bool {
		return p.URL.Host() != "c.test"
	}) {
		t.Errorf("%d URLs yielded, want the 7 that bob has not", len(m.routed))
	}

}
