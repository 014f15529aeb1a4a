package owner

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/overlay/shadow"
)

// rounds lets the Manager keep house without Run.
func (m *member) rounds(n int) {
	m.t.Helper()
	m.roundsAt(n, time.Now())
}

// roundsAt is rounds at another time.
func (m *member) roundsAt(n int, now time.Time) {
	m.t.Helper()
	for range n {
		m.turn++
		if err := m.keepHouse(now); err != nil {
			m.t.Fatal(err)
		}
	}
}

// sheltered is alice with a subnet, and others who may shadow it.
func sheltered(t *testing.T, others ...someone) (*member, *fakeReplicas, *fakeWitness) {
	t.Helper()
	m, r, w := guardedBy(t, alice, nil, func(c *Config) {
		c.Directory = directory(append([]someone{alice}, others...))
		c.Times.Lost = time.Hour // by roundsAt
	})
	m.claim(subnetA)
	m.plant("a.test", subnetA, addrA, 3)
	return m, r, w
}

func TestShadowReplaced(t *testing.T) {
	m, r, _ := sheltered(t, bob, carol)
	m.rounds(2)
	first := r.followers(subnetA)
	if len(first) != 1 {
		t.Fatalf("shadows %v", first)
	}
	r.set(first[0], shadow.Follower{Synced: true})
	m.rounds(2)
	r.set(first[0], shadow.Follower{Synced: true, Err: shadow.ErrLink}) // silent
	m.rounds(2)
	if got := r.followers(subnetA); !slices.Equal(got, first) {
		t.Errorf("given up at once: %v", got)
	}
	m.roundsAt(2, time.Now().Add(2*m.Manager.cfg.Times.Lost))
	if got := r.followers(subnetA); len(got) != 1 || got[0] == first[0] {
		t.Errorf("not replaced: %v", got)
	}
	if got := m.subnets[subnetA].keepers; len(got) != 1 || got[0].synced {
		t.Errorf("keepers %+v", got)
	}
}

// A link that hangs is lost, whatever its socket says.
func TestShadowHangs(t *testing.T) {
	m, r, _ := sheltered(t, bob, carol)
	m.Manager.cfg.Times.Lost = time.Hour
	m.rounds(2)
	first := r.followers(subnetA)
	for _, c := range []struct {
		ago time.Duration
		ok  bool
	}{{time.Minute, true}, {2 * time.Hour, false}} {
		then := time.Now().Add(-c.ago)
		m.subnets[subnetA].keepers[0].well = then
		r.set(first[0], shadow.Follower{Synced: true, Heard: then})
		m.rounds(2)
		if got := r.followers(subnetA); len(got) != 1 || (got[0] == first[0]) != c.ok {
			t.Errorf("silent for %v: shadows %v, first %v", c.ago, got, first)
		}
	}
}

// Who refuses is not asked again soon; with nobody else there is no shadow.
func TestShadowRefuses(t *testing.T) {
	m, r, _ := sheltered(t, bob)
	m.rounds(2)
	r.set(bob.id, shadow.Follower{Err: shadow.ErrRefused})
	m.rounds(6)
	if got := r.followers(subnetA); len(got) != 0 {
		t.Errorf("shadows %v", got)
	}
}

// Shadows outlive a restart, so that they need no new snapshot.
func TestShadowsAfterRestart(t *testing.T) {
	m, r, _ := sheltered(t, bob, carol)
	m.rounds(2)
	want := r.followers(subnetA)
	again, r2, _ := guardedOn(t, alice, m.dht, m.cfg.DB, func(c *Config) { c.Directory = directory{alice, bob, carol} })
	again.rounds(2)
	if got := r2.followers(subnetA); !slices.Equal(got, want) {
		t.Errorf("%v instead of %v", got, want)
	}
}

func TestSafe(t *testing.T) {
	all := []netip.Prefix{subnetA}
	ok := func(m *member, want bool, what string) {
		t.Helper()
		if got := len(m.Safe(t.Context(), all)) == 0; got != want {
			t.Errorf("%s: safe %v", what, got)
		}
	}
	m, r, _ := sheltered(t, bob)
	flushed := 0
	r.flush = func(_ netip.Prefix, to []peer.ID) error {
		flushed++
		if !slices.Equal(to, []peer.ID{bob.id}) {
			return errors.New("the wrong ones")
		}
		return nil
	}
	ok(m, false, "before the first shadow")
	m.rounds(2)
	ok(m, false, "before it is in sync")
	r.set(bob.id, shadow.Follower{Synced: true})
	m.rounds(2)
	if ok(m, true, "in sync"); flushed != 1 {
		t.Errorf("flushed %d times", flushed)
	}
	r.flush = func(netip.Prefix, []peer.ID) error { return context.DeadlineExceeded }
	r.set(bob.id, shadow.Follower{Synced: true, Err: shadow.ErrLink})
	m.rounds(2)
	ok(m, false, "a shadow that does not answer")
	m.subnets[subnetA].since = time.Now().Add(-time.Minute)
	m.roundsAt(2, time.Now().Add(2*m.Manager.cfg.Times.Lost))
	ok(m, true, "the shadow is lost and nobody else is there")
	m.subnets[subnetA].lost = true
	ok(m, false, "yielding")

	m, _, _ = sheltered(t)
	ok(m, true, "nobody to be a shadow")
	m, _, _ = sheltered(t, bob)
	m.subnets[subnetA].since = time.Now().Add(-time.Minute)
	ok(m, true, "no shadow for long")
	if got := m.Safe(t.Context(), []netip.Prefix{subnetB}); len(got) != 1 {
		t.Error("another's subnet is safe")
	}
}
