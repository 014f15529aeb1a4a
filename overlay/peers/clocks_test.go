package peers

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
)

func TestClocks(t *testing.T) {
	const most, off = 5 * time.Minute, 20 * time.Minute
	const every, oldest = time.Minute, 75 * time.Second
	for name, tt := range map[string]struct {
		ahead []time.Duration // of beacons that have just arrived, of different peers
		want  time.Duration
		wrong bool
	}{
		"no peer":             {},
		"equal":               {[]time.Duration{0}, 0, false},
		"an old beacon":       {[]time.Duration{-oldest}, 0, false},
		"behind others":       {[]time.Duration{off}, off, true},
		"ahead of others":     {[]time.Duration{-off - oldest}, -off, true},
		"within what is fine": {[]time.Duration{time.Minute}, time.Minute, false},
		"one of two":          {[]time.Duration{time.Hour, 0}, 0, false},
		"one of three":        {[]time.Duration{time.Hour, 0, 0}, 0, false},
		"two of three":        {[]time.Duration{time.Hour, 0, time.Hour}, time.Hour, true},
	} {
		t.Run(name, func(t *testing.T) {
			c := &clocks{log: slog.New(slog.DiscardHandler), most: most}
			now := time.Unix(1e9, 0)
			for i, d := range tt.ahead {
				c.see(Beacon{Peer: peer.ID(rune('a' + i)), Time: now.Add(d), Interval: every}, now)
			}
			if got, n := c.median(); got != tt.want || n != len(tt.ahead) || c.wrong != tt.wrong {
				t.Errorf("median() = %v, %d, wrong %v, want %v, %d, %v", got, n, c.wrong, tt.want,
					len(tt.ahead), tt.wrong)
			}
		})
	}
}

// A wrong clock is logged once, and again when it has been set; what is old does not count; memory
// is bounded.
func TestClocksChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var lines bytes.Buffer
		c := &clocks{log: slog.New(slog.NewTextHandler(&lines, nil)), most: time.Minute}
		see := func(name string, ahead time.Duration) {
			now := time.Now()
			c.see(Beacon{Peer: peer.ID(name), Time: now.Add(ahead)}, now)
		}
		for i := range 2 * clocksKept {
			see(strings.Repeat("x", i), time.Hour)
		}
		if ahead, n := c.median(); ahead != time.Hour || n != clocksKept {
			t.Errorf("median() = %v, %d, want 1h, %d", ahead, n, clocksKept)
		}
		time.Sleep(clockFor)
		if _, n := c.median(); n != 0 {
			t.Errorf("%d clocks after %v, want 0", n, clockFor)
		}
		see("a", 0)
		see("a", 0)
		if _, n := c.median(); n != 1 {
			t.Errorf("%d clocks, want 1", n)
		}
		got := lines.String()
		if strings.Count(got, "\n") != 2 || !strings.Contains(got, "differ") ||
			!strings.Contains(got, "agree") {
			t.Errorf("log %q, want that they differ, then that they agree", got)
		}
	})
}
