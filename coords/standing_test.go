package coords_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"peerd/coords"
)

// settled returns an estimator that has measured peers p0 to p39 of a plane, and their places. The
// plane is already in its coordinates.
func settled(t testing.TB, seed uint64) (*coords.Estimator, []coords.Coordinate) {
	rng := rand.New(rand.NewPCG(seed, 1))
	places := make([]coords.Coordinate, 40)
	for i := range places {
		places[i] = at(rng.NormFloat64()*60, rng.NormFloat64()*60, 0, 0)
		places[i].Height, places[i].Error = 2, 0.1
	}
	e := newEstimator(t, nil)
	here := at(20, 10, 0, 0)
	here.Height = 2
	for range 10 {
		for i, p := range places {
			_ = e.Observe(fmt.Sprint("p", i), p, trip(here.Distance(p)))
		}
	}
	return e, places
}

func trip(ms float64) time.Duration { return time.Duration(ms * float64(time.Millisecond)) }

func TestJudge(t *testing.T) {
	t.Parallel()
	e, places := settled(t, 1)
	for i, p := range places {
		if _, got := e.Judge(fmt.Sprint("p", i), p, nil); got != coords.Measured {
			t.Errorf("Judge(p%d, where it is) = %v, want measured", i, got)
		}
	}
	if _, got := e.Judge("stranger", places[0], nil); got != coords.Claimed {
		t.Errorf("Judge(stranger) = %v, want claimed", got)
	}
	young := newEstimator(t, nil)
	_ = young.Observe("p0", places[0], 50*time.Millisecond)
	if _, got := young.Judge("p0", places[0], nil); got != coords.Claimed {
		t.Errorf("Judge() among too few neighbours = %v, want claimed", got)
	}
	// A peer in the opposite direction of before has moved by more than 25 ms, but not by more than
	// that and the round trip.
	own := e.Coordinate()
	i := slices.IndexFunc(places, func(p coords.Coordinate) bool {
		rtt := own.Distance(p)
		return rtt > 22 && rtt < 30
	})
	mirrored := places[i].Clone()
	for k, x := range own.Vec {
		mirrored.Vec[k] = 2*x - mirrored.Vec[k]
	}
	for _, doubt := range []struct {
		error float64
		want  coords.Standing
	}{{0.1, coords.Refuted}, {1, coords.Measured}} {
		before := places[i].Clone()
		before.Error = doubt.error
		_ = e.Observe(fmt.Sprint("p", i), before, trip(own.Distance(before)))
		if _, got := e.Judge(fmt.Sprint("p", i), mirrored, nil); got != doubt.want {
			t.Errorf("Judge(a peer with an error of %v before) = %v, want %v", doubt.error, got,
				doubt.want)
		}
	}
	for s, want := range map[coords.Standing]string{coords.Claimed: "claimed",
		coords.Measured: "measured", coords.Refuted: "refuted", 9: "invalid"} {
		if s.String() != want {
			t.Errorf("%d is %q, want %q", s, s, want)
		}
	}
}

// A place that contradicts the round trip, and one that agrees with it but is elsewhere than
// before, are refuted, whatever the world.
func TestJudgeRefutesLies(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		e, places := settled(t, rapid.Uint64().Draw(r, "world"))
		i := rapid.IntRange(0, len(places)-1).Draw(r, "peer")
		name, own, p := fmt.Sprint("p", i), e.Coordinate(), places[i]
		far := p.Clone()
		far.Vec[rapid.IntRange(0, 3).Draw(r, "axis")] += rapid.Float64Range(400, 3000).Draw(r, "ms")
		// It was there before, too: only the round trip contradicts it.
		_ = e.Observe(name, far, trip(own.Distance(p)))
		// A place on the other side may be as far away as the real one.
		longer := own.Distance(far) - own.Distance(p)
		if _, got := e.Judge(name, far, nil); longer > 200 && got != coords.Refuted {
			t.Errorf("Judge(a place %.0f ms farther away) = %v, want refuted", longer, got)
		}
		_ = e.Observe(name, p, trip(own.Distance(p)))
		// The same distance in the opposite direction.
		jumped := p.Clone()
		for k, x := range own.Vec {
			jumped.Vec[k] = 2*x - p.Vec[k]
		}
		off := math.Abs(own.Distance(jumped) - own.Distance(p))
		if moved := jumped.Distance(p) - 4; off < 1 && moved > 60 {
			if _, got := e.Judge(name, jumped, nil); got != coords.Refuted {
				t.Errorf("Judge(a place %.0f ms from the last one) = %v, want refuted", moved, got)
			}
		}
	})
}
