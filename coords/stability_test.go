package coords_test

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"peerd/coords"
)

func TestAnnouncer(t *testing.T) {
	a, err := coords.NewAnnouncer(coords.DefaultStabilityConfig())
	if err != nil {
		t.Fatal(err)
	}
	base := coords.Coordinate{Vec: []float64{10, 10}, Height: 2, Error: 0.2}
	with := func(x, height, e float64) coords.Coordinate {
		return coords.Coordinate{Vec: []float64{x, 10}, Height: height, Error: e}
	}
	for _, step := range []struct {
		what string
		c    coords.Coordinate
		want bool
	}{
		{"first", base, true},
		{"the same", base, false},
		{"a wiggle", with(13, 2, 0.2), false},
		{"a move", with(16, 2, 0.2), true},
		{"slow drift is measured from the last announcement", with(20, 2, 0.2), false},
		{"so that it counts in the end", with(22, 2, 0.2), true},
		{"certainty", with(22, 2, 0.1), true},
		{"more than anybody cares for", with(22, 2, 0.01), false},
		{"load", with(22, 2, 0.1).Loaded(4 * time.Second), true},
		{"a little more load", with(22, 2, 0.1).Loaded(4500 * time.Millisecond), false},
		{"much more load", with(22, 2, 0.1).Loaded(8 * time.Second), true},
		{"no load", with(22, 2, 0.1), true},
	} {
		if got := a.Consider(step.c); got != step.want {
			t.Errorf("%s: got %v", step.what, got)
		}
	}
	if _, err := coords.NewAnnouncer(coords.StabilityConfig{Move: math.NaN(), Relative: math.NaN()}); err == nil {
		t.Error("NaN was accepted")
	}
}

// filtered feeds an Announcer with places and counts the announcements.
func filtered(t *testing.T, change func(*coords.StabilityConfig), places func(i int) float64, n int, nearest float64) int {
	t.Helper()
	cfg := coords.DefaultStabilityConfig()
	change(&cfg)
	a, err := coords.NewAnnouncer(cfg)
	if err != nil {
		t.Fatal(err)
	}
	a.SetNearest(nearest)
	told := 0
	for i := range n {
		if a.Consider(coords.Coordinate{Vec: []float64{places(i), 0}, Height: 1, Error: 0.1}) {
			told++
		}
	}
	return told
}

// "ENERGY and RELATIVE": both look at sets of places, so that jitter around one
// place costs nothing and a lasting change is told ([2] 5).
func TestUpdateFilters(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	jitter := func(int) float64 { return rng.NormFloat64() * 3 }
	jump := func(i int) float64 { return jitter(i) + float64(i/500)*40 }
	energy := func(c *coords.StabilityConfig) { c.Filter = coords.FilterEnergy }
	relative := func(c *coords.StabilityConfig) { c.Filter = coords.FilterRelative }
	move := func(c *coords.StabilityConfig) { c.Filter = coords.FilterMove }
	for _, tc := range []struct {
		name        string
		filter      func(*coords.StabilityConfig)
		places      func(int) float64
		nearest     float64
		least, most int
	}{
		{"energy, jitter", energy, jitter, 0, 1, 5},
		{"energy, jump", energy, jump, 0, 2, 8},
		{"relative, jitter", relative, jitter, 20, 1, 1},
		{"relative, jump", relative, jump, 20, 2, 4},
		{"relative, jump, all neighbours far", relative, jump, 400, 1, 1},
		{"relative, jump, no neighbour known", relative, jump, 0, 2, 4},
		{"move, jitter", move, jitter, 0, 50, 1000},
	} {
		if got := filtered(t, tc.filter, tc.places, 1000, tc.nearest); got < tc.least || got > tc.most {
			t.Errorf("%s: %d announcements, want %d to %d", tc.name, got, tc.least, tc.most)
		}
	}
	// Height and error are news under every filter.
	for _, filter := range []coords.Filter{coords.FilterMove, coords.FilterEnergy, coords.FilterRelative} {
		cfg := coords.DefaultStabilityConfig()
		cfg.Filter = filter
		a, err := coords.NewAnnouncer(cfg)
		if err != nil {
			t.Fatal(err)
		}
		c := coords.Coordinate{Vec: []float64{1, 2}, Height: 1, Error: 0.1}
		if !a.Consider(c) || a.Consider(c) || !a.Consider(c.Loaded(time.Second)) {
			t.Errorf("filter %d: load was not told once", filter)
		}
	}
	if _, err := coords.NewAnnouncer(coords.StabilityConfig{Filter: 7}); err == nil {
		t.Error("filter 7 was accepted")
	}
}
