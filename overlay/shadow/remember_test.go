package shadow

import (
	"sync"
	"testing"
	"time"
)

// machine is one whose start and uptime a test sets.
type machine struct {
	mu   sync.Mutex
	boot string
	at   time.Time // when it was started
}

func (m *machine) uptime() (string, time.Duration, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.boot, time.Since(m.at), m.boot != ""
}

// After a restart a copy knows until when it was counted on, if the machine can tell how
// long ago that is; and never if it had fallen out of step before.
func TestCountedAfterRestart(t *testing.T) {
	const up, away = 24 * time.Hour, time.Hour
	for name, c := range map[string]struct {
		before func(a, b *member)
		change func(*machine)
		known  bool
		ago    time.Duration
	}{
		"soon":                       {known: true},
		"the machine ran on":         {change: func(m *machine) { m.at = m.at.Add(-away) }, known: true, ago: away},
		"the machine was restarted":  {change: func(m *machine) { m.boot = "2" }},
		"it has run for less":        {change: func(m *machine) { m.at = time.Now() }},
		"it does not say":            {change: func(m *machine) { m.boot = "" }},
		"its owner gave it up first": {before: func(a, b *member) { a.Unfollow(subnet, b.host.ID(), false) }},
	} {
		t.Run(name, func(t *testing.T) {
			ha, hb := hostPair(t)
			dir := t.TempDir()
			m := &machine{boot: "1", at: time.Now().Add(-up)}
			with := func(c *Config) { c.Uptime = m.uptime }
			a, b := join(t, ha, open(t, ""), nil), join(t, hb, open(t, dir), with)
			own(t, a.db, subnet)
			plant(t, a.db, other, "o.test", 3) // keeps the link
			follow(t, a, subnet, b)
			follow(t, a, other, b)
			flush(t, a, subnet)
			flush(t, a, other)
			began := time.Now()
			counted := func() bool { h, _ := b.Copy(subnet); return h.Counted.After(began) }
			eventually(t, "it is counted on", counted)
			if c.before != nil {
				c.before(a, b)
				eventually(t, "it is told", func() bool { h, _ := b.Copy(subnet); return !h.Live })
			}
			b.stop()
			end := time.Now()
			_ = b.db.Close()
			if c.change != nil {
				c.change(m)
			}
			a.stop()
			b = join(t, hb, open(t, dir), with)
			h, ok := b.Copy(subnet)
			if !ok || !h.Complete || h.Counted.IsZero() == c.known {
				t.Fatalf("it is known: %v; %+v", !h.Counted.IsZero(), h)
			}
			if at := h.Counted.Add(c.ago); c.known && (at.After(end.Add(time.Second)) || at.Before(began.Add(-time.Second))) {
				t.Errorf("counted on until %v after the stop", h.Counted.Sub(end))
			}
		})
	}
}

func TestMemorySince(t *testing.T) {
	now := time.Now()
	x := memory{At: now.Add(-time.Minute), Boot: "1", Up: time.Hour}
	for name, c := range map[string]struct {
		now  time.Time
		boot string
		up   time.Duration
		ok   bool
		ago  time.Duration
	}{
		"as it should be":         {now, "1", time.Hour + time.Minute, true, time.Minute},
		"the clock was set back":  {now.Add(-time.Hour), "1", time.Hour + time.Minute, false, 0},
		"a bit back":              {now.Add(-50 * time.Second), "1", time.Hour + time.Minute, true, time.Minute},
		"the clock was set ahead": {now.Add(time.Hour), "1", time.Hour + time.Minute, true, time.Hour + time.Minute},
		"another start":           {now, "2", time.Hour + time.Minute, false, 0},
		"less uptime":             {now, "1", time.Hour - time.Minute, false, 0},
	} {
		if ago, ok := x.since(c.now, c.boot, c.up); ok != c.ok || ok && ago != c.ago {
			t.Errorf("%s: %v, %v", name, ago, ok)
		}
	}
}
