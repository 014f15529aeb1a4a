package owner

import (
	"testing"
	"time"

	"peerd/overlay/replica"
	"peerd/store"
)

// While its witnesses may be silent a peer fetches no page that its replicas would not know of.
func TestNotAheadOfReplicas(t *testing.T) {
	t.Parallel()
	m, r, w := sheltered(t, bob)
	m.rounds(2)
	m.plant("b.test", subnetA, addrA, 2)
	head, _, ok := m.cfg.DB.LogHead(subnetA)
	if !ok || head.Seq == 0 {
		t.Fatal("there is no log")
	}
	hold := func(left time.Duration, f replica.Follower) bool {
		w.mu.Lock()
		w.until = time.Now().Add(left)
		w.mu.Unlock()
		r.set(bob.id, f)
		_, hold := m.placement.Where(subnetA)
		return hold
	}
	behind := store.LogPos{Log: head.Log, Seq: head.Seq - 1}
	const brink, hold15 = 8500 * time.Millisecond, 15 * time.Second
	for name, c := range map[string]struct {
		left time.Duration
		f    replica.Follower
		want bool
	}{
		"heard, replica behind": {brink + time.Minute, replica.Follower{Synced: true,
			Pos: behind}, false},
		"heard, replica late": {hold15 - 2*time.Second, replica.Follower{Synced: true, Pos: behind,
			Owes: time.Now().Add(-1900 * time.Millisecond)}, true},
		"heard, replica late for longer": {hold15 - 2*time.Second, replica.Follower{Synced: true,
			Pos: behind, Owes: time.Now().Add(-2100 * time.Millisecond)}, false},
		"heard, replica not late": {hold15 - 2*time.Second, replica.Follower{Synced: true,
			Pos: behind, Owes: time.Now().Add(-500 * time.Millisecond)}, false},
		"heard, replica gone": {brink + time.Minute, replica.Follower{Err: replica.ErrLink},
			false},
		"on the brink, replica knows": {brink / 2, replica.Follower{Synced: true, Pos: head},
			false},
		"on the brink, replica behind": {brink / 2, replica.Follower{Synced: true, Pos: behind},
			true},
		"on the brink, another log": {brink / 2, replica.Follower{Synced: true,
			Pos: store.LogPos{Log: head.Log + 1, Seq: head.Seq}}, true},
		"on the brink, replica gone": {brink / 2, replica.Follower{Err: replica.ErrLink}, true},
	} {
		if got := hold(c.left, c.f); got != c.want {
			t.Errorf("%s: held: %v", name, got)
		}
	}
	m.mu.Lock()
	m.table.subnets[subnetA].replicas = nil
	m.mu.Unlock()
	if hold(brink/2, replica.Follower{}) {
		t.Error("held without a replica")
	}
}
