package owner

import (
	"testing"
	"time"
)

// An owner is reminded of a copy that it does not follow up, while it is there.
func TestNotify(t *testing.T) {
	t.Parallel()
	var times Times
	const lost, silence = time.Minute, 20 * time.Second
	times.Lost, times.Silence = lost, silence
	for name, c := range map[string]struct {
		link, heard time.Duration // ago
		want        int           // in a little more than three waits
	}{
		"follows it up":          {0, 0, 0},
		"not for a moment":       {lost, 0, 0},
		"there, and does not":    {lost + time.Second, 0, 4},
		"there, a moment silent": {lost + time.Second, silence - time.Second, 4},
		"silent":                 {lost + time.Second, silence + time.Second, 0},
	} {
		t.Run(name, func(t *testing.T) {
			e := newCopyFixture(t, false, func(c *Config) { c.Times = times })
			now := e.started.Add(time.Hour)
			h := e.held
			for range 100 {
				h.Heard, e.heard = now.Add(-c.link), now.Add(-c.heard)
				e.replicas.held[subnetA] = h
				for _, task := range e.failover.toNotify(now) {
					task(t.Context())
				}
				now = now.Add(time.Second)
			}
			if got := e.replicas.notified[subnetA]; len(got) != c.want || c.want > 0 &&
				got[0] != alice.id {
				t.Errorf("notified %v, want alice %d times", got, c.want)
			}
			if a, _ := e.failover.attempts.get(subnetA); (a.about > 0) != (c.want > 1) {
				t.Errorf("looked at ourselves: %+v", a)
			}
			if n := len(e.failover.notified); n > 1 {
				t.Errorf("%d notifications remembered, want at most 1", n)
			}
			if len(e.salvager.copies.entries) > 0 {
				t.Error("the copy is salvaged")
			}
			if c.want == 0 {
				return
			}
			for range int(2 * e.Manager.cfg.Times.Recreate / notifyEvery) {
				h.Heard, e.heard = now.Add(-c.link), now.Add(-c.heard)
				e.replicas.held[subnetA] = h
				e.failover.toNotify(now)
				now = now.Add(notifyEvery)
			}
			if _, is := e.salvager.copies.get(subnetA); !is {
				t.Error("a copy that is not wanted is kept for ever")
			}
		})
	}
}
