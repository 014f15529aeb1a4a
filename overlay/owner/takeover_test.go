package owner

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/coords/assign"
	"peerd/internal/clock"
	"peerd/overlay/lease"
	"peerd/overlay/ownership"
	"peerd/overlay/record/recordtest"
	"peerd/overlay/replica"
	"peerd/store"
)

// heldURLs is how many URLs are queued in the copy of a test.
const heldURLs = 5

// copyFixture is a subnet of alice's, who is dead, and bob's copy of it.
type copyFixture struct {
	*member
	replicas *fakeReplicas
	witness  *fakeWitness
	held     replica.LocalCopy
	heard    time.Time // of alice, by whomever
	deferred map[string]int
}

// newCopyFixture has bob hold a copy of subnetA as alice, who claimed it, had it.
func newCopyFixture(t *testing.T, deciding bool, change func(*Config)) *copyFixture {
	t.Helper()
	dht := newDHT()
	a := join(t, alice, dht, nil, func(c *Config) { c.Strategy = &script{next: choose(alice)} })
	a.claim(subnetA)
	l, sealed, err := a.cfg.Leases.Lookup(t.Context(), subnetA)
	if err != nil {
		t.Fatal(err)
	}
	e := &copyFixture{deferred: map[string]int{}, heard: time.Now()}
	db := openStore(t)
	e.put(t, db, l, sealed, deciding)
	e.rejoin(t, dht, db, change)
	e.held = replica.LocalCopy{
		Subnet: subnetA, Owner: alice.id, Epoch: 1, Complete: true,
		Pos:   store.LogPos{Log: 9, Seq: 4},
		Heard: time.Now(), Confirmed: time.Now(), WitnessSet: witnessSetOf(t, alice, bob, carol),
		Lease: sealed,
	}
	e.replicas.held[subnetA] = e.held
	return e
}

func (e *copyFixture) rejoin(
	t *testing.T, dht *recordtest.DHT, db *store.DB, change func(*Config),
) {
	e.member, e.replicas, e.witness = guardedOn(t, bob, dht, db, func(c *Config) {
		contactsOf(c).heard = func(peer.ID) time.Time { return e.heard }
		c.Cooldown = time.Minute
		c.Outbox = outboxWith{Outbox: c.Outbox, added: func(n map[string]int) {
			for h, k := range n {
				e.deferred[h] += k
			}
		}}
		if change != nil {
			change(c)
		}
	})
	e.strategy.next = probeFirst(bob)
	e.witness.voters = []someone{bob, carol}
}

// put writes the copy onto bob's disk.
func (e *copyFixture) put(t *testing.T, db *store.DB, l lease.Lease, sealed []byte, deciding bool) {
	t.Helper()
	s := &subnet{unit: ownership.Unit{State: ownership.Owned, Decided: true},
		ourLease:    ourLease{lease: l},
		replication: replication{replicas: []replicaPeer{{id: bob.id}}}}
	if deciding {
		s.unit = ownership.Unit{State: ownership.Deciding}
	}
	rec, err := s.record()
	if err != nil {
		t.Fatal(err)
	}
	rec.Prefix, rec.Phase, rec.Lease, rec.Owner, rec.Log, rec.Seq = subnetA, store.PhaseReplica,
		sealed, alice.id.String(), 9, 4
	err = db.Update(func(tx *store.Tx) error {
		tx.PutHost(store.Host{Name: "a.test", Subnet: subnetA, Addr: addrA, Queued: heldURLs})
		var es []store.Entry
		for i := range heldURLs {
			es = append(es, store.Entry{URL: store.URL(fmt.Sprintf("http://a.test/%d", i))})
		}
		if err := tx.Import("a.test", es, nil); err != nil {
			return err
		}
		return tx.PutSubnet(rec)
	})
	if err == nil {
		err = db.Update(func(tx *store.Tx) error {
			return tx.Apply(subnetA,
				[]store.Op{{Kind: store.OpOutlink, Name: "a.test",
					Pending: &store.Pending{URL: "http://else.test/", From: "a.test",
						Found: time.Now()}}})
		})
	}
	if err != nil {
		t.Fatal(err)
	}
}

// away makes it so that the owner has not been on the link since bob's start.
func (e *copyFixture) away() { e.held.Heard, e.held.Confirmed = time.Time{}, time.Time{} }

// taken checks that bob owns the subnet, with all that was in the copy.
func (e *copyFixture) taken(t *testing.T, phase store.Phase) {
	t.Helper()
	until(t, "it is taken over", func() bool { return e.Live(subnetA) })
	if e.phase(subnetA) != phase || e.epoch(subnetA) != 2 || e.queued("a.test") != heldURLs ||
		!e.frontier.Owns("a.test") {
		t.Errorf("phase %v, epoch %d, %d URLs", e.phase(subnetA), e.epoch(subnetA),
			e.queued("a.test"))
	}
	if at := e.frontier.adopts[subnetA]; time.Until(at) < 30*time.Second {
		t.Errorf("the servers rest until %v only", at)
	}
	rec, ok := e.stored(subnetA)
	if !ok || rec.Phase != phase || rec.Epoch != 2 {
		t.Errorf("on the disk: %v, epoch %d", rec.Phase, rec.Epoch)
	}
	if head, base, ok := e.cfg.DB.LogHead(subnetA); !ok || base != (store.LogPos{Log: 9, Seq: 4}) ||
		head.Log == 9 {
		t.Errorf("its log: %v on %v, %v", head, base, ok)
	}
	err := e.cfg.DB.View(func(tx *store.Tx) error {
		waits, err := tx.HasPending("http://else.test/")
		if !waits {
			t.Error("what alice had not delivered is lost")
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	if e.deferred["else.test"] != 1 {
		t.Errorf("rerouted: %v", e.deferred)
	}
	l, _, err := join(t, carol, e.dht, nil, nil).cfg.Leases.Lookup(t.Context(), subnetA)
	if err != nil || l.Owner != bob.id || l.Epoch != 2 || l.Takeover == nil {
		t.Errorf("in the DHT: %v at epoch %d, %v", l.Owner, l.Epoch, err)
	}
}

func TestTakeover(t *testing.T) {
	t.Parallel()
	for name, deciding := range map[string]bool{"owned": false, "estimating": true} {
		t.Run(name, func(t *testing.T) {
			e := newCopyFixture(t, deciding, nil)
			e.run()
			phase := store.PhaseOwned
			if deciding {
				phase = store.PhaseDeciding
			}
			e.taken(t, phase)
			if e.frontier.is(e.frontier.single, subnetA) != deciding {
				t.Error("requests at a time")
			}
			until(t, "it is counted", func() bool { return e.Stats().Takeovers == 1 })
			e.mu.Lock()
			defer e.mu.Unlock()
			if !e.subnets[subnetA].watch.CanScout(assign.DefaultReviewConfig()) {
				t.Error("other peers are not looked at")
			}
		})
	}
}

// Whoever hears the owner, lacks votes, or may be an old replica, takes nothing.
func TestNoTakeover(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*copyFixture)
		asks   bool
	}{
		"too few votes": {func(e *copyFixture) {
			e.witness.voters = e.witness.voters[:1]
		}, true},
		"others hear it": {func(e *copyFixture) {
			e.heard = time.Now().Add(time.Hour)
		}, false},
		"the copy has gaps": {func(e *copyFixture) { e.held.Complete = false }, false},
		"it lived on without us": {func(e *copyFixture) {
			e.held.Confirmed, e.heard = e.heard, e.heard.Add(60*time.Millisecond)
		}, false},
		"we were away, no peer knows it": {func(e *copyFixture) {
			e.away()
			e.heard, e.presence.awake = time.Time{}, time.Now()
		}, false},
		"we were away for long": {func(e *copyFixture) {
			e.away()
			e.presence.awake = e.heard.Add(-time.Hour)
		}, false},
		"we were away too long, by what is written down": {func(e *copyFixture) {
			e.away()
			e.held.Confirmed, e.heard, e.presence.awake = e.started.Add(-60*time.Millisecond),
				time.Time{},
				e.started
		}, false},
		"the copy may change meanwhile": {func(e *copyFixture) {
			e.replicas.pins[subnetA] = true
		}, false},
		"we leave":         {func(e *copyFixture) { e.draining.Store(true) }, false},
		"of a lower epoch": {func(e *copyFixture) { e.held.Epoch = 0 }, false},
	} {
		t.Run(name, func(t *testing.T) {
			e := newCopyFixture(t, false, nil)
			c.change(e)
			e.replicas.held[subnetA] = e.held
			e.run()
			if c.asks {
				until(t, "it asks", func() bool { return e.witness.asked() > 0 })
			}
			time.Sleep(150 * time.Millisecond)
			if e.Live(subnetA) || !c.asks && e.witness.asked() > 0 {
				t.Errorf("ours: %v, %d times asked", e.Live(subnetA), e.witness.asked())
			}
		})
	}
}

// An old copy is better than none, once a cut is unlikely to be the cause.
func TestOldCopyAtLast(t *testing.T) {
	t.Parallel()
	e := newCopyFixture(t, false, nil)
	times := e.Manager.cfg.Times
	for _, c := range []struct {
		silent time.Duration
		taken  bool
	}{
		{times.Orphan + 8*times.Spread + time.Second, false},
		{times.Recreate - time.Second, false},
		{times.Recreate + 8*times.Spread + time.Second, true},
	} {
		e.heard = time.Now().Add(-c.silent)
		e.started = e.heard.Add(-time.Hour)
		e.held.Confirmed = e.heard.Add(-times.Lost - time.Second)
		if err := e.failover.replaced(e.held); (err == nil) != c.taken {
			t.Errorf("after %v: %v", c.silent, err)
		}
	}
}

// A copy counts while its owner is silent and no peer is known to have continued it.
func TestSilentSubnets(t *testing.T) {
	t.Parallel()
	e := newCopyFixture(t, false, nil)
	e.heard = time.Now()
	want := func(n int, after time.Duration, what string) {
		t.Helper()
		if got := e.failover.SilentSubnets(e.heard.Add(after)); got != n {
			t.Errorf("%s: %d, want %d", what, got, n)
		}
	}
	late := e.Manager.cfg.Times.Silence + time.Second
	want(0, 0, "the owner was heard just now")
	want(1, late, "the owner is silent")
	whole := e.held
	e.held.Complete = false
	e.replicas.held[subnetA] = e.held
	want(0, late, "the copy has gaps")
	e.replicas.held[subnetA] = whole
	_, sealed := rival(t, subnetA, alice)
	if _, err := e.Manager.cfg.Leases.Learn(sealed); err != nil {
		t.Fatal(err)
	}
	want(0, late, "another peer owns it")
}

// A short absence of the replica does not keep it from taking over.
func TestTakeoverAfterRestart(t *testing.T) {
	t.Parallel()
	e := newCopyFixture(t, false, nil)
	e.away()
	e.presence.awake = e.heard.Add(-10 * time.Millisecond)
	e.replicas.held[subnetA] = e.held
	e.run()
	e.taken(t, store.PhaseOwned)
}

// What is written down of the link is enough, although no peer has heard the owner since.
func TestTakeoverByWhatIsWrittenDown(t *testing.T) {
	t.Parallel()
	e := newCopyFixture(t, false, nil)
	e.away()
	e.held.Confirmed, e.heard = e.started.Add(-10*time.Millisecond), time.Time{}
	e.replicas.held[subnetA] = e.held
	e.run()
	e.taken(t, store.PhaseOwned)
}

// old returns the lease that the copy was kept under.
func (e *copyFixture) old(t *testing.T) lease.Lease {
	t.Helper()
	l, err := lease.OpenLease(e.held.Lease)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// Without votes and without the lease in the DHT nothing is fetched; a lease that
// got there although we broke off is made good, even if no witness would vote now.
func TestTakeoverResumed(t *testing.T) {
	t.Parallel()
	e := newCopyFixture(t, false, nil)
	tally, err := e.failover.vote(t.Context(), []replica.LocalCopy{e.held})
	if err != nil {
		t.Fatal(err)
	}
	proof, ok := tally.Takeover(subnetA)
	if !ok {
		t.Fatal("no votes")
	}
	if _, _, err := e.cfg.Leases.TakeOver(t.Context(), e.old(t), proof, nil); err != nil {
		t.Fatal(err)
	}
	again := *e // the process ends before the subnet is ours
	again.rejoin(t, e.dht, e.cfg.DB, nil)
	again.heard = time.Now().Add(time.Hour) // alice is back, and knows that it is not hers
	again.held.Heard = again.heard
	again.replicas.held[subnetA] = again.held
	again.witness.voters = nil
	again.run()
	time.Sleep(50 * time.Millisecond)
	if again.Live(subnetA) {
		t.Fatal("taken without need")
	}
	if ok, _, _ := again.resolver.Accepts(subnetA); ok { // a peer sends what the lease says is ours
		t.Error("URLs are taken")
	}
	if e, ok := again.failover.attempts.get(subnetA); !ok || e.about != 1 {
		t.Errorf("the DHT is asked %d times, want once", e.about)
	}
	again.taken(t, store.PhaseOwned)
}

// What is to be taken over is forgotten with the copy.
func TestAttemptEndsWithCopy(t *testing.T) {
	t.Parallel()
	e := newCopyFixture(t, false, nil)
	e.failover.resume(subnetA, looks)
	e.failover.attempts.fail(subnetA, time.Now())
	soon := time.Now().Add(time.Nanosecond)
	for _, held := range []bool{true, false} {
		if !held {
			if err := e.replicas.Drop(subnetA); err != nil {
				t.Fatal(err)
			}
			soon = time.Now().Add(takeWaitMax)
		}
		e.failover.toTake(soon)
		if _, known := e.failover.attempts.get(subnetA); known != held {
			t.Errorf("remembered = %v with a copy = %v", known, held)
		}
	}
}

// URLs for a copy have the DHT asked, unless it has just named another owner.
func TestAcceptsAsksOnce(t *testing.T) {
	t.Parallel()
	e := newCopyFixture(t, false, nil)
	e.replicas.held[subnetA] = e.held
	asked := func() bool {
		e.resolver.Accepts(subnetA)
		_, asked := e.failover.attempts.get(subnetA)
		e.failover.attempts.done(subnetA)
		return asked
	}
	e.cfg.Leases.Forget(subnetA)
	if !asked() {
		t.Error("not asked, and nothing is known of the subnet")
	}
	e.resolver.Learn(e.held.Lease)
	if !asked() {
		t.Error("not asked, and the lease is hearsay")
	}
	if _, _, err := e.cfg.Leases.Refresh(t.Context(), subnetA); err != nil {
		t.Fatal(err)
	}
	if asked() {
		t.Error("asked again at once")
	}
	if until := e.resolver.foreignUntil(subnetA); time.Until(until) > foreignFor {
		t.Errorf("not asked before %v, want at most %v from now", until, foreignFor)
	}
}

// The same if the clock of this peer's leases is slow.
func TestAcceptsAsksOnceWithSlowClock(t *testing.T) {
	t.Parallel()
	e := newCopyFixture(t, false, nil)
	lc := lease.DefaultConfig()
	lc.Self, lc.Key, lc.Values, lc.Settle = bob.id, bob.key, e.dht.Peer(), 0
	lc.Clock = clock.Of(func() time.Time { return time.Now().Add(-time.Minute) })
	leases, err := lease.NewRegistry(lc)
	if err != nil {
		t.Fatal(err)
	}
	e.Manager.cfg.Leases = leases
	if _, _, err := leases.Refresh(t.Context(), subnetA); err != nil {
		t.Fatal(err)
	}
	e.resolver.Accepts(subnetA)
	if _, asked := e.failover.attempts.get(subnetA); asked {
		t.Error("asked again at once")
	}
}

// The same when the write that was given up shows only later, and the owner is back:
// it has yielded to that lease, so no other peer would take the subnet.
func TestTakeoverResumedLate(t *testing.T) {
	t.Parallel()
	e := newCopyFixture(t, false, nil)
	tally, err := e.failover.vote(t.Context(), []replica.LocalCopy{e.held})
	if err != nil {
		t.Fatal(err)
	}
	proof, _ := tally.Takeover(subnetA)
	e.started, e.heard = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	e.failover.resume(subnetA, looks)
	for range 2 {
		if err := e.failover.lookupOwner(t.Context(), e.held); !errors.Is(err, errNotOurs) {
			t.Fatal(err)
		}
	}
	if _, _, err := e.cfg.Leases.TakeOver(t.Context(), e.old(t), proof, nil); err != nil {
		t.Fatal(err)
	}
	e.witness.voters = nil
	e.run()
	e.taken(t, store.PhaseOwned)
}

// Broken off in the middle of a promotion, it is done again from the disk.
func TestPromoteAgain(t *testing.T) {
	t.Parallel()
	e := newCopyFixture(t, false, nil)
	if err := e.arrivals.promoteLinks(subnetA); err != nil {
		t.Fatal(err)
	}
	if err := e.cfg.DB.StartLog(subnetA, 5, e.held.Pos); err != nil {
		t.Fatal(err)
	}
	tally, _ := e.failover.vote(t.Context(), []replica.LocalCopy{e.held})
	if err := e.failover.take(t.Context(), e.held, tally, nil); err != nil {
		t.Fatal(err)
	}
	e.taken(t, store.PhaseOwned)
}

// A promotion that failed when all was written, as the disk did not sync, is done
// again.
func TestPromoteAfterTheRecord(t *testing.T) {
	t.Parallel()
	e := newCopyFixture(t, false, nil)
	tally, _ := e.failover.vote(t.Context(), []replica.LocalCopy{e.held})
	if err := e.failover.take(t.Context(), e.held, tally, nil); err != nil {
		t.Fatal(err)
	}
	rec, _ := e.stored(subnetA)
	if rec.Phase != store.PhaseOwned {
		t.Fatalf("it is %v", rec.Phase)
	}
	again := *e // of which nothing is in memory yet, but the copy
	again.rejoin(t, e.dht, e.cfg.DB, func(*Config) {})
	again.mu.Lock()
	delete(again.subnets, subnetA)
	again.mu.Unlock()
	again.replicas.held[subnetA] = again.held
	l, err := lease.OpenLease(rec.Lease)
	if err != nil {
		t.Fatal(err)
	}
	if err := again.arrivals.promote(again.held, l, rec.Lease); err != nil || !again.Live(subnetA) {
		t.Errorf("not promoted again: %v", err)
	}
	if _, held := again.replicas.Copy(subnetA); held {
		t.Error("still a copy")
	}
}

// A subnet without an owner that is claimed begins with the copy of it.
func TestClaimWithCopy(t *testing.T) {
	t.Parallel()
	e := newCopyFixture(t, false, nil)
	now := time.Now()
	sealed, err := lease.SealLease(lease.Lease{Subnet: subnetA, Owner: bob.id, Epoch: 1,
		Issued: now, Expires: now.Add(time.Hour)}, bob.key)
	if err != nil {
		t.Fatal(err)
	}
	l, _ := lease.OpenLease(sealed)
	if err := e.arrivals.begin(l, sealed); err != nil || e.queued("a.test") != heldURLs ||
		!e.frontier.Owns("a.test") {
		t.Errorf("%v; %d URLs", err, e.queued("a.test"))
	}
	f := newCopyFixture(t, false, nil)
	f.held.Complete = false
	f.replicas.held[subnetA] = f.held
	if err := f.arrivals.begin(l, sealed); !errors.Is(err, errClearing) || f.Live(subnetA) {
		t.Errorf("with half a copy: %v", err)
	}
}

// Only one replica wins, and the other learns it.
func TestTakeoverRace(t *testing.T) {
	t.Parallel()
	e := newCopyFixture(t, false, nil)
	l, _ := lease.OpenLease(e.held.Lease)
	db := openStore(t)
	other := &copyFixture{deferred: map[string]int{}, heard: e.heard, held: e.held}
	other.put(t, db, l, e.held.Lease, false)
	other.member, other.replicas, other.witness = guardedOn(t, carol, e.dht, db, func(c *Config) {
		contactsOf(c).heard = func(peer.ID) time.Time { return other.heard }
	})
	other.replicas.held[subnetA] = other.held
	other.witness.voters = []someone{bob, carol} // as no honest ones do
	e.run()
	other.run()
	one := func() bool { return e.Live(subnetA) != other.Live(subnetA) }
	until(t, "one has it", one)
	time.Sleep(100 * time.Millisecond)
	until(t, "one has it still, or again: both may have asked before either had the lease", one)
}

func TestWilling(t *testing.T) {
	t.Parallel()
	m, _, _ := guardedBy(t, bob, nil, nil)
	seal := func(s someone, p netip.Prefix, epoch uint64) []byte {
		now := time.Now()
		b, err := lease.SealLease(lease.Lease{Subnet: p, Owner: s.id, Epoch: epoch, Issued: now,
			Expires: now.Add(time.Hour)}, s.key)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	good := replica.OpenRequest{Subnet: subnetB, Epoch: 1, Lease: seal(alice, subnetB, 1),
		WitnessSet: witnessSetOf(t, alice, carol, bob)}
	if _, _, err := m.values.Put(t.Context(), lease.Key(subnetB), good.Lease); err != nil {
		t.Fatal(err)
	}
	if _, _, err := m.cfg.Leases.Refresh(t.Context(), subnetB); err != nil {
		t.Fatal(err)
	}
	if err := m.policy.AcceptCopy(alice.id, good); err != nil {
		t.Error(err)
	}
	for name, c := range map[string]struct {
		from   someone
		change func(*replica.OpenRequest)
	}{
		"another's lease": {carol, func(*replica.OpenRequest) {}},
		"no lease":        {alice, func(o *replica.OpenRequest) { o.Lease = nil }},
		"another epoch":   {alice, func(o *replica.OpenRequest) { o.Epoch = 2 }},
		"another subnet":  {alice, func(o *replica.OpenRequest) { o.Subnet = subnetA }},
		"another's witness set": {alice, func(o *replica.OpenRequest) {
			o.WitnessSet = witnessSetOf(t, carol)
		}},
		"a torn witness set": {alice, func(o *replica.OpenRequest) {
			o.WitnessSet = bytes.Repeat([]byte{7}, 99)
		}},
	} {
		o := good
		c.change(&o)
		if m.policy.AcceptCopy(c.from.id, o) == nil {
			t.Errorf("%s: taken", name)
		}
	}
	m.claim(subnetA)
	o := replica.OpenRequest{Subnet: subnetA, Epoch: 1, Lease: seal(alice, subnetA, 1)}
	if l, _ := m.cfg.Leases.Cached(subnetA); lease.Better(l,
		lease.Lease{Subnet: subnetA, Owner: alice.id, Epoch: 1}) > 0 {
		if err := m.policy.AcceptCopy(alice.id, o); !errors.Is(err, replica.ErrStale) {
			t.Errorf("beaten: %v", err)
		}
	}
	m.draining.Store(true)
	if m.policy.AcceptCopy(alice.id, good) == nil {
		t.Error("taken although we leave")
	}
}
