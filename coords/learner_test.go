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

// planted is a world of the model's form: peers and servers on a plane of factors.
type planted struct {
	times [][]float64 // log ms, by peer and server
}

func plant(peers, servers int, noise float64, rng *rand.Rand) planted {
	var w planted
	type vec [3]float64
	var at []vec
	for range servers {
		at = append(at, vec{5.5 + 0.5*rng.NormFloat64(), rng.NormFloat64(), rng.NormFloat64()})
	}
	for range peers {
		me := vec{0.4 * rng.NormFloat64(), 0.6 * rng.NormFloat64(), 0.6 * rng.NormFloat64()}
		var row []float64
		for _, v := range at {
			row = append(row, v[0]+me[0]+me[1]*v[1]+me[2]*v[2]+noise*rng.NormFloat64())
		}
		w.times = append(w.times, row)
	}
	return w
}

// protocol lets peers and owners learn from each other: owners know the times of the
// peers that asked, peers what owners publish. told may replace the time that an owner
// is told.
func protocol(
	t *testing.T, w planted, asked [][]int, rounds int, told func(peer int, x float64) float64,
) (peers, hosts []Traits) {
	t.Helper()
	var learners []*Learner
	for u := range w.times {
		l := NewLearner(fmt.Sprint("peer", u), LearnerSubnets)
		learners = append(learners, l)
		peers = append(peers, l.Traits())
	}
	for s, us := range asked {
		for _, u := range us {
			learners[u].Observe(fmt.Sprint(s),
				Sample{Peer: "p",
					FirstByte: time.Duration(math.Expm1(w.times[u][s]) * float64(
						time.Millisecond))})
		}
	}
	hosts = make([]Traits, len(asked))
	for range rounds {
		for s, us := range asked {
			var rows []TraitRow
			for _, u := range us {
				rows = append(rows, TraitRow{Peer: peers[u], Time: told(u, w.times[u][s])})
			}
			hosts[s] = LocateTraits(rows)
			for _, u := range us {
				learners[u].ObserveServer(fmt.Sprint(s), Proxy{Traits: hosts[s]})
			}
		}
		for u, l := range learners {
			peers[u] = l.Traits()
		}
	}
	return peers, hosts
}

// errors returns the median absolute error of the pairs that were not measured, and the
// share of them within the forecast's 80 % interval.
func (w planted) errors(
	t *testing.T, asked [][]int, peers, hosts []Traits,
) (median, inside float64) {
	t.Helper()
	var errs []float64
	hits := 0.0
	for s, us := range asked {
		for u := range w.times {
			if slices.Contains(us, u) {
				continue
			}
			f, ok := peers[u].Predict(hosts[s])
			if !ok {
				t.Fatal("published traits are malformed")
			}
			e := math.Abs(f.Mean - w.times[u][s])
			errs = append(errs, e)
			if e <= 1.28*math.Sqrt(f.Model+f.Noise) {
				hits++
			}
		}
	}
	return lowerMedian(errs), hits / float64(len(errs))
}

// pick lets k random peers ask each server.
func pick(peers, servers, k int, rng *rand.Rand) [][]int {
	var out [][]int
	for range servers {
		out = append(out, rng.Perm(peers)[:k])
	}
	return out
}

func honest(_ int, x float64) float64 { return x }

func TestTraitsPredictUnmeasuredPairs(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	w := plant(30, 200, 0.1, rng)
	asked := pick(30, 200, 8, rng)
	peers, hosts := protocol(t, w, asked, 15, honest)
	median, inside := w.errors(t, asked, peers, hosts)
	t.Logf("median error %.3f, %.2f inside the 80 %% interval, wide with noise below the prior",
		median, inside)
	if median > 0.25 {
		t.Errorf("median error %.3f of log times, want <= 0.25 (spread of the pairs: 0.6)", median)
	}
	// The published uncertainty must be meaningful, too: with noise of the usual size four
	// fifths should be within the interval; with twelve loadings from fifty downloads two
	// thirds are, because peers do not publish their own uncertainty.
	w = plant(30, 200, 0.45, rng)
	peers, hosts = protocol(t, w, asked, 15, honest)
	_, inside = w.errors(t, asked, peers, hosts)
	t.Logf("%.2f inside the 80 %% interval", inside)
	if inside < 0.6 || inside > 0.9 {
		t.Errorf("%.2f of the pairs inside the 80 %% interval, want 0.6 to 0.9", inside)
	}
}

// Peers that report random times to owners must not spoil what others learn.
func TestTraitsSurviveLiars(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 1))
	w := plant(30, 200, 0.1, rng)
	asked := pick(30, 200, 10, rng)
	peers, hosts := protocol(t, w, asked, 15, honest)
	clean, _ := w.errors(t, asked, peers, hosts)
	peers, hosts = protocol(t, w, asked, 15, func(u int, x float64) float64 {
		if u < 3 { // every tenth
			return rng.Float64() * 10
		}
		return x
	})
	lied, _ := w.errors(t, asked, peers, hosts)
	t.Logf("median error %.3f, with liars %.3f", clean, lied)
	if lied > clean+0.12 {
		t.Errorf("median error %.3f, with a tenth of liars %.3f", clean, lied)
	}
}

func TestLearnerMemoryIsBounded(t *testing.T) {
	l := NewLearner("p", 3)
	for i := range 10 {
		for range 5 {
			l.Observe(fmt.Sprint(i), Sample{Peer: "p", FirstByte: time.Second})
			l.Observe(fmt.Sprint(i), Sample{Peer: "p", Failed: true})
		}
	}
	if got := l.Subnets(); !slices.Equal(got, []string{"7", "8", "9"}) {
		t.Errorf("remembers %v, want the last three", got)
	}
	if r := l.memory["9"]; len(r.times) != 5 || r.failed != 5 {
		t.Errorf("remembers %d times and %d failures, want 5 and 5", len(r.times), r.failed)
	}
}

// Peers with similar names must not start alike: a factor common to all has no
// information.
func TestFreshTraitsDiffer(t *testing.T) {
	sum := 0.0
	for i := range 200 {
		a, b := InitialTraits(fmt.Sprint("peer-", i)), InitialTraits(fmt.Sprint("peer-", i+1))
		for f := 2; f <= Factors; f++ {
			sum += a[f] * b[f] / 0.09 / 200 / (Factors - 1)
		}
	}
	if math.Abs(sum) > 0.15 {
		t.Errorf("correlation of neighbours' loadings %.2f, want none", sum)
	}
}

// Whatever peers claim, what an owner publishes is valid, and so is what a peer makes of
// whatever an owner claims.
func TestTraitsStayInBounds(t *testing.T) {
	number := rapid.OneOf(rapid.Float64(), rapid.Float64Range(-20, 20))
	rapid.Check(t, func(rt *rapid.T) {
		var rows []TraitRow
		for range rapid.IntRange(0, 12).Draw(rt, "rows") {
			rows = append(rows, TraitRow{
				Peer: rapid.SliceOfN(number, 0, peerTraits+1).Draw(rt, "peer"),
				Time: number.Draw(rt, "time"),
			})
		}
		host := LocateTraits(rows)
		if _, ok := InitialTraits("p").Predict(host); !ok {
			rt.Fatalf("published %v", host)
		}
		l := NewLearner("p", LearnerSubnets)
		l.Observe("s", Sample{Peer: "p", FirstByte: time.Duration(rapid.Int64().Draw(rt, "took"))})
		l.ObserveServer("s", Proxy{Traits: rapid.SliceOfN(number, hostTraits, hostTraits).Draw(rt,
			"told")})
		f, ok := l.Traits().Predict(host)
		if !ok || math.IsNaN(f.Mean) || !(f.Model >= 0) || !(f.Noise > 0) {
			rt.Fatalf("forecast %+v, %v", f, ok)
		}
	})
}
