package owner

import (
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/coords"
	"peerd/internal/clock"
	"peerd/overlay/lease"
	"peerd/overlay/replica"
	"peerd/store"
)

// orphanFixture is bob, who has URLs for a subnet of alice's, who is dead, and of which he
// has no copy.
type orphanFixture struct {
	*member
	witness  *fakeWitness
	replicas *fakeReplicas
	heard    time.Time
}

func newOrphanFixture(t *testing.T) *orphanFixture { return newOrphanFixtureAt(t, 0, 0) }

// newOrphanFixtureAt is newOrphanFixture where the clocks of alice's and bob's leases are off.
func newOrphanFixtureAt(t *testing.T, alices, bobs time.Duration) *orphanFixture {
	t.Helper()
	dht := newDHT()
	off := func(c *Config, by time.Duration) {
		lc := lease.DefaultConfig()
		lc.Self, lc.Key, lc.Values, lc.Settle = c.Self, c.Key, dht.Peer(), 0
		lc.Clock = clock.Of(func() time.Time { return time.Now().Add(by) })
		leases, err := lease.NewRegistry(lc)
		if err != nil {
			t.Fatal(err)
		}
		c.Leases = leases
	}
	a := join(t, alice, dht, nil, func(c *Config) {
		c.Strategy = &script{next: choose(alice)}
		off(c, alices)
	})
	a.claim(subnetA)
	o := &orphanFixture{heard: time.Now()}
	o.member, o.replicas, o.witness = guardedOn(t, bob, dht, openStore(t), func(c *Config) {
		contactsOf(c).heard = func(peer.ID) time.Time { return o.heard }
		off(c, bobs)
	})
	o.strategy.next = probeFirst(bob)
	o.witness.voters = []someone{bob, carol}
	o.witness.others = map[peer.ID][]byte{alice.id: witnessSetOf(t, alice, bob, carol)}
	if changed, err := o.resolver.RefreshOwner(t.Context(), subnetA, alice.id,
		false); err != nil || changed {
		t.Fatal(changed, err)
	}
	return o
}

// try has what is due for orphans done once.
func (o *orphanFixture) try(t *testing.T, now time.Time) (tasks int) {
	o.started = time.Time{}
	for _, task := range o.failover.toRescue(now) {
		task(t.Context())
		tasks++
	}
	return tasks
}

func TestOrphanIsRecreated(t *testing.T) {
	t.Parallel()
	o := newOrphanFixture(t)
	if o.try(t, o.heard.Add(o.Manager.cfg.Times.Orphan*5/4)) != 0 || o.witness.asked() != 0 {
		t.Fatal("asked for votes while a replica may still take over")
	}
	o.witness.voters = o.witness.voters[:1]
	late := time.Now().Add(time.Hour / 2)
	if o.try(t, late) != 1 || o.Live(subnetA) {
		t.Fatal("one vote of two was enough")
	}
	o.witness.voters = []someone{bob, carol}
	if o.try(t, late.Add(2*takeWaitMax)) != 1 || !o.Live(subnetA) {
		t.Fatal("not taken over")
	}
	if o.phase(subnetA) != store.PhaseDeciding || o.epoch(subnetA) != 2 {
		t.Errorf("phase %v at epoch %d", o.phase(subnetA), o.epoch(subnetA))
	}
	l, _, err := join(t, carol, o.dht, nil, nil).cfg.Leases.Lookup(t.Context(), subnetA)
	if err != nil || l.Owner != bob.id || l.Takeover == nil || l.Takeover.Slow() {
		t.Errorf("in the DHT: %+v, %v", l, err)
	}
	if o.Stats().Takeovers != 1 || len(o.failover.orphans.entries) != 0 {
		t.Errorf("%d takeovers, %d orphans", o.Stats().Takeovers, len(o.failover.orphans.entries))
	}
}

// A peer that fails after it has taken an orphan over, and before it has begun with it, does not
// wait for copies that it has not found before.
func TestRecreationIsInterrupted(t *testing.T) {
	t.Parallel()
	for name, restart := range map[string]bool{"tried again": false, "started again": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := newOrphanFixture(t)
			left := func(fn func(*store.Tx) error) {
				if err := o.claimer.cfg.DB.Update(fn); err != nil {
					t.Fatal(err)
				}
			}
			left(func(tx *store.Tx) error {
				return tx.PutSubnet(store.Subnet{Prefix: subnetA, Phase: store.PhaseStaged})
			})
			if o.try(t, time.Now().Add(time.Hour/2)) != 1 || o.Live(subnetA) {
				t.Fatal("begun while an old copy is being deleted")
			}
			if l, ok := o.claimer.cfg.Leases.Cached(subnetA); !ok || l.Owner != bob.id {
				t.Fatalf("not taken over: %+v", l)
			}
			left(func(tx *store.Tx) error { return tx.DeleteSubnet(subnetA) })
			if restart {
				o.member, _, _ = guardedOn(t, bob, o.dht, o.claimer.cfg.DB, nil)
			}
			if err := o.claimer.Claim(t.Context(), subnetA); err != nil || !o.Live(subnetA) ||
				o.epoch(subnetA) != 2 || o.claimsOnDisk() != 0 {
				t.Errorf("Claim() = %v, ours: %v, at epoch %d, %d claims on disk", err,
					o.Live(subnetA), o.epoch(subnetA), o.claimsOnDisk())
			}
		})
	}
}

// A cut that an owner and its replicas are behind is waited for, unless it had none yet.
func TestOrphanThatHadReplicas(t *testing.T) {
	t.Parallel()
	o := newOrphanFixture(t)
	times := o.Manager.cfg.Times
	for _, c := range []struct {
		held time.Duration // between its lease and when it was last heard
		wait time.Duration
	}{
		{times.First, times.Orphan},
		{times.First + times.Lost - time.Second, times.Orphan},
		{times.First + times.Lost + time.Second, times.Recreate},
	} {
		was := o.failover.orphans.entries[subnetA]
		was.about.asked = was.about.lease.Issued.Add(time.Hour)
		o.heard = was.about.lease.Issued.Add(c.held)
		begins := o.heard.Add(c.wait*5/4 + 8*o.share(subnetA))
		if o.try(t, begins) != 0 {
			t.Errorf("%v after its lease: recreated at once", c.held)
		}
		o.witness.voters = nil
		if o.try(t, begins.Add(time.Second)) != 1 {
			t.Errorf("%v after its lease: not recreated after %v", c.held, c.wait)
		}
		was.next = time.Time{}
	}
	l := o.failover.orphans.entries[subnetA].about.lease
	o.heard = l.Issued
	if d := o.failover.silenceLimit(l); d != times.Orphan {
		t.Errorf("a claim waits %v", d)
	}
	if l.Epoch = 2; o.failover.silenceLimit(l) != times.Recreate {
		t.Errorf("a successor's subnet waits %v", o.failover.silenceLimit(l))
	}
	l.Epoch, l.Proxy = 1, new(coords.Proxy)
	if o.failover.silenceLimit(l) != times.Recreate {
		t.Errorf("a subnet that is placed waits %v", o.failover.silenceLimit(l))
	}
}

// Who is there and has a copy is left the time to take over with it.
func TestOrphanWithACopyElsewhere(t *testing.T) {
	t.Parallel()
	o := newOrphanFixture(t)
	o.Manager.cfg.Directory = directory{alice, bob, carol}
	c := replica.RemoteCopy{Subnet: subnetA, Owner: alice.id, Epoch: 1, Complete: true,
		Pos: store.LogPos{Log: 9, Seq: 4}}
	late := time.Now().Add(time.Hour / 2)
	set := func(c ...replica.RemoteCopy) {
		o.replicas.mu.Lock()
		defer o.replicas.mu.Unlock()
		o.replicas.others = map[peer.ID][]replica.RemoteCopy{carol.id: c}
	}
	set(c)
	if o.try(t, late) != 1 || o.Live(subnetA) || o.witness.asked() != 0 {
		t.Fatal("recreated while carol has a copy")
	}
	was := o.failover.orphans.entries[subnetA]
	if was == nil || was.state == entryBusy || was.about.held.IsZero() {
		t.Fatalf("it is not tried again: %+v", was)
	}
	late = late.Add(2 * takeWaitMax)
	was.about.held = was.about.held.Add(-heldFor*o.Manager.cfg.Times.Orphan - time.Second)
	if o.try(t, late) != 1 || !o.Live(subnetA) {
		t.Error("a copy that no peer continues blocks the subnet forever")
	}
	for name, change := range map[string]func(*replica.RemoteCopy){
		"not complete":       func(c *replica.RemoteCopy) { c.Complete = false },
		"of another epoch":   func(c *replica.RemoteCopy) { c.Epoch = 2 },
		"of another owner's": func(c *replica.RemoteCopy) { c.Owner = bob.id },
	} {
		o := newOrphanFixture(t)
		o.Manager.cfg.Directory = directory{alice, bob, carol}
		odd := c
		change(&odd)
		o.replicas.others = map[peer.ID][]replica.RemoteCopy{carol.id: {odd}}
		if o.try(t, late) != 1 || !o.Live(subnetA) {
			t.Errorf("a copy that is %s keeps it", name)
		}
	}
}

// A copy that was seen under an earlier lease says nothing of those under the next one.
func TestOrphanOfNextOwner(t *testing.T) {
	t.Parallel()
	o := newOrphanFixture(t)
	since := time.Now().Add(-time.Hour)
	l := o.failover.orphans.entries[subnetA].about.lease
	o.failover.orphans.entries[subnetA].about.held = since
	o.failover.orphaned(l, nil)
	if held := o.failover.orphans.entries[subnetA].about.held; !held.Equal(since) {
		t.Errorf("the copy is known since %v, want %v", held, since)
	}
	o.failover.orphaned(l.Next(carol.id), nil)
	if e := o.failover.orphans.entries[subnetA].about; !e.held.IsZero() || e.lease.Epoch != 2 {
		t.Errorf("a copy of epoch %d is known since %v", e.lease.Epoch, e.held)
	}
}

func TestOrphanOfAnotherOwner(t *testing.T) {
	t.Parallel()
	o := newOrphanFixture(t)
	takenBy(t, carol, o.dht)
	o.try(t, time.Now().Add(time.Hour))
	if o.Live(subnetA) || o.witness.asked() != 0 || len(o.failover.orphans.entries) != 0 {
		t.Error("a subnet that has an owner is taken for an orphan")
	}
}

// Without witnesses that anybody knows of, it takes long silence.
func TestOrphanWithoutWitnesses(t *testing.T) {
	t.Parallel()
	o := newOrphanFixture(t)
	o.witness.others = nil
	o.heard = time.Now().Add(-lease.LongSilence / 2)
	if o.try(t, time.Now()) != 1 || o.Live(subnetA) {
		t.Fatal("taken over without votes")
	}
	if why := o.failover.orphans.entries[subnetA]; why == nil || why.state == entryBusy ||
		why.fails != 1 {
		t.Errorf("it is not tried again: %+v", why)
	}
}

// Long silence is enough, whatever clocks show.
func TestOrphanAfterLongSilence(t *testing.T) {
	t.Parallel()
	for _, off := range []time.Duration{0, 2 * time.Minute, -2 * time.Minute} {
		// alice's last lease, by a clock that is as wrong the other way
		ago := lease.LongSilence + 5*time.Minute
		o := newOrphanFixtureAt(t, -ago-off, off)
		o.witness.others = nil
		o.heard = time.Now().Add(-lease.LongSilence + time.Minute)
		if o.try(t, time.Now()) != 1 || o.Live(subnetA) {
			t.Fatal("taken over too early")
		}
		o.heard = time.Now().Add(-ago)
		if o.try(t, time.Now().Add(takeWaitMax)) != 1 || !o.Live(subnetA) {
			t.Fatalf("clock off by %v: not taken over", off)
		}
		if l, _ := o.cfg.Leases.Cached(subnetA); l.Owner != bob.id || l.Epoch != 2 ||
			!l.Takeover.Slow() {
			t.Errorf("the lease: %+v", l)
		}
	}
}

// An answer that names another owner is enough: a second look at the DHT would only cost.
func TestDenialNamesOwner(t *testing.T) {
	t.Parallel()
	e := newCopyFixture(t, false, nil)
	if _, _, err := e.cfg.Leases.Refresh(t.Context(), subnetA); err != nil {
		t.Fatal(err)
	}
	takenBy(t, carol, e.dht) // which is not known here
	for _, denied := range []bool{true, false} {
		changed, err := e.resolver.RefreshOwner(t.Context(), subnetA, carol.id, denied)
		if err != nil || changed != denied {
			t.Errorf("denied %v: RefreshOwner() = %v, %v, want %v by what is known",
				denied, changed, err, denied)
		}
	}
}
