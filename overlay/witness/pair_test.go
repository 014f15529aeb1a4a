package witness

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"peerd/overlay/lease"
)

// startPair starts two peers that are each other's only witness.
func startPair(t *testing.T) (f *fakeNet, a, b *node) {
	f = newNet(1)
	a, b = f.add(testPeers[0]), f.add(testPeers[1])
	a.start(t)
	b.start(t)
	time.Sleep(2 * AloneAfter)
	for _, n := range []*node{a, b} {
		if p, err := lease.OpenWitnessSet(n.service().WitnessSet()); err != nil || !p.Pair() {
			t.Fatalf("WitnessSet() = %+v, %v; want one member", p, err)
		}
	}
	return f, a, b
}

func wins(t *testing.T, by, owner *node, set []byte) bool {
	t.Helper()
	_, ok := requestVotes(t, by, owner.id, set).Takeover(subnet)
	return ok
}

// In a network of two the other peer votes alone, after AloneAfter. An owner that returns has
// no right before it is told of the vote.
func TestPairTakesOver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f, a, b := startPair(t)
		defer f.end()
		set := a.service().WitnessSet()
		if wins(t, b, a, set) {
			t.Fatal("a running owner is voted out")
		}
		a.kill()
		time.Sleep(AloneAfter - 6*time.Second)
		if wins(t, b, a, set) {
			t.Fatal("voted out before AloneAfter")
		}
		time.Sleep(7 * time.Second)
		if !wins(t, b, a, set) {
			t.Fatal("not voted out after AloneAfter")
		}
		if ok, _ := b.service().QuorumLease(); !ok {
			t.Error("the survivor has no quorum lease")
		}
		var revoked atomic.Int32
		a.tells.revoked = func(_ context.Context, list []Revocation) error {
			if ok, _ := a.service().QuorumLease(); ok {
				t.Error("the quorum lease held before the votes were known")
			}
			revoked.Add(int32(len(list)))
			return nil
		}
		s := a.start(t)
		if ok, _ := s.QuorumLease(); ok {
			t.Error("the quorum lease holds at the start")
		}
		time.Sleep(AloneAfter / 2)
		if ok, _ := s.QuorumLease(); !ok || revoked.Load() == 0 {
			t.Errorf("QuorumLease() = %v after %d votes were told, want true and some",
				ok, revoked.Load())
		}
	})
}

// A cut makes neither peer stop. A peer that starts alone waits for AloneAfter.
func TestPairGoesOnAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f, a, b := startPair(t)
		defer f.end()
		b.kill()
		for range 100 {
			time.Sleep(3 * time.Second)
			if ok, _ := a.service().QuorumLease(); !ok {
				t.Fatal("lost the quorum lease when the witness stopped")
			}
		}
		a.kill()
		s := a.start(t)
		time.Sleep(AloneAfter - time.Second)
		if ok, _ := s.QuorumLease(); ok {
			t.Error("the quorum lease holds before AloneAfter")
		}
		time.Sleep(3 * time.Second)
		if ok, _ := s.QuorumLease(); !ok {
			t.Error("the quorum lease does not hold after AloneAfter")
		}
		// A third peer makes a majority possible again, once the old witness knows.
		c := f.add(testPeers[2])
		c.start(t)
		time.Sleep(30 * time.Second)
		b.start(t)
		time.Sleep(AloneAfter)
		p, err := lease.OpenWitnessSet(s.WitnessSet())
		ok, until := s.QuorumLease()
		if err != nil || len(p.Members) != 2 || !ok || until.IsZero() {
			t.Errorf("with three peers: %d members, %v, quorum lease %v until %v", len(p.Members),
				err, ok, until)
		}
		if s.mu.Lock(); len(s.owner.sets) != 1 {
			t.Errorf("%d sets are in force, want 1", len(s.owner.sets))
		}
		s.mu.Unlock()
	})
}
