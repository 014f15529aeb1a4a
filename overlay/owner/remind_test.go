package owner

import (
	"testing"
	"time"
)

// An owner is reminded of a copy that it does not follow up, while it is there.
func TestRemind(t *testing.T) {
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
			e := newEstate(t, false, func(c *Config) { c.Times = times })
			now := e.Manager.started.Add(time.Hour)
			h := e.held
			e.turn = slowly
			for range 100 {
				h.Heard, e.heard = now.Add(-c.link), now.Add(-c.heard)
				e.replicas.held[subnetA] = h
				for _, task := range e.toRemind(now) {
					task(t.Context())
				}
				now = now.Add(time.Second)
			}
			if got := e.replicas.reminded[subnetA]; len(got) != c.want || c.want > 0 && got[0] != alice.id {
				t.Errorf("reminded %v, want %d times alice", got, c.want)
			}
			if a := e.attempts[subnetA]; (a != nil && a.resume > 0) != (c.want > 1) {
				t.Errorf("looked at ourselves: %+v", a)
			}
			if len(e.Manager.reminded) > 1 {
				t.Error("more is remembered than there is")
			}
			if len(e.wrecks) > 0 {
				t.Error("the copy is salvaged")
			}
			if c.want == 0 {
				return
			}
			for range int(2 * e.Manager.cfg.Times.Anew / remindEvery) {
				h.Heard, e.heard = now.Add(-c.link), now.Add(-c.heard)
				e.replicas.held[subnetA] = h
				e.toRemind(now)
				now = now.Add(remindEvery)
			}
			if _, is := e.wrecks[subnetA]; !is {
				t.Error("a copy that is not wanted is kept for ever")
			}
		})
	}
}
