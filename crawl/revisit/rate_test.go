package revisit

import (
	"math"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"
)

// poisson fills evidence with n visits to a page that changes rate times a second. The
// visits are gap() seconds apart; dates says that the time of the last change is known.
func poisson(
	r *rand.Rand, n int, rate float64, gap func() float64, dates bool,
) (e Evidence, seen int) {
	for range n {
		t := gap()
		since := r.ExpFloat64() / rate // back to the last change
		switch {
		case since >= t:
			e.same(t)
		case dates:
			e.dated(t, since)
			seen++
		default:
			e.undated(t)
			seen++
		}
	}
	return e, seen
}

// mean returns the average of many estimates, as a multiple of the true rate.
func mean(
	rounds, n int, rate float64, gap func(*rand.Rand) func() float64, dates bool,
) (improved, naive float64) {
	r := rand.New(rand.NewPCG(7, uint64(n)))
	g := gap(r)
	for range rounds {
		e, x := poisson(r, n, rate, g, dates)
		improved += e.rate() / rate
		if w := float64(e.Observed); w > 0 {
			naive += float64(x) / w / rate
		}
	}
	return improved / float64(rounds), naive / float64(rounds)
}

const interval = day

func regular(*rand.Rand) func() float64 { return func() float64 { return interval } }

// spreadOut returns intervals over two orders of magnitude.
func spreadOut(r *rand.Rand) func() float64 {
	return func() float64 { return interval * math.Pow(10, 2*r.Float64()-1) }
}

func TestRateMatchesPaper(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 50).Draw(t, "n")
		x := rapid.IntRange(0, n).Draw(t, "x")
		var undated, dated Evidence
		T := 0.0
		for i := range n {
			if i < x {
				undated.undated(interval)
				dated.dated(interval, 1000)
				T += 1000
			} else {
				undated.same(interval)
				dated.same(interval)
				T += interval
			}
		}
		N, X := float64(n), float64(x)
		want := -math.Log((N-X+0.5)/(N+0.5)) / interval
		if got := undated.rate(); math.Abs(got-want) > 1e-5*want {
			t.Errorf("undated: rate() = %g, want %g", got, want)
		}
		want = 0
		if x > 0 {
			want = ((X - 1) - X/(N*math.Log(1-X/N))) / T
		}
		if got := dated.rate(); math.Abs(got-want) > 1e-5*want+minRate {
			t.Errorf("dated: rate() = %g, want %g", got, want)
		}
	})
}

// The ratio of rates to visits is r. X/T converges to (1-exp(-r))/r of the true rate, so it
// is not consistent; the improved estimators are. The bias allowed for 10 visits is larger
// than for 50: the undated estimators are bounded by log(2n+1), and for irregular visits
// there is only the likelihood.
func TestBias(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		gap   func(*rand.Rand) func() float64
		dates bool
		n     int
		r     float64
		most  float64 // bias allowed
	}{
		{"regular", regular, false, 10, 0.1, 0.05},
		{"regular", regular, false, 10, 0.5, 0.05},
		{"regular", regular, false, 10, 1, 0.05},
		{"regular", regular, false, 50, 0.1, 0.02},
		{"regular", regular, false, 50, 1, 0.02},
		{"regular", regular, false, 50, 2, 0.03},
		{"irregular", spreadOut, false, 10, 0.1, 0.25},
		{"irregular", spreadOut, false, 10, 1, 0.25},
		{"irregular", spreadOut, false, 50, 0.1, 0.08},
		{"irregular", spreadOut, false, 50, 1, 0.08},
		{"dated", regular, true, 10, 0.5, 0.03},
		{"dated", regular, true, 10, 5, 0.03},
		{"dated", regular, true, 50, 0.1, 0.03},
		{"dated", regular, true, 50, 50, 0.03},
		{"dated irregular", spreadOut, true, 50, 1, 0.03},
		{"dated irregular", spreadOut, true, 10, 5, 0.05},
	} {
		got, naive := mean(20000/c.n+1000, c.n, c.r/interval, c.gap, c.dates)
		t.Logf("%-16s n=%-3d r=%-4g estimate/truth %.3f, X/T %.3f", c.name, c.n, c.r, got, naive)
		if math.Abs(got-1) > c.most {
			t.Errorf("%s, n=%d, r=%g: bias %.3f, allowed %.3f", c.name, c.n, c.r, got-1, c.most)
		}
	}
}

func TestConsistency(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		gap   func(*rand.Rand) func() float64
		dates bool
		most  float64
	}{
		{"regular", regular, false, 0.02},
		{"irregular", spreadOut, false, 0.06}, // bins represent the intervals
		{"dated", regular, true, 0.02},
		{"dated irregular", spreadOut, true, 0.02},
	} {
		for _, r := range []float64{0.2, 1, 2} {
			got, naive := mean(5, 20000, r/interval, c.gap, c.dates)
			if math.Abs(got-1) > c.most {
				t.Errorf("%s, r=%g: estimate/truth %.3f after 20000 visits", c.name, r, got)
			}
			if c.name == "regular" && math.Abs(naive-(1-math.Exp(-r))/r) > 0.02 {
				t.Errorf("X/T gives %.3f of the truth, want %.3f: the simulation is wrong", naive,
					(1-math.Exp(-r))/r)
			}
		}
	}
}

// Bins approximate the intervals; this is the error compared with the equation over all
// intervals.
func TestBins(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	worst := 0.0
	for range 500 {
		gap, rate := spreadOut(r), math.Pow(10, 2*r.Float64()-1)/interval
		var e Evidence
		var lengths []float64
		for range 30 {
			t := gap()
			if r.ExpFloat64()/rate >= t {
				e.same(t)
			} else {
				e.undated(t)
				lengths = append(lengths, t)
			}
		}
		if len(lengths) == 0 || e.Same == 0 {
			continue
		}
		exact := bisect(math.Log(minRate), math.Log(maxRate), func(l float64) bool {
			sum := 0.0
			for _, t := range lengths {
				sum += t / math.Expm1(math.Exp(l)*t)
			}
			return sum > float64(e.Unchanged)
		})
		worst = max(worst, math.Abs(math.Log(e.solve(0, float64(e.Unchanged)))-exact))
	}
	t.Logf("largest error: factor %.3f", math.Exp(worst))
	if worst > math.Log(1.25) {
		t.Errorf("factor %.3f from the maximum of the likelihood", math.Exp(worst))
	}
}

func TestRateIsBounded(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		f := func(name string, most float32) float32 {
			return rapid.Float32Range(0, most).Draw(t, name)
		}
		e := Evidence{Same: f("same", 64), Dated: f("dated", 64), Unchanged: f("quiet", 1e12),
			Observed: f("watched", 1e12)}
		for range rapid.IntRange(0, 20).Draw(t, "bins") {
			e.Undated = append(e.Undated, Bin{Count: f("count", 64), Span: f("span", 1e12)})
		}
		if r := e.rate(); !(r >= 0 && r <= maxRate) {
			t.Errorf("rate %g of %+v is out of bounds", r, e)
		}
		if r := e.rateWith(1e-6); !(r > 0 && r <= maxRate) {
			t.Errorf("rate %g of %+v is out of bounds", r, e)
		}
	})
}

func BenchmarkRate(b *testing.B) {
	e, _ := poisson(rand.New(rand.NewPCG(1, 1)), 30, 1/interval, regular(nil), false)
	for b.Loop() {
		e.rate()
	}
}

// rate estimates the changes per second: the maximum-likelihood rate with the bias corrections
// of Cho and Garcia-Molina (2003). It is 0 until a change is seen. For regular visits
// without dates it equals their -log((n-X+0.5)/(n+0.5)), because half an unchanged interval
// is added. If all changes are dated, it equals their ((X-1) - X/(n log(1-X/n))) / T.
// Mixtures get both corrections, each in proportion to its share of the changes.
func (e *Evidence) rate() float64 {
	n, c, k := e.visits(), e.changes(), float64(e.Dated)
	x := c + k
	if x == 0 {
		return 0
	}
	reduced := (x - 1) - x/(n*math.Log(1-x/n)) // x = n: x-1
	k = max(0, k-k/x*(x-reduced))
	pad := 0.5 * c / x * float64(e.Observed) / n
	return e.solve(k, float64(e.Unchanged)+pad)
}
