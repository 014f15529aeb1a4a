package peers

import (
	"testing"
	"time"

	"golang.org/x/time/rate"
)

// A coordinate with a large error is measured fast, but only for so long, and not for as long
// again as soon as the error was small once.
func TestPace(t *testing.T) {
	cfg := DefaultConfig()
	s := &scheduler{env: &env{cfg: &cfg},
		fast: rate.NewLimiter(rate.Every(fastRefill), maxFastMeasurements)}
	now := time.Unix(1_800_000_000, 0)
	// measure returns how many of n measurements were fast. The error was small in one of every.
	measure := func(n, every int) (fast int) {
		for i := range n {
			e := cfg.SettledError + .01
			if i%every == 0 {
				e = cfg.SettledError
			}
			k, pause := s.pace(now, e)
			if pause == cfg.FastInterval && k == fastPeers {
				fast++
			} else if pause != cfg.SlowInterval || k != 1 {
				t.Errorf("pace() = %d peers, %v", k, pause)
			}
			now = now.Add(pause)
		}
		return fast
	}

	if n := measure(10, 1); n > 0 {
		t.Errorf("%d of 10 measurements were fast with a small error, want none", n)
	}
	if n := measure(100, 100); n < maxFastMeasurements || n > 90 {
		t.Errorf("%d of 100 measurements were fast with a large error, want about %d", n,
			maxFastMeasurements)
	}
	if n := measure(100, 10); n > 60 {
		t.Errorf("%d of 100 measurements were fast after that, want at most every other one", n)
	}
	now = now.Add(time.Hour)
	if n := measure(100, 100); n < maxFastMeasurements {
		t.Errorf("%d of 100 measurements were fast after an hour, want %d", n,
			maxFastMeasurements)
	}
}
