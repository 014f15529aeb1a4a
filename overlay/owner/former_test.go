package owner

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/overlay/handover"
	"peerd/overlay/replica"
)

// formerOwner is alice after she has handed a subnet to bob, with carol as their witness.
type formerOwner struct {
	*member
	copies     *fakeReplicas
	bob        *member
	bobsCopies *fakeReplicas
	lost       atomic.Pointer[time.Time] // when bob was last heard; nil: just now
}

// newFormerOwner runs alice until bob has a subnet with three URLs. Bob does not run.
func newFormerOwner(t *testing.T, replicas int) (f *formerOwner, stop func()) {
	t.Helper()
	dht := newDHT()
	setup := func(c *Config) {
		c.Directory, c.ReplicaCount = directory{alice, bob, carol}, replicas
		c.Times, c.Tick = DefaultTimes(), 500*time.Millisecond
	}
	f = &formerOwner{}
	f.bob, f.bobsCopies, _ = guardedOn(t, bob, dht, openStore(t), setup)
	var w *fakeWitness
	db := openStore(t)
	f.member, f.copies, w = guardedOn(t, alice, dht, db, func(c *Config) {
		setup(c)
		contactsOf(c).heard = func(peer.ID) time.Time {
			if lost := f.lost.Load(); lost != nil {
				return *lost
			}
			return time.Now()
		}
		c.Sender = sendFunc(func(
			ctx context.Context, _ peer.ID, o handover.Offer, grant func() ([]byte, error),
		) ([]byte, error) {
			o.Pos, _, _ = db.LogHead(o.Subnet)
			return handTo(ctx, alice.id, f.bob, o, grant)
		})
	})
	w.others = map[peer.ID][]byte{bob.id: witnessSetOf(t, bob, alice, carol)}
	w.voters = []someone{alice, carol}
	f.strategy.next = choose(bob)
	f.claim(subnetA)
	f.plant("a.test", subnetA, addrA, 3)
	f.placement.Where(subnetA)
	stop = f.run()
	for begin := time.Now(); f.Live(subnetA); time.Sleep(100 * time.Millisecond) {
		if time.Since(begin) > testTimeout {
			t.Fatalf("the subnet was not handed over within %v", testTimeout)
		}
	}
	return f, stop
}

// TestSuccessorLost verifies that a subnet returns to its former owner if the successor is lost
// before it has opened the former owner's copy, unless that copy may be outdated.
func TestSuccessorLost(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name     string
		replicas int
		after    time.Duration // of the handover
		taken    bool
	}{
		{"at once", 1, time.Second, true},
		{"after it may have dropped the copy", 1, DefaultTimes().Lost + 5*time.Second, false},
		{"which has no replicas", 0, time.Second, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, stop := newFormerOwner(t, c.replicas)
				defer stop()
				time.Sleep(c.after)
				lost := time.Now()
				f.lost.Store(&lost)
				time.Sleep(time.Minute)
				if got := f.Live(subnetA); got != c.taken {
					t.Fatalf("taken over within a minute: %v, want %v", got, c.taken)
				}
				if c.taken && (f.epoch(subnetA) != 3 || f.queued("a.test") != 3) {
					t.Errorf("epoch %d with %d URLs, want epoch 3 with 3", f.epoch(subnetA),
						f.queued("a.test"))
				}
			})
		})
	}
}

// TestFormerOwnerCounts verifies that the successor acknowledges nothing that the former owner
// does not have, as long as that may take over with what it had.
func TestFormerOwnerCounts(t *testing.T) {
	t.Parallel()
	refused := replica.Follower{Err: replica.ErrRefused}
	for _, c := range []struct {
		name   string
		state  replica.Follower // of the former owner
		after  time.Duration
		counts bool
	}{
		{"not opened", replica.Follower{}, time.Second, true},
		{"not opened for long", replica.Follower{}, DefaultTimes().Lost + time.Second, false},
		{"not reached", replica.Follower{Err: replica.ErrLink}, DefaultTimes().Lost - time.Second,
			true},
		{"lost", replica.Follower{Err: replica.ErrLink}, DefaultTimes().Lost + time.Second, false},
		{"refused", refused, time.Second, false},
		{"in sync", replica.Follower{Synced: true}, time.Hour, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, stop := newFormerOwner(t, 1)
				defer stop()
				to, ok := f.bob.replicas.guards(subnetA, time.Now())
				if !ok || !slices.Equal(to, []peer.ID{alice.id}) {
					t.Fatalf("guards() = %v, %v after the handover, want the former owner", to, ok)
				}
				f.bobsCopies.set(carol.id, replica.Follower{Synced: true})
				f.bobsCopies.set(alice.id, c.state)
				for end := time.Now().Add(c.after); time.Now().Before(end); {
					time.Sleep(time.Second)
					f.bob.rounds(slowly)
				}
				f.bob.rounds(slowly)
				to, _ = f.bob.replicas.guards(subnetA, time.Now())
				if got := slices.Contains(to, alice.id); got != c.counts {
					t.Errorf("guards() = %v after %v, contains the former owner: %v, want %v", to,
						c.after, got, c.counts)
				}
				if errors.Is(c.state.Err, replica.ErrLink) && !slices.Contains(to, carol.id) {
					t.Errorf("guards() = %v, want the replica that was added", to)
				}
			})
		})
	}
}
