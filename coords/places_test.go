package coords

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// drawn returns n values of m.
func (m Mixture) drawn(n int, rng *rand.Rand) []float64 {
	out := make([]float64, n)
	for i := range out {
		x := m[rng.IntN(len(m))]
		out[i] = x.Mean + math.Sqrt(x.Variance)*rng.NormFloat64()
	}
	return out
}

// What a Mixture says of itself is what many values drawn from it show.
func TestMixture(t *testing.T) {
	t.Parallel()
	const n, best = 200_000, 90
	for name, m := range map[string]Mixture{
		"one":           {{Mean: 100, Variance: 400}},
		"two far apart": {{Mean: 40, Variance: 25}, {Mean: 300, Variance: 900}},
		"below zero":    {{Mean: -20, Variance: 1600}, {Mean: 60, Variance: 100}},
	} {
		all := m.drawn(n, rand.New(rand.NewPCG(1, 2)))
		var mean, squares, saved float64
		for _, x := range all {
			mean, squares = mean+x/n, squares+x*x/n
			saved += max(0, best-max(0, x)) / n
		}
		got := m.Moments()
		if sd := math.Sqrt(got.Variance); math.Abs(got.Mean-mean) > 0.02*sd ||
			math.Abs(got.Variance-(squares-mean*mean)) > 0.02*got.Variance {
			t.Errorf("%s: Moments() = %+v, want mean %.2f and variance %.1f", name, got, mean,
				squares-mean*mean)
		}
		if s := m.Saving(best); math.Abs(s-saved) > 0.02*best {
			t.Errorf("%s: Saving(%d) = %.3f, want %.3f", name, best, s, saved)
		}
		slices.Sort(all)
		for _, q := range []float64{Tail, 0.5, 1 - Tail} {
			at := m.Quantile(q, 0)
			below, _ := slices.BinarySearch(all, at)
			if share := float64(below) / n; math.Abs(share-q) > 0.005 {
				t.Errorf("%s: %.3f of the values are below Quantile(%v) = %.2f", name, share, q, at)
			}
		}
	}
}

// A common variance is added to that of each component, and quantiles are in order.
func TestQuantile(t *testing.T) {
	t.Parallel()
	component := rapid.Custom(func(t *rapid.T) Normal {
		return Normal{Mean: rapid.Float64Range(-1e3, 1e4).Draw(t, "mean"),
			Variance: rapid.Float64Range(0, 1e6).Draw(t, "variance")}
	})
	rapid.Check(t, func(t *rapid.T) {
		m := Mixture(rapid.SliceOfN(component, 1, 70).Draw(t, "components"))
		common := rapid.Float64Range(1, 1e6).Draw(t, "common")
		before := math.Inf(-1)
		for _, q := range []float64{Tail, 0.5, 1 - Tail} {
			got := m.Quantile(q, common)
			wider := slices.Clone(m)
			for i := range wider {
				wider[i].Variance += common
			}
			if want := wider.Quantile(q, 0); math.Abs(got-want) > 1e-6 || got < before {
				t.Fatalf("Quantile(%v, %v) = %v, want %v, at least %v", q, common, got, want,
					before)
			}
			before = got
		}
	})
}

// Each index is drawn as often as its probability says, but for a fraction of one.
func TestSystematic(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		logs := rapid.SliceOfN(rapid.Float64Range(-800, 800), 1, 200).Draw(t, "logs")
		n := rapid.IntRange(1, 100).Draw(t, "n")
		got := systematic(logs, n)
		if len(got) != n || !slices.IsSorted(got) {
			t.Fatalf("systematic() = %v, want %d indices in order", got, n)
		}
		most, sum := slices.Max(logs), 0.0
		for _, l := range logs {
			sum += math.Exp(l - most)
		}
		times := make([]int, len(logs))
		for _, k := range got {
			times[k]++
		}
		for k, l := range logs {
			want := math.Exp(l-most) / sum * float64(n)
			if math.Abs(float64(times[k])-want) > 1+1e-6 {
				t.Fatalf("index %d was drawn %d times, want about %v", k, times[k], want)
			}
		}
	})
}

// The places of a server that some peers have measured are near where it is, nearer with more
// peers, and the same each time.
func TestBelieve(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(3, 4))
	var peers []Coordinate
	for range 24 {
		peers = append(peers, Coordinate{Vec: []float64{rng.Float64() * 200, rng.Float64() * 200},
			Height: 2, Error: 0.1})
	}
	server := Coordinate{Vec: []float64{70, 120}, Height: 3}
	off := func(measured int) float64 {
		var samples []Sample
		for i, p := range peers[:measured] {
			rtt := time.Duration(p.Distance(server) * float64(time.Millisecond))
			samples = append(samples, Sample{Peer: fmt.Sprint("p", i), At: p, Connect: rtt,
				FirstByte: rtt + 30*time.Millisecond, Body: 10 * time.Millisecond, Bytes: 20_000})
		}
		d := DigestOf(samples, Population{})
		all := d.Believe(peers, Hints{}, func(string) bool { return true })
		if len(all) != placesKept {
			t.Fatalf("%d places with %d measurements, want %d", len(all), measured, placesKept)
		}
		again := d.Believe(peers, Hints{}, func(string) bool { return true })
		sum := 0.0
		for i, p := range all {
			if p.Validate(2) != nil || !slices.Equal(p.Vec, again[i].Vec) {
				t.Fatalf("place %+v, and %+v the second time", p, again[i])
			}
			sum += p.Distance(server) - p.Height - server.Height
		}
		return sum / float64(len(all))
	}
	if one, six := off(1), off(6); six > 30 || six > one/2 {
		t.Errorf("places are %.1f ms off with one measurement and %.1f with six, want at most "+
			"half and 30", one, six)
	}
	if got := (Digest{}).Believe(peers, Hints{}, func(string) bool { return true }); got != nil {
		t.Errorf("Believe() without a measurement = %v, want nil", got)
	}
}
