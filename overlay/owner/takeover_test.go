package owner

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/overlay/lease"
	"peerd/overlay/lease/register/registertest"
	"peerd/overlay/shadow"
	"peerd/store"
)

// heldURLs is how many URLs are queued in the copy of a test.
const heldURLs = 5

// estate is a subnet of alice's, who is dead, and bob's copy of it.
type estate struct {
	*member
	replicas *fakeReplicas
	witness  *fakeWitness
	held     shadow.Held
	heard    time.Time // of alice, by whomever
	deferred map[string]int
}

// newEstate has bob hold a copy of subnetA as alice, who claimed it, had it.
func newEstate(t *testing.T, deciding bool, change func(*Config)) *estate {
	t.Helper()
	dht := newDHT()
	a := join(t, alice, dht, nil, func(c *Config) { c.Strategy = &script{next: choose(alice)} })
	a.claim(subnetA)
	l, sealed, err := a.cfg.Leases.Lookup(t.Context(), subnetA)
	if err != nil {
		t.Fatal(err)
	}
	e := &estate{deferred: map[string]int{}, heard: time.Now()}
	db := openStore(t)
	e.put(t, db, l, sealed, deciding)
	e.rejoin(t, dht, db, change)
	e.held = shadow.Held{
		Subnet: subnetA, Owner: alice.id, Epoch: 1, Complete: true, Pos: store.TailPos{Log: 9, Seq: 4},
		Heard: time.Now(), Counted: time.Now(), Panel: panelOf(t, alice, bob, carol), Lease: sealed,
	}
	e.replicas.held[subnetA] = e.held
	return e
}

func (e *estate) rejoin(t *testing.T, dht *registertest.DHT, db *store.DB, change func(*Config)) {
	e.member, e.replicas, e.witness = guardedOn(t, bob, dht, db, func(c *Config) {
		c.Heard = func(peer.ID) time.Time { return e.heard }
		c.Rest = time.Minute
		c.Deferred = func(n map[string]int) {
			for h, k := range n {
				e.deferred[h] += k
			}
		}
		if change != nil {
			change(c)
		}
	})
	e.strategy.next = probeFirst(bob)
	e.witness.voters = []someone{bob, carol}
}

// put writes the copy onto bob's disk.
func (e *estate) put(t *testing.T, db *store.DB, l lease.Lease, sealed []byte, deciding bool) {
	t.Helper()
	s := &subnet{phase: store.PhaseOwned, lease: l, keepers: []keeper{{id: bob.id}}}
	if deciding {
		s.phase = store.PhaseDeciding
	}
	rec, err := s.record()
	if err != nil {
		t.Fatal(err)
	}
	rec.Prefix, rec.Phase, rec.Lease, rec.From, rec.Log, rec.Seq = subnetA, store.PhaseShadow, sealed, alice.id.String(), 9, 4
	err = db.Update(func(tx *store.Tx) error {
		tx.PutHost(store.Host{Name: "a.test", Subnet: subnetA, Addr: addrA, Pending: heldURLs})
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
			return tx.Apply(subnetA, []store.Op{{Kind: store.OpOutlink, Name: "a.test", Pending: &store.Pending{URL: "http://else.test/", From: "a.test", Found: time.Now()}}})
		})
	}
	if err != nil {
		t.Fatal(err)
	}
}

// away makes it so that the owner has not been on the link since bob's start.
func (e *estate) away() { e.held.Heard, e.held.Counted = time.Time{}, time.Time{} }

// taken checks that bob owns the subnet, with all that was in the copy.
func (e *estate) taken(t *testing.T, phase store.Phase) {
	t.Helper()
	until(t, "it is taken over", func() bool { return e.Live(subnetA) })
	if e.phase(subnetA) != phase || e.epoch(subnetA) != 2 || e.queued("a.test") != heldURLs || !e.frontier.Owns("a.test") {
		t.Errorf("phase %v, epoch %d, %d URLs", e.phase(subnetA), e.epoch(subnetA), e.queued("a.test"))
	}
	if at := e.frontier.adopts[subnetA]; time.Until(at) < 30*time.Second {
		t.Errorf("the servers rest until %v only", at)
	}
	rec, ok := e.stored(subnetA)
	if !ok || rec.Phase != phase || rec.Epoch != 2 {
		t.Errorf("on the disk: %v, epoch %d", rec.Phase, rec.Epoch)
	}
	if head, base, ok := e.cfg.DB.TailHead(subnetA); !ok || base != (store.TailPos{Log: 9, Seq: 4}) || head.Log == 9 {
		t.Errorf("its log: %v on %v, %v", head, base, ok)
	}
	err := e.cfg.DB.View(func(tx *store.Tx) error {
		waits, err := tx.Waiting("http://else.test/")
		if !waits {
			t.Error("what alice had not delivered is lost")
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	if e.deferred["else.test"] != 1 {
		t.Errorf("put aside: %v", e.deferred)
	}
	l, _, err := join(t, carol, e.dht, nil, nil).cfg.Leases.Lookup(t.Context(), subnetA)
	if err != nil || l.Owner != bob.id || l.Epoch != 2 || l.Takeover == nil {
		t.Errorf("in the DHT: %v at epoch %d, %v", l.Owner, l.Epoch, err)
	}
}

func TestTakeover(t *testing.T) {
	for name, deciding := range map[string]bool{"owned": false, "estimating": true} {
		t.Run(name, func(t *testing.T) {
			e := newEstate(t, deciding, nil)
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
		})
	}
}

// Whoever hears the owner, lacks votes, or may be an old shadow, takes nothing.
func TestNoTakeover(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*estate)
		asks   bool
	}{
		"too few votes":                 {func(e *estate) { e.witness.voters = e.witness.voters[:1] }, true},
		"others hear it":                {func(e *estate) { e.heard = time.Now().Add(time.Hour) }, false},
		"the link is up":                {func(e *estate) { e.held.Heard = time.Now().Add(time.Hour) }, false},
		"the copy has gaps":             {func(e *estate) { e.held.Complete = false }, false},
		"it lived on without us":        {func(e *estate) { e.held.Counted, e.heard = e.heard, e.heard.Add(60*time.Millisecond) }, false},
		"we were away, nobody knows it": {func(e *estate) { e.away(); e.heard, e.awake = time.Time{}, time.Now() }, false},
		"we were away for long":         {func(e *estate) { e.away(); e.awake = e.heard.Add(-time.Hour) }, false},
		"we were away too long, by what is written down": {func(e *estate) {
			e.away()
			e.held.Counted, e.heard, e.awake = e.started.Add(-60*time.Millisecond), time.Time{}, e.started
		}, false},
		"its link is up, and it owes for what came": {func(e *estate) {
			e.held.Counted, e.heard = e.heard, e.heard.Add(60*time.Millisecond)
			e.held.Heard = e.heard
		}, false},
		"the copy may change meanwhile": {func(e *estate) { e.replicas.pins[subnetA] = true }, false},
		"we leave":                      {func(e *estate) { e.draining.Store(true) }, false},
		"of a lower epoch":              {func(e *estate) { e.held.Epoch = 0 }, false},
	} {
		t.Run(name, func(t *testing.T) {
			e := newEstate(t, false, nil)
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
	e := newEstate(t, false, nil)
	times := e.Manager.cfg.Times
	for _, c := range []struct {
		silent time.Duration
		taken  bool
	}{
		{times.Orphan + 8*times.Spread + time.Second, false},
		{times.Anew - time.Second, false},
		{times.Anew + 8*times.Spread + time.Second, true},
	} {
		e.heard = time.Now().Add(-c.silent)
		e.started = e.heard.Add(-time.Hour)
		e.held.Heard, e.held.Counted = e.heard, e.heard.Add(-times.Lost-time.Second)
		if err := e.replaced(e.held); (err == nil) != c.taken {
			t.Errorf("after %v: %v", c.silent, err)
		}
	}
}

// A short absence of the shadow does not keep it from taking over.
func TestTakeoverAfterRestart(t *testing.T) {
	e := newEstate(t, false, nil)
	e.away()
	e.awake = e.heard.Add(-10 * time.Millisecond)
	e.replicas.held[subnetA] = e.held
	e.run()
	e.taken(t, store.PhaseOwned)
}

// What is written down of the link is enough, although nobody has heard the owner since.
func TestTakeoverByWhatIsWrittenDown(t *testing.T) {
	e := newEstate(t, false, nil)
	e.away()
	e.held.Counted, e.heard = e.started.Add(-10*time.Millisecond), time.Time{}
	e.replicas.held[subnetA] = e.held
	e.run()
	e.taken(t, store.PhaseOwned)
}

// Without votes and without the lease in the DHT nothing is fetched; a lease that
// got there although we broke off is made good, even if nobody would vote now.
func TestTakeoverResumed(t *testing.T) {
	e := newEstate(t, false, nil)
	tally, err := e.vote(t.Context(), []shadow.Held{e.held})
	if err != nil {
		t.Fatal(err)
	}
	proof, ok := tally.Takeover(subnetA)
	if !ok {
		t.Fatal("no votes")
	}
	if _, _, err := e.cfg.Leases.TakeOver(t.Context(), subnetA, 2, proof, nil); err != nil {
		t.Fatal(err)
	}
	again := *e // the process ends before the subnet is ours
	again.rejoin(t, e.dht, e.cfg.DB, nil)
	again.held.Heard = time.Now().Add(time.Hour) // alice is back, and knows that it is not hers
	again.replicas.held[subnetA] = again.held
	again.witness.voters = nil
	again.run()
	time.Sleep(50 * time.Millisecond)
	if again.Live(subnetA) {
		t.Fatal("taken without need")
	}
	if ok, _, _ := again.Receive(subnetA); ok { // somebody sends what the lease says is ours
		t.Error("URLs are taken")
	}
	again.taken(t, store.PhaseOwned)
}

// The same when the write that was given up shows only later, and the owner is back:
// it has yielded to that lease, so nobody else would see to the subnet.
func TestTakeoverResumedLate(t *testing.T) {
	e := newEstate(t, false, nil)
	tally, err := e.vote(t.Context(), []shadow.Held{e.held})
	if err != nil {
		t.Fatal(err)
	}
	proof, _ := tally.Takeover(subnetA)
	e.started, e.heard = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	e.resume(subnetA)
	for range 2 {
		if err := e.whose(t.Context(), e.held); !errors.Is(err, errNotOurs) {
			t.Fatal(err)
		}
	}
	if _, _, err := e.cfg.Leases.TakeOver(t.Context(), subnetA, 2, proof, nil); err != nil {
		t.Fatal(err)
	}
	e.witness.voters = nil
	e.run()
	e.taken(t, store.PhaseOwned)
}

// Broken off in the middle of a promotion, it is done again from the disk.
func TestPromoteAgain(t *testing.T) {
	e := newEstate(t, false, nil)
	if err := e.putLinks(subnetA); err != nil {
		t.Fatal(err)
	}
	if err := e.cfg.DB.StartTail(subnetA, 5, e.held.Pos); err != nil {
		t.Fatal(err)
	}
	tally, _ := e.vote(t.Context(), []shadow.Held{e.held})
	if err := e.take(t.Context(), e.held, tally, nil); err != nil {
		t.Fatal(err)
	}
	e.taken(t, store.PhaseOwned)
}

// A promotion that failed when all was written, as the disk did not sync, is done
// again.
func TestPromoteAfterTheRecord(t *testing.T) {
	e := newEstate(t, false, nil)
	tally, _ := e.vote(t.Context(), []shadow.Held{e.held})
	if err := e.take(t.Context(), e.held, tally, nil); err != nil {
		t.Fatal(err)
	}
	rec, _ := e.stored(subnetA)
	if rec.Phase != store.PhaseOwned {
		t.Fatalf("it is %v", rec.Phase)
	}
	again := *e // of which nothing is in memory yet, but the copy
	again.rejoin(t, e.dht, e.cfg.DB, func(*Config) {})
	again.Manager.mu.Lock()
	delete(again.subnets, subnetA)
	again.Manager.mu.Unlock()
	again.replicas.held[subnetA] = again.held
	l, err := lease.OpenLease(rec.Lease)
	if err != nil {
		t.Fatal(err)
	}
	if err := again.promote(again.held, l, rec.Lease); err != nil || !again.Live(subnetA) {
		t.Errorf("not promoted again: %v", err)
	}
	if _, held := again.replicas.Copy(subnetA); held {
		t.Error("still a copy")
	}
}

// A subnet without an owner that is claimed begins with the copy of it.
func TestClaimWithCopy(t *testing.T) {
	e := newEstate(t, false, nil)
	now := time.Now()
	sealed, err := lease.SealLease(lease.Lease{Subnet: subnetA, Owner: bob.id, Epoch: 1, Issued: now, Expires: now.Add(time.Hour)}, bob.key)
	if err != nil {
		t.Fatal(err)
	}
	l, _ := lease.OpenLease(sealed)
	if err := e.begin(l, sealed); err != nil || e.queued("a.test") != heldURLs || !e.frontier.Owns("a.test") {
		t.Errorf("%v; %d URLs", err, e.queued("a.test"))
	}
	f := newEstate(t, false, nil)
	f.held.Complete = false
	f.replicas.held[subnetA] = f.held
	if err := f.begin(l, sealed); !errors.Is(err, errClearing) || f.Live(subnetA) {
		t.Errorf("with half a copy: %v", err)
	}
}

// Only one shadow wins, and the other learns it.
func TestTakeoverRace(t *testing.T) {
	e := newEstate(t, false, nil)
	l, _ := lease.OpenLease(e.held.Lease)
	db := openStore(t)
	other := &estate{deferred: map[string]int{}, heard: e.heard, held: e.held}
	other.put(t, db, l, e.held.Lease, false)
	other.member, other.replicas, other.witness = guardedOn(t, carol, e.dht, db, func(c *Config) {
		c.Heard = func(peer.ID) time.Time { return other.heard }
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
	m, _, _ := guardedBy(t, bob, nil, nil)
	seal := func(s someone, p netip.Prefix, epoch uint64) []byte {
		now := time.Now()
		b, err := lease.SealLease(lease.Lease{Subnet: p, Owner: s.id, Epoch: epoch, Issued: now, Expires: now.Add(time.Hour)}, s.key)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	good := shadow.Open{Subnet: subnetB, Epoch: 1, Lease: seal(alice, subnetB, 1), Panel: panelOf(t, alice, carol, bob)}
	if err := m.Willing(alice.id, good); err != nil {
		t.Error(err)
	}
	for name, c := range map[string]struct {
		from   someone
		change func(*shadow.Open)
	}{
		"another's lease": {carol, func(*shadow.Open) {}},
		"no lease":        {alice, func(o *shadow.Open) { o.Lease = nil }},
		"another epoch":   {alice, func(o *shadow.Open) { o.Epoch = 2 }},
		"another subnet":  {alice, func(o *shadow.Open) { o.Subnet = subnetA }},
		"another's panel": {alice, func(o *shadow.Open) { o.Panel = panelOf(t, carol) }},
		"a torn panel":    {alice, func(o *shadow.Open) { o.Panel = bytes.Repeat([]byte{7}, 99) }},
	} {
		o := good
		c.change(&o)
		if m.Willing(c.from.id, o) == nil {
			t.Errorf("%s: taken", name)
		}
	}
	m.claim(subnetA)
	o := shadow.Open{Subnet: subnetA, Epoch: 1, Lease: seal(alice, subnetA, 1)}
	if l, _ := m.cfg.Leases.Cached(subnetA); lease.Better(l, lease.Lease{Subnet: subnetA, Owner: alice.id, Epoch: 1}) > 0 {
		if err := m.Willing(alice.id, o); !errors.Is(err, shadow.ErrStale) {
			t.Errorf("beaten: %v", err)
		}
	}
	m.draining.Store(true)
	if m.Willing(alice.id, good) == nil {
		t.Error("taken although we leave")
	}
}
