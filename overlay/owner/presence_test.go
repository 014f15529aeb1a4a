package owner

import (
	"testing"
	"time"
)

func TestInactive(t *testing.T) {
	t.Parallel()
	noon := time.Date(2031, 5, 6, 12, 0, 0, 0, time.UTC)
	at := func(minutes int) time.Time { return noon.Add(time.Duration(minutes) * time.Minute) }
	none := time.Time{}
	for name, c := range map[string]struct {
		awake, started time.Time
		idle           idle
		want           bool // from minute 0 to 60
	}{
		"always there":               {none, at(-99), idle{}, false},
		"was off":                    {at(-1), at(61), idle{}, true},
		"was off for a part":         {at(-1), at(59), idle{}, false},
		"ran into it":                {at(1), at(61), idle{}, false},
		"not known when it ran":      {none, at(61), idle{}, false},
		"had no right":               {none, at(-99), idle{at(-1), at(61)}, true},
		"has no right since":         {none, at(-99), idle{at(-1), none}, true},
		"had a right in it":          {none, at(-99), idle{at(-1), at(50)}, false},
		"lost it in it":              {none, at(-99), idle{at(1), none}, false},
		"off, then without a right":  {at(-1), at(30), idle{at(30), at(61)}, true},
		"off, then for long with it": {at(-1), at(30), idle{at(40), at(61)}, false},
	} {
		e := &env{started: c.started}
		w := &presence{table: &table{env: e}, awake: c.awake, idle: c.idle}
		if got := w.Inactive(at(0), at(60)); got != c.want {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
	}
}
