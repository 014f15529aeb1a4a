package owner

import (
	"context"
	"errors"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/overlay/handover"
	"peerd/overlay/lease"
	"peerd/overlay/replica"
	"peerd/store"
)

// wiped has alice come back on an empty disk after she has claimed subnetA.
func wiped(t *testing.T, change func(*Config)) (*member, *fakeReplicas, *fakeWitness) {
	t.Helper()
	dht := newDHT()
	join(t, alice, dht, nil, func(c *Config) {
		c.Strategy = &script{next: choose(alice)}
	}).claim(subnetA)
	m, r, w := guardedOn(t, alice, dht, openStore(t), func(c *Config) {
		c.Directory = directory{alice, bob, carol}
		if change != nil {
			change(c)
		}
	})
	m.names["a.test"] = []netip.Addr{addrA}
	return m, r, w
}

// seekLost has what is due for lost subnets done once, and says how a claim goes.
func (m *member) seekLost() error {
	m.claimer.restores.change(subnetA, func(e *entry[*restoring]) { e.next = time.Time{} })
	for _, task := range m.claimer.toRestore(time.Now()) {
		task(m.t.Context())
	}
	if _, err := m.resolver.Resolve(m.t.Context(), "a.test", netip.Addr{}); err != nil {
		return err
	}
	return m.claimer.Claim(m.t.Context(), subnetA)
}

// What was lost with the disk is recreated only when it is known that no peer has it.
func TestRestoreWithoutCopies(t *testing.T) {
	t.Parallel()
	m, r, _ := wiped(t, nil)
	r.others = map[peer.ID][]replica.RemoteCopy{bob.id: nil}
	if err := m.seekLost(); !errors.Is(err, errRestoring) || m.Live(subnetA) {
		t.Fatalf("at once: %v", err)
	}
	old := m.claimer.restores.entries[subnetA].about
	old.since = old.since.Add(-m.Manager.cfg.Times.Silence - time.Second)
	if err := m.seekLost(); !errors.Is(err, errRestoring) || m.Live(subnetA) {
		t.Fatalf("carol has not answered: %v", err)
	}
	r.others[carol.id] = nil
	if err := m.seekLost(); err != nil || !m.Live(subnetA) || m.epoch(subnetA) != 1 {
		t.Errorf("all have answered: %v", err)
	}

	m, r, _ = wiped(t, nil)
	r.others = map[peer.ID][]replica.RemoteCopy{bob.id: {{Subnet: subnetA, Owner: alice.id,
		Epoch: 1, Pos: store.LogPos{Log: 9}}}}
	if err := m.seekLost(); !errors.Is(err, errRestoring) {
		t.Fatal(err)
	}
	old = m.claimer.restores.entries[subnetA].about
	old.since = time.Now().Add(-m.Manager.cfg.Times.Orphan - time.Second)
	if err := m.seekLost(); err != nil || !m.Live(subnetA) {
		t.Errorf("half a copy, and carol never answers: %v", err)
	}
}

// A holder that refuses, because it still waits for an offer that was broken off, is asked again.
func TestRestoreAsksAgain(t *testing.T) {
	t.Parallel()
	asked := 0
	m, r, _ := wiped(t, func(c *Config) {
		c.Sender = sendFunc(func(context.Context, peer.ID, handover.Offer,
			func() ([]byte, error)) ([]byte, error) {
			asked++
			return nil, handover.ErrRefused
		})
	})
	r.others = map[peer.ID][]replica.RemoteCopy{carol.id: nil, bob.id: {{Subnet: subnetA,
		Owner: alice.id, Epoch: 1, Complete: true, Pos: store.LogPos{Log: 9}}}}
	for range 5 {
		if err := m.seekLost(); !errors.Is(err, errRestoring) {
			t.Fatalf("%v, want that the copy is waited for", err)
		}
	}
	if asked < 2 {
		t.Errorf("the only holder of a copy was asked %d times, want again", asked)
	}
	old := m.claimer.restores.entries[subnetA].about
	old.since = time.Now().Add(-m.Manager.cfg.Times.Recreate - time.Second)
	for range 3 {
		_ = m.seekLost()
	}
	if !m.Live(subnetA) {
		t.Error("the subnet is not recreated though no peer takes it")
	}
}

// A subnet that was ours for long had replicas: they are waited for.
func TestRestoreWaitsForReplicas(t *testing.T) {
	t.Parallel()
	m, _, _ := wiped(t, nil)
	times := m.Manager.cfg.Times
	l := lease.Lease{Epoch: 1, Issued: m.started.Add(-times.First - times.Lost + time.Second)}
	if short, long := m.claimer.search(l); short != times.Silence || long != times.Orphan {
		t.Errorf("a young lease: %v, %v", short, long)
	}
	successor := l
	successor.Epoch = 2
	if short, long := m.claimer.search(successor); short != times.Recreate ||
		long != times.Recreate {
		t.Errorf("a successor's: %v, %v", short, long)
	}
	l.Issued = l.Issued.Add(-2 * time.Second)
	if short, long := m.claimer.search(l); short != times.Recreate || long != times.Recreate {
		t.Errorf("an old one: %v, %v", short, long)
	}
}

// The best copy is continued, and no peer gets a second grant.
func TestRestoreGives(t *testing.T) {
	t.Parallel()
	var asked []peer.ID
	var grants [][]byte
	var offers []handover.Offer
	answer := handover.ErrOutcomeUnknown
	m, r, w := wiped(t, func(c *Config) {
		c.Sender = sendFunc(func(_ context.Context, to peer.ID, o handover.Offer,
			grant func() ([]byte, error)) ([]byte, error) {
			asked, offers = append(asked, to), append(offers, o)
			g, err := grant()
			if err != nil {
				return nil, err
			}
			grants = append(grants, g)
			return nil, answer
		})
	})
	at := func(seq uint64) replica.RemoteCopy {
		return replica.RemoteCopy{Subnet: subnetA, Owner: alice.id, Epoch: 1, Complete: true,
			Pos: store.LogPos{Log: 9, Seq: seq}}
	}
	r.others = map[peer.ID][]replica.RemoteCopy{bob.id: {at(4)}, carol.id: {at(7)}}
	_ = m.seekLost()
	w.right = false
	if err := m.seekLost(); !errors.Is(err, errNoQuorumLease) || len(grants) != 0 {
		t.Fatalf("%v, %d grants without the right", err, len(grants))
	}
	w.right = true
	if err := m.seekLost(); !errors.Is(err, errRestoring) || len(grants) != 1 {
		t.Fatalf("%v, %d grants", err, len(grants))
	}
	if o := offers[len(offers)-1]; asked[len(asked)-1] != carol.id || o.Pos != at(7).Pos ||
		o.Epoch != 2 {
		t.Errorf("%v was offered %+v", asked[len(asked)-1], o)
	}
	delete(r.others, carol.id) // unconfirmed: bob is not given it
	m.claimer.restores.done(subnetA)
	_ = m.seekLost() // as after a restart
	w.right = false
	if err := m.seekLost(); !errors.Is(err, errNoQuorumLease) || len(grants) != 1 {
		t.Fatalf("%v, %d grants without the right", err, len(grants))
	}
	w.right = true
	if err := m.seekLost(); !errors.Is(err, errRestoring) || asked[len(asked)-1] != carol.id ||
		string(grants[len(grants)-1]) != string(grants[0]) {
		t.Errorf("%v; asked %v", err, asked)
	}
	// Carol has published what she was given.
	carols := join(t, carol, m.dht, nil, nil)
	old, err := lease.OpenLease(offers[0].Lease)
	if err != nil {
		t.Fatal(err)
	}
	l, _, err := carols.cfg.Leases.Adopt(t.Context(), old, grants[0], nil)
	if err != nil || l.Owner != carol.id {
		t.Fatal(l, err)
	}
	if err := m.seekLost(); err != nil || m.Live(subnetA) || len(m.claimer.restores.entries) != 0 {
		t.Errorf("%v; %d looked for", err, len(m.claimer.restores.entries))
	}
	if g, err := m.claimer.loadGrant(subnetA); err != nil || g.Grant != nil {
		t.Errorf("the grant is kept: %+v, %v", g, err)
	}
}

func TestFurther(t *testing.T) {
	t.Parallel()
	of := func(log, seq uint64, ago time.Duration) held {
		return held{RemoteCopy: replica.RemoteCopy{Pos: store.LogPos{Log: log, Seq: seq},
			SinceConfirmed: ago}}
	}
	for _, c := range []struct{ better, worse held }{
		{of(1, 5, -1), of(1, 4, 0)},
		{of(1, 5, time.Second), of(1, 5, time.Minute)},
		{of(1, 5, time.Second), of(2, 9, time.Minute)},
		{of(1, 5, time.Hour), of(2, 9, -1)},
	} {
		if !further(c.better, c.worse) || further(c.worse, c.better) {
			t.Errorf("%+v against %+v", c.better.RemoteCopy, c.worse.RemoteCopy)
		}
	}
}

// With real copies and the real protocol: what alice's wiped disk had goes on at bob's,
// whether a peer has URLs for it or only bob knows that there is work.
func TestRestoreWhole(t *testing.T) {
	t.Parallel()
	t.Run("a peer has URLs", func(t *testing.T) {
		testRestore(t, func(again, _ *member) { _ = again.seekLost() })
	})
	t.Run("no peer has URLs", func(t *testing.T) {
		var once sync.Once
		testRestore(t, func(again, successor *member) {
			once.Do(func() { again.run(); successor.run() })
		})
	})
}

func testRestore(t *testing.T, notice func(again, successor *member)) {
	dht := newDHT()
	now := func(peer.ID) time.Time { return time.Now() }
	a, b := listen(t, alice), listen(t, bob)
	know := func(x, y host.Host) { x.Peerstore().AddAddrs(y.ID(), y.Addrs(), time.Hour) }
	know(a, b)
	know(b, a)
	db := openStore(t)
	bobs := copiesOf(t, b, db)
	successor := join(t, bob, dht, db, func(c *Config) {
		c.Replicas = bobs
		c.Directory = directory{alice, bob}
		c.Times.Lost = time.Second
		contactsOf(c).heard = now
	})
	runCopies(t, b, bobs, &laterPolicy{copyPolicy: successor.policy})
	r := &handover.Receiver{DB: db, Successor: successor.arrivals, Copies: bobs}
	server := r.Serve(b, proto, nil)
	t.Cleanup(server.Close)

	start := func() (m *member, stop func()) {
		db := openStore(t)
		s := copiesOf(t, a, db)
		m = join(t, alice, dht, db, func(c *Config) {
			c.Replicas, c.ReplicaCount, c.Directory = s, 1, directory{alice, bob}
			c.Sender = &handover.Sender{Host: a, Protocol: proto, DB: db, Followers: s}
		})
		return m, runCopies(t, a, s, &laterPolicy{copyPolicy: m.policy})
	}
	m, stop := start()
	m.claim(subnetA)
	m.plant("a.test", subnetA, addrA, 300)
	m.rounds(2)
	until(t, "it is safe", func() bool {
		m.rounds(2)
		return len(m.Safe(t.Context(), []netip.Prefix{subnetA})) == 0 &&
			m.Manager.cfg.Replicas.State(subnetA, bob.id).Synced
	})
	want := m.urls("a.test")
	stop()
	again, _ := start()
	again.names["a.test"] = []netip.Addr{addrA}
	until(t, "bob has it", func() bool { notice(again, successor); return successor.Live(subnetA) })
	if got := successor.urls("a.test"); len(got) != len(want) || successor.epoch(subnetA) != 2 ||
		again.Live(subnetA) {
		t.Errorf("%d of %d URLs at epoch %d; alice has it: %v", len(got), len(want),
			successor.epoch(subnetA), again.Live(subnetA))
	}
	until(t, "alice knows", func() bool {
		_ = again.seekLost()
		l, ok := again.cfg.Leases.Cached(subnetA)
		return ok && l.Owner == bob.id && l.Epoch == 2 && l.Grant != nil
	})
}
