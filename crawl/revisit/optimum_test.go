package revisit

import (
	"math"
	"testing"
)

// The example of Cho and Garcia-Molina (TODS 2003): five pages that change 1, 2, 3, 4 and 5
// times a day, and five visits a day. The optimal numbers of visits are from the paper; the
// fastest page gets none.
func TestOptimumMatchesPaper(t *testing.T) {
	t.Parallel()
	want := []float64{1.15, 1.36, 1.35, 1.14, 0}
	price := bisect(0.01, 1, func(p float64) bool {
		sum := 0.0
		for rate := 1.0; rate <= 5; rate++ {
			sum += 1 / optimum(rate, p)
		}
		return sum > 5
	})
	for i, w := range want {
		if got := 1 / optimum(float64(i+1), price); math.Abs(got-w) > 0.006 {
			t.Errorf("rate %d: %.3f visits a day, want %.2f", i+1, got, w)
		}
	}
}

func TestPeak(t *testing.T) {
	t.Parallel()
	if d := math.Exp(peak) - (1 + peak + peak*peak); math.Abs(d) > 1e-4 {
		t.Errorf("peak is off by %g", d)
	}
	if shortest := peak / gain(peak); math.Abs(shortest-3.35) > 0.005 {
		t.Errorf("shortest interval is %.4f prices", shortest)
	}
}

func TestSlowRateInverts(t *testing.T) {
	t.Parallel()
	for _, interval := range []float64{4, 10, 100, 1e4} {
		if got := optimum(slowRate(interval, 1), 1); math.Abs(got/interval-1) > 1e-3 {
			t.Errorf("interval of slowRate(%g) = %g", interval, got)
		}
	}
	if got, want := slowRate(1, 1), gain(peak); math.Abs(got-want) > 1e-6 {
		t.Errorf("slowRate below the shortest interval = %g, want %g", got, want)
	}
}
