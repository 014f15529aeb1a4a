//go:build integration

package crawlsim

import (
	"testing"

	"peerd/coords/assign"
)

// The proxy strategy is close to the optimum, and far better than a random choice.
func TestProxyBeatsRandom(t *testing.T) {
	t.Parallel()
	w := testWorld(16, 40, 9)
	random := func(self string) (assign.Strategy, error) {
		return assign.NewRandom(assign.RandomConfig{Seed: 1}), nil
	}
	mean := func(strategy func(string) (assign.Strategy, error)) float64 {
		c := testConfig(w, 9)
		c.Strategy = strategy
		s := run(t, c)
		sum, n := 0.0, 0
		for _, d := range s.Downloads() {
			if !d.Failed && !d.Probe {
				sum, n = sum+d.Took.Seconds(), n+1
			}
		}
		return sum / float64(n)
	}
	if p, r := mean(proxy), mean(random); p > 0.75*r {
		t.Errorf("proxy takes %.3f s per page, random %.3f s, want proxy clearly faster", p, r)
	}
}
