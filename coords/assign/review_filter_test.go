package assign

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// visit is a page of a peer so many seconds before now, with this logarithm.
func visit(peer string, ago, log float64) page {
	return page{peer: peer, age: time.Duration(ago * float64(time.Second)), log: log}
}

// filtered are the levels after pages that scatter by 0.3.
func filtered(pages []page) *levels {
	sigmas := map[string]float64{}
	for _, p := range pages {
		sigmas[p.peer] = 0.3
	}
	return levelsOf(pages, sigmas, time.Second)
}

// The probability that a lead is less than a bar is right: in worlds drawn from the model, the
// lead is less about as often as the filter says.
func TestDoubtIsCalibrated(t *testing.T) {
	t.Parallel()
	const worlds, seconds, sigma, bar = 3000, 300, 0.3, 0.1
	rng := rand.New(rand.NewPCG(1, 7))
	bounds := []float64{0, 0.01, 0.05, 0.2, 0.5, 0.8, 1}
	said, was, n := make([]float64, 6), make([]float64, 6), make([]float64, 6)
	for range worlds {
		level := []float64{5, 0, 0, 0}
		for i := 1; i < 4; i++ {
			level[i] = levelSigma * rng.NormFloat64()
		}
		var pages []page
		for s := range seconds {
			for i := range level {
				level[i] += levelDrift * math.Sqrt(1./60) * rng.NormFloat64()
				if rng.Float64() < changed(time.Second) {
					level[i] += levelSigma * rng.NormFloat64()
				}
			}
			i := 1 // the owner; each tenth page is another peer's
			if s%10 == 5 {
				i = 2 + s/10%2
			}
			x := level[0] + level[i] + sigma*rng.NormFloat64()
			if rng.Float64() < lateShare {
				x += levelSigma * math.Abs(rng.NormFloat64())
			}
			pages = append(pages, visit(fmt.Sprint(i), float64(seconds-1-s), x))
		}
		l := filtered(pages)
		for i := 2; i < 4; i++ {
			x := l.lead(1, i, 0, 0).doubt(bar)
			k := 0
			for k < 5 && x > bounds[k+1] {
				k++
			}
			n[k]++
			said[k] += x
			if level[1]-level[i] < bar {
				was[k]++
			}
		}
	}
	for k := range n {
		said, was := said[k]/n[k], was[k]/n[k]
		t.Logf("doubt %v to %v: %v times, said %.4f, was %.4f", bounds[k], bounds[k+1], n[k], said,
			was)
		if math.Abs(was-said) > 0.04+0.25*said || n[k] < 50 {
			t.Errorf("doubt %v to %v: %v times, said %.4f, was %.4f", bounds[k], bounds[k+1], n[k],
				said, was)
		}
	}
}

// What all pages show is the server's; what those of one peer show is the peer's.
func TestLevelsTellServerAndPeer(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name         string
		slowA, slowB float64
		least, most  float64 // lead of b
	}{
		{"as before", 0, 0, -0.15, 0.15},
		{"a is slow", 1, 0, 0.7, 1.2},
		{"both are slow", 1, 1, -0.15, 0.15},
		{"b is slow", 0, 1, -1.2, -0.7},
	} {
		var pages []page
		for s := range 120 {
			a, b := 5., 5.
			if s >= 90 {
				a, b = a+c.slowA, b+c.slowB
			}
			if s%4 == 3 {
				pages = append(pages, visit("b", float64(120-s), b+0.1*float64(s%3-1)))
			} else {
				pages = append(pages, visit("a", float64(120-s), a+0.1*float64(s%3-1)))
			}
		}
		l := filtered(pages)
		if d := l.lead(1, 2, 0, 0); !(d.mean > c.least && d.mean < c.most) {
			t.Errorf("%s: lead %v, want %v to %v", c.name, d.mean, c.least, c.most)
		}
		late := append(pages, visit("a", 0, 9))
		if d := filtered(late).lead(1, 2, 0, 0).mean - l.lead(1, 2, 0, 0).mean; d > 0.15 {
			t.Errorf("%s: a late page changes the lead by %v", c.name, d)
		}
		if d := l.lead(1, 2, 0, 1000); d.mean > -0.5 {
			t.Errorf("%s: lead %v of a peer at which pages wait for a second", c.name, d.mean)
		}
	}
}

// That the owner may have become slow is no reason to ask another peer: its page would not tell;
// that the other peer was not asked for long is one.
func TestPromiseIsWhatAPageTeaches(t *testing.T) {
	t.Parallel()
	var pages []page
	for s := range 60 {
		pages = append(pages, visit("a", float64(601-2*s), 5), visit("b", float64(600-2*s), 5))
	}
	promise := func(more ...page) float64 {
		return filtered(append(slices.Clone(pages), more...)).lead(1, 2, 0, 0).promise(0.1)
	}
	var owner, other []page // after nine minutes without one
	for s := range 9 {
		owner = append(owner, visit("a", float64(9-s), 5))
		other = append(other, visit("b", float64(9-s), 5))
	}
	both, alone := promise(append(other, owner...)...), promise(owner...)
	if unsure := promise(other...); unsure > both+0.01 || alone < 2*unsure {
		t.Errorf("promises %.4f with new pages of both, %.4f of the other peer, %.4f of the "+
			"owner; want the second to be as the first, and the third more", both, unsure, alone)
	}
}

// Covariances stay those of a distribution.
func TestLevelsVariances(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(2, 7))
	var pages []page
	for s := range 2000 {
		id, log := fmt.Sprint(rng.IntN(8)), 5+2*rng.NormFloat64()
		pages = append(pages, visit(id, float64(2000-s), log))
	}
	l := filtered(pages)
	for i := range l.cov {
		for j := range l.cov {
			if c := l.cov[i][j]; !(c*c <= l.cov[i][i]*l.cov[j][j]*(1+1e-9)) ||
				math.Abs(c-l.cov[j][i]) > 1e-9 {
				t.Fatalf("covariance %d, %d is %v, variances %v and %v", i, j, c, l.cov[i][i],
					l.cov[j][j])
			}
		}
	}
}
