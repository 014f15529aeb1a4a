package coords_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"peerd/coords"
	_ "peerd/internal/rapidtest"
)

// reported returns what peers at random places report of one at a place, of which the last lies do
// as if it were at another one.
func reported(rng *rand.Rand, n, lies int, truth, lie coords.Coordinate) []coords.Observation {
	var all []coords.Observation
	for i := range n {
		from := at(rng.NormFloat64()*60, rng.NormFloat64()*60, rng.NormFloat64()*20, 0)
		from.Height, from.Error = 2, 0.1
		far := from.Distance(truth) * (1 + 0.05*rng.NormFloat64())
		if i >= n-lies {
			far = from.Distance(lie)
		}
		all = append(all, coords.Observation{From: from, RTT: trip(max(far, 1))})
	}
	return all
}

// A false place that a minority confirms is replaced by one near the truth; a true one stands
// although a minority says that the peer is elsewhere.
func TestPlace(t *testing.T) {
	t.Parallel()
	const n, lies, tries = 16, 4, 200
	refuted, near, misplaced := 0, 0, 0
	for seed := range uint64(tries) {
		rng := rand.New(rand.NewPCG(seed, 1))
		truth := at(rng.NormFloat64()*60, rng.NormFloat64()*60, 0, 0)
		lie := at(rng.NormFloat64()*60, rng.NormFloat64()*60, 0, 0)
		truth.Height, lie.Height = 2, 2
		if truth.Distance(lie) < 60 {
			lie = at(truth.Vec[0]+60, truth.Vec[1], 0, 0)
		}
		observed := reported(rng, n, lies, truth, lie)
		if _, moved := coords.Place(truth, observed); moved {
			misplaced++
		}
		got, moved := coords.Place(lie, observed)
		if !moved {
			continue
		}
		refuted++
		if got.Validate(4) != nil {
			t.Fatalf("seed %d: Place() = %v, want a valid place", seed, got)
		}
		if got.Distance(truth) < 30 {
			near++
		}
	}
	if refuted < tries*8/10 || near < tries*6/10 || misplaced > 0 {
		t.Errorf("%d of %d lies were refuted, %d placed near the truth, %d true places refuted",
			refuted, tries, near, misplaced)
	}
}

// Peers that are not where they claim to be do not count as witnesses of others.
func TestObservationsOf(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 1))
	truth, lie := at(0, 0, 0, 0), at(300, 0, 0, 0)
	all := coords.NewObservations()
	add := func(peer string, observed []coords.Observation) {
		for _, o := range observed {
			all.Add(o.By, o.From, []coords.Trip{{Peer: peer, RTT: o.RTT}})
		}
	}
	of := reported(rng, 12, 0, truth, lie)
	for i := range of {
		of[i].By = fmt.Sprint("honest", i)
		add(of[i].By, reported(rng, 12, 2, of[i].From, lie))
	}
	for i := range 8 {
		by := fmt.Sprint("liar", i)
		of = append(of, coords.Observation{By: by, From: lie, RTT: trip(1)})
		add(by, reported(rng, 12, 2, at(rng.NormFloat64()*60, 0, 0, 0), lie))
	}
	add("p", of)
	honest := 0
	for _, o := range all.Of("p") {
		if strings.HasPrefix(o.By, "liar") {
			t.Errorf("counts what %s published, which is not at %v", o.By, o.From)
		} else {
			honest++
		}
	}
	if honest < 11 {
		t.Errorf("counts %d of 12 honest peers", honest)
	}
}

// A peer has one vote on the place of another one, however many trips it publishes, and none on its
// own.
func TestObservationsCountPeers(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(3, 1))
	truth, lie := at(0, 0, 0, 0), at(300, 0, 0, 0)
	all := coords.NewObservations()
	for i, o := range reported(rng, 12, 2, truth, lie) {
		trips := []coords.Trip{{Peer: "p", RTT: o.RTT}, {Peer: "q", RTT: trip(1)}}
		if i >= 10 { // lies
			trips = slices.Repeat(trips[:1], coords.TripsMax)
		}
		all.Add(fmt.Sprint(i), o.From, trips)
	}
	all.Add("p", lie, slices.Repeat([]coords.Trip{{Peer: "p", RTT: trip(1)}}, coords.TripsMax))
	if of := all.Of("p"); len(of) != 12 {
		t.Errorf("%d observations by 12 peers", len(of))
	}
	if got, moved := coords.Place(truth, all.Of("p")); moved {
		t.Errorf("Place() = %v, misplaced by two of twelve peers", got)
	}
	if _, moved := coords.Place(lie, all.Of("p")); !moved {
		t.Error("a lie stands that two of twelve peers and the liar confirm")
	}
}

func TestPlaceNeedsObservations(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 1))
	truth, lie := at(0, 0, 0, 0), at(300, 0, 0, 0)
	observed := reported(rng, 6, 0, truth, lie)
	if _, moved := coords.Place(lie, observed[:5]); moved {
		t.Error("Place() with five observed in four dimensions moved the peer")
	}
	if _, moved := coords.Place(lie, observed); !moved {
		t.Error("Place() with six observed did not move the peer by 300 ms")
	}
}

// Whatever others say, the place is valid, and the claim stands if a majority confirms it.
func TestPlaceOfAnyObservations(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		number := func(name string, least, most float64) float64 {
			return rapid.Float64Range(least, most).Draw(t, name)
		}
		place := func(name string) coords.Coordinate {
			c := coords.Coordinate{Height: number(name+" height", 0, coords.MaxComponent),
				Error: number(name+" error", 0, 1)}
			for range 4 {
				c.Vec = append(c.Vec, number(name, -coords.MaxComponent, coords.MaxComponent))
			}
			return c
		}
		claim := place("claim")
		var observed []coords.Observation
		for range rapid.IntRange(0, 20).Draw(t, "observed") {
			observed = append(observed, coords.Observation{From: place("from"),
				RTT: trip(number("ms", 0.1, 6553))})
		}
		got, moved := coords.Place(claim, observed)
		if err := got.Validate(4); err != nil {
			t.Fatalf("Place() = %v, %v: %v", got, moved, err)
		}
		for _, r := range observed {
			observed = append(observed, coords.Observation{From: r.From,
				RTT: trip(max(r.From.Distance(claim), 0.1))})
		}
		observed = append(observed, coords.Observation{From: claim, RTT: trip(2 * claim.Height)})
		if got, moved := coords.Place(claim, observed); moved && claim.Height > 1 {
			t.Fatalf("Place() = %v although a majority confirms %v", got, claim)
		}
	})
}

func TestTrips(t *testing.T) {
	t.Parallel()
	e, places := settled(t, 1)
	trips := e.Trips()
	if len(trips) != coords.TripsMax {
		t.Fatalf("%d trips, want %d", len(trips), coords.TripsMax)
	}
	here := at(20, 10, 0, 0)
	here.Height = 2
	for i, got := range trips {
		last := len(places) - 1 - i
		want := trip(here.Distance(places[last]))
		if got.Peer != fmt.Sprint("p", last) || (got.RTT-want).Abs() > trip(1e-3) {
			t.Errorf("trip %d = %v, want p%d in %v", i, got, last, want)
		}
	}
	if trips := newEstimator(t, nil).Trips(); len(trips) != 0 {
		t.Errorf("trips of a new estimator: %v, want none", trips)
	}
}
