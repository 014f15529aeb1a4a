package owner

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/overlay/handover"
	"peerd/overlay/lease"
	"peerd/overlay/lease/register/registertest"
	"peerd/overlay/shadow"
	"peerd/overlay/witness"
	"peerd/store"
)

// takenBy publishes that somebody has taken subnetA over from alice.
func takenBy(t *testing.T, by someone, dht *registertest.DHT) {
	t.Helper()
	m := join(t, by, dht, nil, nil)
	w := &fakeWitness{me: by, voters: []someone{bob, carol}}
	tally, err := w.Ask(t.Context(), alice.id, panelOf(t, alice, bob, carol), []witness.Step{{Subnet: subnetA, Epoch: 2}})
	if err != nil {
		t.Fatal(err)
	}
	proof, _ := tally.Takeover(subnetA)
	if _, _, err := m.cfg.Leases.TakeOver(t.Context(), subnetA, 2, proof, nil); err != nil {
		t.Fatal(err)
	}
}

func revocation(epoch uint64) []witness.Revocation {
	return []witness.Revocation{{By: carol.id, Subnet: subnetA, Epoch: epoch, To: bob.id}}
}

// still checks that nothing is fetched or taken in.
func (m *member) still(what string) {
	m.t.Helper()
	if _, hold := m.Where(subnetA); !hold || !m.frontier.is(m.frontier.shut, subnetA) {
		m.t.Errorf("%s: pages are fetched", what)
	}
	if ok, moving, _ := m.Receive(subnetA); ok || !moving {
		m.t.Errorf("%s: URLs are taken", what)
	}
	for _, s := range m.List() {
		if s.Prefix == subnetA && m.Right() && !s.Doubted {
			m.t.Errorf("%s: nobody sees why", what)
		}
	}
}

// A vote that leads to nothing stops the owner for as long as it might.
func TestRevokedAndRevived(t *testing.T) {
	m, _, _ := sheltered(t, bob)
	if err := m.Revoked(t.Context(), revocation(1)); err != nil || m.subnets[subnetA].doubted() {
		t.Error("stopped by a vote on what we have")
	}
	begin := time.Now()
	if err := m.Revoked(t.Context(), revocation(2)); err != nil {
		t.Fatal(err)
	}
	m.still("revoked")
	again, _, _ := guardedOn(t, alice, m.dht, m.cfg.DB, nil)
	if _, hold := again.Where(subnetA); !hold || !again.frontier.is(again.frontier.shut, subnetA) {
		t.Error("a restart forgets it")
	}
	m.run()
	until(t, "it goes on", func() bool {
		_, hold := m.Where(subnetA)
		return !hold && !m.frontier.is(m.frontier.shut, subnetA)
	})
	if took := time.Since(begin); took < m.Manager.cfg.Times.Revive {
		t.Errorf("after %v", took)
	}
	until(t, "it is not in doubt on the disk either", func() bool {
		rec, _ := m.stored(subnetA)
		return !openEvidence(rec.Evidence).Doubt
	})
}

// An owner that was taken over yields what the winner cannot know, and no more.
func TestYieldsTheRest(t *testing.T) {
	m, r, _ := sheltered(t, bob)
	m.rounds(2)
	m.plant("b.test", subnetA, addrA, 4) // logged
	head, _, ok := m.cfg.DB.TailHead(subnetA)
	if !ok {
		t.Fatal("no log")
	}
	r.set(bob.id, shadow.Follower{Synced: true, Pos: head})
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

// Where it is not known what the winner has, it is told all.
func TestYieldsAll(t *testing.T) {
	m, _, _ := sheltered(t, bob)
	m.rounds(2)
	takenBy(t, carol, m.dht)
	m.Uncertain()
	m.still("in doubt")
	m.run()
	until(t, "it has yielded", func() bool { return !m.Live(subnetA) })
	if len(m.routed) != 3 {
		t.Errorf("routed %v", m.routed)
	}
}

// A winner that had only a part of the copy has begun with nothing.
func TestYieldsAllToWhoBeganAnew(t *testing.T) {
	m, r, _ := sheltered(t, bob)
	m.rounds(2)
	m.plant("b.test", subnetA, addrA, 4)
	head, _, _ := m.cfg.DB.TailHead(subnetA)
	r.set(bob.id, shadow.Follower{Pos: head})
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
	m, r, _ := sheltered(t, bob)
	takenBy(t, bob, m.dht)
	if _, _, err := m.cfg.Leases.Refresh(t.Context(), subnetA); err != nil {
		t.Fatal(err)
	}
	l, _ := m.cfg.Leases.Cached(subnetA)
	m.beaten(l)
	if err := m.save(m.subnets[subnetA]); err != nil {
		t.Fatal(err)
	}
	_ = r.Leave(subnetA)
	again, _, _ := guardedOn(t, alice, m.dht, m.cfg.DB, nil)
	if _, hold := again.Where(subnetA); !hold || !again.frontier.is(again.frontier.shut, subnetA) {
		t.Fatal("it goes on")
	}
	again.run()
	until(t, "it has yielded", func() bool { return !again.Live(subnetA) })
	if len(again.routed) != 3 {
		t.Errorf("routed %v", again.routed)
	}
}

// Without the right nothing is taken in, and nothing given away.
func TestNoRight(t *testing.T) {
	m, _, w := sheltered(t, bob)
	w.right = false
	if ok, moving, _ := m.Receive(subnetA); ok || !moving {
		t.Error("URLs are taken without the right")
	}
	if _, err := m.commit(m.subnets[subnetA], bob.id); err == nil {
		t.Error("given away without the right")
	}
}

// An heir that vanished in the middle of the handover does not keep the subnet for
// ever: its old owner still has all of it.
func TestReclaim(t *testing.T) {
	t.Run("after long silence", func(t *testing.T) { testReclaim(t, lease.LongSilence+2*lease.Skew, false, 2) })
	t.Run("by votes", func(t *testing.T) { testReclaim(t, DefaultTimes().Orphan*2, true, 3) })
}

func testReclaim(t *testing.T, silence time.Duration, voted bool, epoch uint64) {
	var heard atomic.Int64
	heard.Store(time.Now().UnixNano())
	m, _, w := guardedBy(t, alice, nil, func(c *Config) {
		c.Directory = directory{alice, bob}
		c.Heard = func(peer.ID) time.Time { return time.Unix(0, heard.Load()) }
		c.Sender = sendFunc(func(_ context.Context, _ peer.ID, _ handover.Offer, grant func() ([]byte, error)) ([]byte, error) {
			if _, err := grant(); err != nil {
				return nil, err
			}
			return nil, handover.ErrInDoubt
		})
	})
	if voted {
		w.others = map[peer.ID][]byte{bob.id: panelOf(t, bob, alice, carol)}
		w.voters = []someone{alice, carol}
	}
	m.strategy.next = choose(bob)
	m.claim(subnetA)
	m.plant("a.test", subnetA, addrA, 3)
	m.started = time.Now().Add(-2 * lease.LongSilence)
	m.run()
	until(t, "it is in doubt", func() bool { return m.phase(subnetA) == store.PhaseCommitting })
	time.Sleep(100 * time.Millisecond)
	if m.phase(subnetA) != store.PhaseCommitting {
		t.Fatal("taken back at once")
	}
	heard.Store(time.Now().Add(-silence).UnixNano())
	until(t, "it is taken back", func() bool { return m.phase(subnetA) == store.PhaseOwned && m.epoch(subnetA) == epoch })
	until(t, "it is worked on", func() bool {
		_, hold := m.Where(subnetA)
		return !hold && !m.frontier.is(m.frontier.shut, subnetA) && m.queued("a.test") == 3
	})
}
