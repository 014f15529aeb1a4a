package coords_test

import (
	"testing"
	"time"

	"peerd/coords"
)

func TestAnnouncer(t *testing.T) {
	t.Parallel()
	a := new(coords.Announcer)
	base := coords.Coordinate{Vec: []float64{10, 10}, Height: 2, Error: 0.25}
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
		{"a wiggle", with(13, 2, 0.25), false},
		{"a move", with(16, 2, 0.25), true},
		{"slow drift is measured from the last announcement", with(20, 2, 0.25), false},
		{"so that it counts in the end", with(22, 2, 0.25), true},
		{"certainty", with(22, 2, 0.1), true},
		{"more than anybody cares for", with(22, 2, 0.01), false},
		{"load", with(22, 2, 0.1).Loaded(4 * time.Second), true},
		{"a little more load", with(22, 2, 0.1).Loaded(4300 * time.Millisecond), false},
		{"much more load", with(22, 2, 0.1).Loaded(8 * time.Second), true},
		{"no load", with(22, 2, 0.1), true},
	} {
		if got := a.Consider(step.c); got != step.want {
			t.Errorf("%s: got %v", step.what, got)
		}
	}
}
