package owner

import (
	"testing"
	"time"

	"peerd/overlay/shadow"
	"peerd/store"
)

// While its witnesses are silent a peer fetches no page that its shadows would not know of.
func TestNotAheadOfTheShadows(t *testing.T) {
	m, r, w := sheltered(t, bob)
	m.rounds(2)
	m.plant("b.test", subnetA, addrA, 2)
	head, _, ok := m.cfg.DB.TailHead(subnetA)
	if !ok || head.Seq == 0 {
		t.Fatal("there is no log")
	}
	hold := func(left time.Duration, f shadow.Follower) bool {
		w.mu.Lock()
		w.until = time.Now().Add(left)
		w.mu.Unlock()
		r.set(bob.id, f)
		_, hold := m.Where(subnetA)
		return hold
	}
	behind := store.TailPos{Log: head.Log, Seq: head.Seq - 1}
	const brink = 8500 * time.Millisecond
	for name, c := range map[string]struct {
		left time.Duration
		f    shadow.Follower
		want bool
	}{
		"heard, shadow behind":        {brink + time.Minute, shadow.Follower{Synced: true, Pos: behind}, false},
		"heard, shadow gone":          {brink + time.Minute, shadow.Follower{Err: shadow.ErrLink}, false},
		"on the brink, shadow knows":  {brink / 2, shadow.Follower{Synced: true, Pos: head}, false},
		"on the brink, shadow behind": {brink / 2, shadow.Follower{Synced: true, Pos: behind}, true},
		"on the brink, another log":   {brink / 2, shadow.Follower{Synced: true, Pos: store.TailPos{Log: head.Log + 1, Seq: head.Seq}}, true},
		"on the brink, shadow gone":   {brink / 2, shadow.Follower{Err: shadow.ErrLink}, true},
	} {
		if got := hold(c.left, c.f); got != c.want {
			t.Errorf("%s: held: %v", name, got)
		}
	}
	m.mu.Lock()
	m.subnets[subnetA].keepers = nil
	m.mu.Unlock()
	if hold(brink/2, shadow.Follower{}) {
		t.Error("held without a shadow")
	}
}
