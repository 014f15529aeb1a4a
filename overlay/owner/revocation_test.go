package owner

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/overlay/handover"
	"peerd/overlay/lease"
	"peerd/overlay/ownership"
	"peerd/overlay/record/recordtest"
	"peerd/overlay/replica"
	"peerd/overlay/witness"
	"peerd/store"
)

// takenBy publishes that a peer has taken subnetA over from alice.
func takenBy(t *testing.T, by someone, dht *recordtest.DHT) {
	t.Helper()
	m := join(t, by, dht, nil, nil)
	old, _, err := m.cfg.Leases.Refresh(t.Context(), subnetA)
	if err != nil {
		t.Fatal(err)
	}
	w := &fakeWitness{me: by, voters: []someone{bob, carol}}
	tally, err := w.RequestVotes(t.Context(), alice.id, witnessSetOf(t, alice, bob, carol),
		[]witness.Proposal{{Subnet: subnetA, Epoch: 2, Ended: old.Digest()}})
	if err != nil {
		t.Fatal(err)
	}
	proof, _ := tally.Takeover(subnetA)
	if _, _, err := m.cfg.Leases.TakeOver(t.Context(), old, proof, nil); err != nil {
		t.Fatal(err)
	}
}

func revocation(epoch uint64) []witness.Revocation {
	return []witness.Revocation{{By: carol.id, Subnet: subnetA, Epoch: epoch, To: bob.id}}
}

// still checks that nothing is fetched or taken in.
func (m *member) still(what string) {
	m.t.Helper()
	if _, hold := m.placement.Where(subnetA); !hold || !m.frontier.is(m.frontier.shut, subnetA) {
		m.t.Errorf("%s: pages are fetched", what)
	}
	if ok, moving, _ := m.resolver.Accepts(subnetA); ok || !moving {
		m.t.Errorf("%s: URLs are taken", what)
	}
	for _, s := range m.List() {
		if s.Prefix == subnetA && m.HasQuorumLease() && !s.Unverified {
			m.t.Errorf("%s: subnet not reported as unverified", what)
		}
	}
}

// A vote that leads to nothing stops the owner for as long as it might.
func TestRevokedAndRevived(t *testing.T) {
	t.Parallel()
	m, _, _ := sheltered(t, bob)
	if err := m.Revoked(t.Context(), revocation(1)); err != nil ||
		m.subnets[subnetA].unit.Doubt != 0 {
		t.Error("stopped by a vote on what we have")
	}
	begin := time.Now()
	if err := m.Revoked(t.Context(), revocation(2)); err != nil {
		t.Fatal(err)
	}
	m.still("revoked")
	again, _, _ := guardedOn(t, alice, m.dht, m.cfg.DB, nil)
	if _, hold := again.placement.Where(subnetA); !hold || !again.frontier.is(again.frontier.shut,
		subnetA) {
		t.Error("a restart forgets it")
	}
	m.run()
	until(t, "it goes on", func() bool {
		_, hold := m.placement.Where(subnetA)
		return !hold && !m.frontier.is(m.frontier.shut, subnetA)
	})
	if took := time.Since(begin); took < m.Manager.cfg.Times.Revive {
		t.Errorf("after %v", took)
	}
	until(t, "it is not unconfirmed on the disk either", func() bool {
		rec, _ := m.stored(subnetA)
		return !openEvidence(rec.Evidence).Unverified
	})
}

// An owner that was taken over yields what the winner cannot know, and no more.
func TestYieldsTheRest(t *testing.T) {
	t.Parallel()
	m, r, _ := sheltered(t, bob)
	m.rounds(2)
	m.plant("b.test", subnetA, addrA, 4) // logged
	head, _, ok := m.cfg.DB.LogHead(subnetA)
	if !ok {
		t.Fatal("no log")
	}
	r.set(bob.id, replica.Follower{Synced: true, Pos: head})
	m.rounds(2)
	m.plant("c.test", subnetA, addrA, 2) // what bob has not got
	err := m.cfg.DB.Update(func(tx *store.Tx) error {
		e, err := tx.Peek("c.test")
		if err == nil { // fetched meanwhile: bob need not know
			err = tx.Remove("c.test", e)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	takenBy(t, bob, m.dht)
	m.departures.started = time.Now().Add(time.Hour) // bob is not silent
	if err := m.Revoked(t.Context(), revocation(2)); err != nil {
		t.Fatal(err)
	}
	m.run()
	until(t, "it has yielded", func() bool { return !m.Live(subnetA) })
	if len(m.routed) != 1 || m.routed[0].URL != "http://c.test/1" {
		t.Errorf("routed %v", m.routed)
	}
	if _, ok := m.stored(subnetA); ok || m.queued("a.test") > 0 {
		t.Error("something is left")
	}
}

// A winner that has not been heard since it took over may be lost with its disk: the former owner,
// who had everything, keeps a copy of the winner's subnet.
func TestYieldsToSilentWinner(t *testing.T) {
	t.Parallel()
	m, r, _ := sheltered(t, bob)
	m.rounds(2)
	head, _, _ := m.cfg.DB.LogHead(subnetA)
	takenBy(t, bob, m.dht)
	m.departures.started = time.Now().Add(-m.Manager.cfg.Times.Silence - time.Second)
	if err := m.Revoked(t.Context(), revocation(2)); err != nil {
		t.Fatal(err)
	}
	m.run()
	until(t, "it has yielded", func() bool { return !m.Live(subnetA) })
	h, ok := r.Copy(subnetA)
	if !ok || h.Owner != bob.id || h.Epoch != 2 || h.Pos.Log == head.Log ||
		m.queued("a.test") != 3 {
		t.Errorf("copy %+v, %v, with %d URLs; want bob's of epoch 2 in another log, with 3", h, ok,
			m.queued("a.test"))
	}
	if len(m.routed) != 3 {
		t.Errorf("routed %v", m.routed)
	}
}

// Where it is not known what the winner has, it is told all.
func TestYieldsAll(t *testing.T) {
	t.Parallel()
	m, _, _ := sheltered(t, bob)
	m.rounds(2)
	takenBy(t, carol, m.dht)
	m.SuspectTakeover()
	m.still("unconfirmed")
	m.run()
	until(t, "it has yielded", func() bool { return !m.Live(subnetA) })
	if len(m.routed) != 3 {
		t.Errorf("routed %v", m.routed)
	}
}

// A winner that had only a part of the copy has begun with nothing.
func TestYieldsAllToRecreatedSubnet(t *testing.T) {
	t.Parallel()
	m, r, _ := sheltered(t, bob)
	m.rounds(2)
	m.plant("b.test", subnetA, addrA, 4)
	head, _, _ := m.cfg.DB.LogHead(subnetA)
	r.set(bob.id, replica.Follower{Pos: head})
	m.rounds(2)
	takenBy(t, bob, m.dht)
	if err := m.Revoked(t.Context(), revocation(2)); err != nil {
		t.Fatal(err)
	}
	m.run()
	until(t, "it has yielded", func() bool { return !m.Live(subnetA) })
	if len(m.routed) != 3+4 {
		t.Errorf("routed %v", m.routed)
	}
}

// A peer that was beaten and then killed does not go on with what it has lost.
func TestYieldInterrupted(t *testing.T) {
	t.Parallel()
	m, r, _ := sheltered(t, bob)
	takenBy(t, bob, m.dht)
	if _, _, err := m.cfg.Leases.Refresh(t.Context(), subnetA); err != nil {
		t.Fatal(err)
	}
	l, _ := m.cfg.Leases.Cached(subnetA)
	m.leases.beaten(l)
	if err := m.save(m.subnets[subnetA]); err != nil {
		t.Fatal(err)
	}
	_ = r.Release(subnetA)
	again, _, _ := guardedOn(t, alice, m.dht, m.cfg.DB, nil)
	if _, hold := again.placement.Where(subnetA); !hold || !again.frontier.is(again.frontier.shut,
		subnetA) {
		t.Fatal("it goes on")
	}
	again.run()
	until(t, "it has yielded", func() bool { return !again.Live(subnetA) })
	if len(again.routed) != 3 {
		t.Errorf("routed %v", again.routed)
	}
}

// Without the right nothing is taken in, and nothing given away.
func TestNoQuorumLease(t *testing.T) {
	t.Parallel()
	m, _, w := sheltered(t, bob)
	w.right = false
	if ok, moving, _ := m.resolver.Accepts(subnetA); ok || !moving {
		t.Error("URLs are taken without the right")
	}
	if _, err := m.departures.commit(m.subnets[subnetA], bob.id); err == nil {
		t.Error("given away without the right")
	}
}

// savingWitness is a Witness of which the quorum lease ends while a grant is saved.
type savingWitness struct {
	*fakeWitness
	stored func() (store.Subnet, bool)
}

func (f savingWitness) QuorumLease() (bool, time.Time) {
	s, _ := f.stored()
	return s.Phase != store.PhaseCommitting, time.Time{}
}

// A grant leaves only while the quorum lease holds: also if that ended while the grant was saved,
// and if it is not sent for the first time.
func TestGrantLeavesWithQuorumLease(t *testing.T) {
	t.Parallel()
	m, _, w := sheltered(t, bob)
	s := m.subnets[subnetA]
	s.unit = ownership.Unit{State: ownership.Closed, To: bob.id.String()}
	m.departures.cfg.Witness = savingWitness{w, func() (store.Subnet, bool) {
		return m.stored(subnetA)
	}}
	for range 2 {
		if _, err := m.departures.commit(s, bob.id); !errors.Is(err, errNoQuorumLease) ||
			!m.departures.granted(s) {
			t.Fatalf("%v, granted %v; want that the grant is kept here", err,
				m.departures.granted(s))
		}
	}
	m.departures.cfg.Witness = w
	if g, err := m.departures.commit(s, bob.id); err != nil || string(g) != string(s.grant) {
		t.Errorf("with the quorum lease again: %x, %v", g, err)
	}
}

// A successor that vanished in the middle of the handover does not keep the subnet for
// ever: its old owner still has all of it.
func TestReclaim(t *testing.T) {
	t.Parallel()
	t.Run("after long silence", func(t *testing.T) {
		testReclaim(t, lease.LongSilence+2*lease.Skew, false, 2)
	})
	t.Run("by votes", func(t *testing.T) { testReclaim(t, DefaultTimes().Orphan*2, true, 3) })
}

func testReclaim(t *testing.T, silence time.Duration, voted bool, epoch uint64) {
	var heard atomic.Int64
	heard.Store(time.Now().UnixNano())
	m, _, w := guardedBy(t, alice, nil, func(c *Config) {
		c.Directory = directory{alice, bob}
		contactsOf(c).heard = func(peer.ID) time.Time { return time.Unix(0, heard.Load()) }
		c.Sender = sendFunc(func(_ context.Context, _ peer.ID, _ handover.Offer,
			grant func() ([]byte, error)) ([]byte, error) {
			if _, err := grant(); err != nil {
				return nil, err
			}
			return nil, handover.ErrOutcomeUnknown
		})
	})
	if voted {
		w.others = map[peer.ID][]byte{bob.id: witnessSetOf(t, bob, alice, carol)}
		w.voters = []someone{alice, carol}
	}
	m.strategy.next = choose(bob)
	m.claim(subnetA)
	m.plant("a.test", subnetA, addrA, 3)
	m.started = time.Now().Add(-2 * lease.LongSilence)
	m.run()
	until(t, "it is unconfirmed", func() bool { return m.phase(subnetA) == store.PhaseCommitting })
	time.Sleep(100 * time.Millisecond)
	if m.phase(subnetA) != store.PhaseCommitting {
		t.Fatal("taken back at once")
	}
	heard.Store(time.Now().Add(-silence).UnixNano())
	until(t, "it is taken back", func() bool {
		return m.phase(subnetA) == store.PhaseOwned && m.epoch(subnetA) == epoch
	})
	until(t, "it is worked on", func() bool {
		_, hold := m.placement.Where(subnetA)
		return !hold && !m.frontier.is(m.frontier.shut, subnetA) && m.queued("a.test") == 3
	})
}

// A subnet that another peer than the successor is known to own is not reclaimed because yielding
// it failed.
func TestNotReclaimedWhileYielding(t *testing.T) {
	t.Parallel()
	dht := newDHT()
	var routed atomic.Int32
	var m *member
	m, _, w := guardedOn(t, alice, dht, openStore(t), func(c *Config) {
		c.Directory, c.Times.Orphan = directory{alice, bob}, time.Nanosecond
		c.Outbox = outboxWith{Outbox: c.Outbox, route: func([]store.Pending) error {
			if routed.Add(1) == 1 {
				return errInjected
			}
			return nil
		}}
		c.Sender = sendFunc(func(ctx context.Context, _ peer.ID, _ handover.Offer,
			grant func() ([]byte, error)) ([]byte, error) {
			if _, err := grant(); err != nil {
				return nil, err
			}
			takenBy(t, carol, dht)
			if _, _, err := c.Leases.Refresh(ctx, subnetA); err != nil {
				return nil, err
			}
			return nil, handover.ErrOutcomeUnknown
		})
	})
	w.others = map[peer.ID][]byte{bob.id: witnessSetOf(t, bob, alice, carol)}
	w.voters = []someone{alice, carol}
	m.strategy.next = choose(bob)
	m.claim(subnetA)
	m.plant("a.test", subnetA, addrA, 3)
	m.run()
	until(t, "it is yielded", func() bool { return !m.Live(subnetA) })
	if l, _ := m.cfg.Leases.Cached(subnetA); l.Owner != carol.id || routed.Load() < 2 {
		t.Errorf("the lease is %v's of epoch %d, after %d tries to yield; want carol's after two",
			l.Owner, l.Epoch, routed.Load())
	}
}

// The state of a subnet that is being removed is not written down again, unless that fails.
func TestRemove(t *testing.T) {
	t.Parallel()
	m, _, _ := sheltered(t, bob)
	s, failure := m.subnets[subnetA], errors.New("failure")
	removed := func() bool {
		if err := m.save(s); err != nil {
			t.Fatal(err)
		}
		err := m.cfg.DB.View(func(tx *store.Tx) error {
			_, err := tx.Subnet(subnetA)
			return err
		})
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			t.Fatal(err)
		}
		return err != nil
	}
	begin := func() {
		err := m.cfg.DB.Update(func(tx *store.Tx) error { return tx.DeleteSubnet(subnetA) })
		if err != nil || !removed() {
			t.Errorf("written down again, %v", err)
		}
	}
	err := m.remove(s, func() error { begin(); return failure })
	if !errors.Is(err, failure) || removed() || !m.Live(subnetA) {
		t.Errorf("after %v, the subnet is gone or is not written down", err)
	}
	if err := m.remove(s, func() error { begin(); return nil }); err != nil ||
		m.Live(subnetA) ||
		!removed() {
		t.Errorf("after %v, the subnet is there or is written down", err)
	}
}
