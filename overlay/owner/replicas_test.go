package owner

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/coords/assign"
	"peerd/overlay/ownership"
	"peerd/overlay/replica"
)

// rounds lets the Manager run its maintenance without Run.
func (m *member) rounds(n int) {
	m.t.Helper()
	m.roundsAt(n, time.Now())
}

// roundsAt is rounds at another time.
func (m *member) roundsAt(n int, now time.Time) {
	m.t.Helper()
	for range n {
		m.turn++
		if err := m.runMaintenance(now); err != nil {
			m.t.Fatal(err)
		}
	}
}

// sheltered is alice with a subnet, and others that may be its replicas.
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

// leaveDirectory calls a function before it says who there is.
type leaveDirectory struct {
	Directory
	before func()
}

func (d leaveDirectory) Candidates() []assign.Candidate {
	d.before()
	return d.Directory.Candidates()
}

// A subnet does not leave while its replicas are looked after. One that has left before is let
// alone: what is here is a copy of another peer's.
func TestReplicasOfWhatLeaves(t *testing.T) {
	t.Parallel()
	var m *member
	leave := func() {}
	m, r, _ := guardedBy(t, alice, nil, func(c *Config) {
		c.Directory = leaveDirectory{directory{alice, bob}, func() { leave() }}
	})
	m.claim(subnetA)
	m.claim(subnetB)
	var first, left netip.Prefix
	leave = sync.OnceFunc(func() {
		m.table.mu.Lock()
		defer m.table.mu.Unlock()
		for p, s := range m.table.subnets {
			if s.entered > 0 {
				first = p
				continue
			}
			left = p
			delete(m.table.subnets, p)
		}
	})
	if err := m.replicas.maintainReplicas(time.Now()); err != nil {
		t.Fatal(err)
	}
	if !first.IsValid() || !left.IsValid() {
		t.Fatalf("%v was entered and %v was not, want one of two each", first, left)
	}
	if len(r.followers(first)) != 1 || len(r.followers(left)) != 0 {
		t.Errorf("replicas %v, and of a subnet that has left %v", r.followers(first),
			r.followers(left))
	}
	if n := m.table.subnets[first].entered; n != 0 {
		t.Errorf("entered %d times more than exited", n)
	}
}

func TestReplicaReplaced(t *testing.T) {
	t.Parallel()
	m, r, _ := sheltered(t, bob, carol)
	m.rounds(2)
	first := r.followers(subnetA)
	if len(first) != 1 {
		t.Fatalf("replicas %v", first)
	}
	r.set(first[0], replica.Follower{Synced: true})
	m.rounds(2)
	r.set(first[0], replica.Follower{Synced: true, Err: replica.ErrLink}) // silent
	m.rounds(2)
	if got := r.followers(subnetA); !slices.Equal(got, first) {
		t.Errorf("given up at once: %v", got)
	}
	m.roundsAt(2, time.Now().Add(2*m.Manager.cfg.Times.Lost))
	if got := r.followers(subnetA); len(got) != 1 || got[0] == first[0] {
		t.Errorf("not replaced: %v", got)
	}
	if got := m.table.subnets[subnetA].replicas; len(got) != 1 || got[0].synced {
		t.Errorf("keepers %+v", got)
	}
}

// An owner without the quorum lease, or with a doubt, has no copy deleted: one of the peers with
// copies may be taking over.
func TestReplicaKeptWithoutQuorumLease(t *testing.T) {
	t.Parallel()
	m, r, w := sheltered(t, bob, carol)
	m.rounds(2)
	first := r.followers(subnetA)
	r.set(first[0], replica.Follower{Synced: true})
	m.rounds(2)
	r.set(first[0], replica.Follower{Synced: true, Err: replica.ErrLink}) // silent
	late := time.Now().Add(2 * m.Manager.cfg.Times.Lost)
	hold := func(right bool) {
		w.mu.Lock()
		w.right = right
		w.mu.Unlock()
	}
	doubt := func(d ownership.Doubt) {
		m.table.mu.Lock()
		m.table.subnets[subnetA].unit.Doubt = d
		m.table.mu.Unlock()
	}
	kept := func(want bool, when string) {
		t.Helper()
		if err := m.replicas.maintainReplicas(late); err != nil {
			t.Fatal(err)
		}
		if got := slices.Contains(r.followers(subnetA), first[0]); got != want {
			t.Errorf("silent replica kept = %v %s, want %v", got, when, want)
		}
	}
	hold(false)
	kept(true, "without the quorum lease")
	hold(true)
	doubt(ownership.VotedAway)
	kept(true, "in doubt")
	doubt(0)
	kept(false, "with the quorum lease")
}

// A link that hangs is lost, whatever its socket says.
func TestReplicaHangs(t *testing.T) {
	t.Parallel()
	m, r, _ := sheltered(t, bob, carol)
	m.Manager.cfg.Times.Lost = time.Hour
	m.rounds(2)
	first := r.followers(subnetA)
	for _, c := range []struct {
		ago time.Duration
		ok  bool
	}{{time.Minute, true}, {2 * time.Hour, false}} {
		then := time.Now().Add(-c.ago)
		m.table.subnets[subnetA].replicas[0].well = then
		r.set(first[0], replica.Follower{Synced: true, Heard: then})
		m.rounds(2)
		if got := r.followers(subnetA); len(got) != 1 || (got[0] == first[0]) != c.ok {
			t.Errorf("silent for %v: replicas %v, first %v", c.ago, got, first)
		}
	}
}

// While a replica does not answer, another one is added. When both answer, one is dropped.
func TestReplicaDoesNotAnswer(t *testing.T) {
	t.Parallel()
	m, r, _ := sheltered(t, bob, carol)
	m.rounds(2)
	first := r.followers(subnetA)
	if len(first) != 1 {
		t.Fatalf("replicas %v, want one", first)
	}
	r.set(first[0], replica.Follower{Synced: true, Err: replica.ErrLink})
	at := time.Now().Add(m.Manager.cfg.Times.Lost / 3)
	m.roundsAt(2, at)
	if got := r.followers(subnetA); !slices.Equal(got, first) {
		t.Errorf("replicas %v after a short silence, want %v", got, first)
	}
	at = time.Now().Add(m.Manager.cfg.Times.Lost * 2 / 3)
	m.roundsAt(2, at)
	if got := r.followers(subnetA); len(got) != 2 {
		t.Errorf("replicas %v while one is silent, want two", got)
	}
	for _, id := range []peer.ID{bob.id, carol.id} {
		r.set(id, replica.Follower{Synced: true, Heard: at})
	}
	m.roundsAt(2, at)
	if got := r.followers(subnetA); !slices.Equal(got, first) {
		t.Errorf("replicas %v after both answered, want %v", got, first)
	}
}

// A replica that acknowledges later than Safe waits, or has no copy for long, is replaced when
// another one has a copy; until then it counts as long as it is the only one.
func TestReplicaIsSlow(t *testing.T) {
	t.Parallel()
	for name, slow := range map[string]func(now time.Time) replica.Follower{
		"late": func(now time.Time) replica.Follower {
			return replica.Follower{Synced: true, Heard: now, Owes: now.Add(-10 * time.Second)}
		},
		"without a copy": func(now time.Time) replica.Follower {
			return replica.Follower{Heard: now, Since: now.Add(-snapshotTime - 1)}
		},
	} {
		m, r, _ := sheltered(t, bob, carol)
		first := m.Manager.cfg.Times.First
		m.rounds(2)
		it := r.followers(subnetA)[0]
		other := bob.id
		if it == bob.id {
			other = carol.id
		}
		at := time.Now()
		for _, d := range []time.Duration{0, first / 2, first + time.Second} {
			now := at.Add(d)
			r.set(it, slow(now))
			m.roundsAt(2, now)
		}
		if got := r.followers(subnetA); len(got) != 2 {
			t.Fatalf("%s: replicas %v, want another one", name, got)
		}
		to, ok := m.replicas.guards(subnetA, at)
		if name == "late" && (!ok || len(to) != 1 || to[0] != it) {
			t.Errorf("%s: guards %v, want the only one that has a copy", name, to)
		}
		at = at.Add(first + 2*time.Second)
		r.set(it, slow(at))
		r.set(other, replica.Follower{Synced: true, Heard: at})
		m.roundsAt(2, at)
		if got := r.followers(subnetA); !slices.Equal(got, []peer.ID{other}) {
			t.Errorf("%s: replicas %v, want %v only", name, got, other)
		}
	}
}

// A replica that is late for less long stays.
func TestReplicaIsLateOnce(t *testing.T) {
	t.Parallel()
	m, r, _ := sheltered(t, bob, carol)
	first := m.Manager.cfg.Times.First
	m.rounds(2)
	it, at := r.followers(subnetA)[0], time.Now()
	for i := range 4 {
		now := at.Add(time.Duration(i) * first * 2 / 3)
		st := replica.Follower{Synced: true, Heard: now}
		if i%2 == 0 {
			st.Owes = now.Add(-10 * time.Second)
		}
		r.set(it, st)
		m.roundsAt(2, now)
		if got := r.followers(subnetA); len(got) != 1 {
			t.Fatalf("replicas %v after look %d, want one", got, i)
		}
	}
}

// A peer that refuses is not asked again soon; without other peers there is no replica.
func TestReplicaRefuses(t *testing.T) {
	t.Parallel()
	m, r, _ := sheltered(t, bob)
	m.rounds(2)
	r.set(bob.id, replica.Follower{Err: replica.ErrRefused})
	m.rounds(6)
	if got := r.followers(subnetA); len(got) != 0 {
		t.Errorf("replicas %v", got)
	}
}

// Replicas outlive a restart, so that they need no new snapshot.
func TestReplicasAfterRestart(t *testing.T) {
	t.Parallel()
	m, r, _ := sheltered(t, bob, carol)
	m.rounds(2)
	want := r.followers(subnetA)
	again, r2, _ := guardedOn(t, alice, m.dht, m.cfg.DB, func(c *Config) {
		c.Directory = directory{alice, bob, carol}
		c.Times.Lost = time.Hour // a busy machine is no lost replica
	})
	again.table.subnets[subnetA].since = time.Now().Add(-again.Manager.cfg.Times.First)
	if got := again.Safe(t.Context(), []netip.Prefix{subnetA}); len(got) != 1 {
		t.Error("URLs are safe before the replicas answer again")
	}
	again.rounds(2)
	if got := r2.followers(subnetA); !slices.Equal(got, want) {
		t.Errorf("%v instead of %v", got, want)
	}
}

func TestSafe(t *testing.T) {
	t.Parallel()
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
	ok(m, false, "before the first replica")
	m.rounds(2)
	ok(m, false, "before it is in sync")
	r.set(bob.id, replica.Follower{Synced: true})
	m.rounds(2)
	if ok(m, true, "in sync"); flushed != 1 {
		t.Errorf("flushed %d times", flushed)
	}
	r.flush = func(netip.Prefix, []peer.ID) error { return context.DeadlineExceeded }
	r.set(bob.id, replica.Follower{Synced: true, Err: replica.ErrLink})
	m.rounds(2)
	ok(m, false, "a replica that does not answer")
	m.table.subnets[subnetA].since = time.Now().Add(-time.Minute)
	m.roundsAt(2, time.Now().Add(2*m.Manager.cfg.Times.Lost))
	ok(m, false, "the replica was dropped just now")
	m.table.subnets[subnetA].copied = time.Now().Add(-m.Manager.cfg.Times.First)
	ok(m, true, "the replica is lost and there is no other peer")
	m.subnets[subnetA].unit.State = ownership.Yielding
	ok(m, false, "yielding")

	m, _, _ = sheltered(t)
	ok(m, true, "no peer can be a replica")
	m, _, _ = sheltered(t, bob)
	m.table.subnets[subnetA].since = time.Now().Add(-time.Minute)
	ok(m, true, "no replica for long")
	if got := m.Safe(t.Context(), []netip.Prefix{subnetB}); len(got) != 1 {
		t.Error("another's subnet is safe")
	}
}
