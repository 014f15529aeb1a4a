package replica

import (
	"sync"
	"testing"
	"time"
)

// machine simulates the uptime of a machine.
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

// After a restart a replica knows until when its owner counted on a copy, unless the uptime
// of the machine is unknown or the copy was outdated before.
func TestConfirmedAfterRestart(t *testing.T) {
	t.Parallel()
	const up, away = 24 * time.Hour, time.Hour
	for name, c := range map[string]struct {
		before func(a, b *member)
		change func(*machine)
		known  bool
		ago    time.Duration
	}{
		"restarted soon": {known: true},
		"restarted later": {change: func(m *machine) {
			m.at = m.at.Add(-away)
		}, known: true, ago: away},
		"another boot":   {change: func(m *machine) { m.boot = "2" }},
		"less uptime":    {change: func(m *machine) { m.at = time.Now() }},
		"unknown uptime": {change: func(m *machine) { m.boot = "" }},
		"unfollowed before": {before: func(a, b *member) {
			a.Unfollow(subnet, b.host.ID(), false)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			ha, hb := hostPair(t)
			dir := t.TempDir()
			m := &machine{boot: "1", at: time.Now().Add(-up)}
			with := func(c *Config) { c.Uptime = m.uptime }
			a, b := startMember(t, ha, open(t, ""), nil), startMember(t, hb, open(t, dir), with)
			addOwned(t, a.db, subnet)
			addHost(t, a.db, other, "o.test", 3) // keeps the link
			follow(t, a, subnet, b)
			follow(t, a, other, b)
			flush(t, a, subnet)
			flush(t, a, other)
			began := time.Now()
			counted := func() bool { h, _ := b.Copy(subnet); return h.Confirmed.After(began) }
			eventually(t, "the copy is confirmed", counted)
			if c.before != nil {
				c.before(a, b)
				eventually(t, "the copy is detached", func() bool {
					h, _ := b.Copy(subnet)
					return !h.Live
				})
			}
			b.stop()
			end := time.Now()
			_ = b.db.Close()
			if c.change != nil {
				c.change(m)
			}
			a.stop()
			b = startMember(t, hb, open(t, dir), with)
			h, ok := b.Copy(subnet)
			if !ok || !h.Complete || h.Confirmed.IsZero() == c.known {
				t.Fatalf("Copy() = %+v, %v; want it complete and Confirmed known: %v",
					h, ok, c.known)
			}
			if at := h.Confirmed.Add(c.ago); c.known && (at.After(end.Add(time.Second)) ||
				at.Before(began.Add(-time.Second))) {
				t.Errorf("Confirmed is %v after the stop, want %v before it",
					h.Confirmed.Sub(end), c.ago)
			}
		})
	}
}

func TestConfirmationAge(t *testing.T) {
	t.Parallel()
	now := time.Now()
	x := confirmation{At: now.Add(-time.Minute), Boot: "1", Up: time.Hour}
	for name, c := range map[string]struct {
		now  time.Time
		boot string
		up   time.Duration
		ok   bool
		ago  time.Duration
	}{
		"both clocks agree":      {now, "1", time.Hour + time.Minute, true, time.Minute},
		"the clock was set back": {now.Add(-time.Hour), "1", time.Hour + time.Minute, false, 0},
		"the clock was set back a bit": {now.Add(-50 * time.Second), "1",
			time.Hour + time.Minute, true,
			time.Minute},
		"the clock was set ahead": {now.Add(time.Hour), "1", time.Hour + time.Minute, true,
			time.Hour + time.Minute},
		"another boot": {now, "2", time.Hour + time.Minute, false, 0},
		"less uptime":  {now, "1", time.Hour - time.Minute, false, 0},
	} {
		if ago, ok := x.age(c.now, c.boot, c.up); ok != c.ok || ok && ago != c.ago {
			t.Errorf("%s: age() = %v, %v, want %v, %v", name, ago, ok, c.ago, c.ok)
		}
	}
}
