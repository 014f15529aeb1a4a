package coords_test

import (
	"errors"
	"math"
	"testing"
	"time"

	"github.com/fxamacker/cbor/v2"
	"pgregory.net/rapid"

	"peerd/coords"
	_ "peerd/internal/rapidtest"
)

func TestCoordinateValidate(t *testing.T) {
	t.Parallel()
	nan, inf := math.NaN(), math.Inf(1)
	for _, tc := range []struct {
		name string
		c    coords.Coordinate
		want error
	}{
		{"good", coords.Coordinate{Vec: []float64{1, -2}, Height: 3, Error: 0.5}, nil},
		{"extremes", coords.Coordinate{Vec: []float64{coords.MaxComponent, -coords.MaxComponent},
			Height: coords.MaxComponent, Error: 1}, nil},
		{"zero value", coords.Coordinate{}, coords.ErrDimension},
		{"too long", coords.Coordinate{Vec: make([]float64, 3)}, coords.ErrDimension},
		{"NaN", coords.Coordinate{Vec: []float64{nan, 0}}, coords.ErrBounds},
		{"infinite", coords.Coordinate{Vec: []float64{0, -inf}}, coords.ErrBounds},
		{"far", coords.Coordinate{Vec: []float64{0, 2 * coords.MaxComponent}}, coords.ErrBounds},
		{"NaN height", coords.Coordinate{Vec: make([]float64, 2), Height: nan}, coords.ErrBounds},
		{"under ground", coords.Coordinate{Vec: make([]float64, 2), Height: -1}, coords.ErrBounds},
		{"NaN error", coords.Coordinate{Vec: make([]float64, 2), Error: nan}, coords.ErrBounds},
		{"error above 1", coords.Coordinate{Vec: make([]float64, 2), Error: 1.5}, coords.ErrBounds},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if err := tc.c.Validate(2); !errors.Is(err, tc.want) {
				t.Errorf("got %v, want %v", err, tc.want)
			}
		})
	}
}

// coordinate draws valid coordinates.
func coordinate(dims int) *rapid.Generator[coords.Coordinate] {
	return rapid.Custom(func(t *rapid.T) coords.Coordinate {
		return coords.Coordinate{
			Vec: rapid.SliceOfN(rapid.Float64Range(-coords.MaxComponent, coords.MaxComponent),
				dims, dims).Draw(t, "vec"),
			Height: rapid.Float64Range(0, coords.MaxComponent).Draw(t, "height"),
			Error:  rapid.Float64Range(0, 1).Draw(t, "error"),
		}
	})
}

// Distances are those of a metric space with heights ([1] 5.4).
func TestDistanceProperties(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		a, b, c := coordinate(4).Draw(t, "a"), coordinate(4).Draw(t, "b"),
			coordinate(4).Draw(t, "c")
		const slack = 1 + 1e-9
		if a.Distance(b) != b.Distance(a) {
			t.Error("not symmetric")
		}
		if a.Distance(b) < a.Height+b.Height {
			t.Error("shorter than the heights")
		}
		if a.Distance(c) > (a.Distance(b)+b.Distance(c))*slack {
			t.Error("triangle inequality broken")
		}
	})
}

func TestDistanceOfUnequalDimensionsDoesNotPanic(t *testing.T) {
	t.Parallel()
	a := coords.Coordinate{Vec: []float64{3, 4}, Height: 1}
	if d := a.Distance(coords.Coordinate{}); d != 6 {
		t.Errorf("got %v, want 6", d)
	}
	if d := (coords.Coordinate{}).Distance(a); d != 6 {
		t.Errorf("got %v, want 6", d)
	}
}

func TestLoadIsHeight(t *testing.T) {
	t.Parallel()
	c := coords.Coordinate{Vec: []float64{1, 2}, Height: 3}
	loaded := c.Loaded(2 * time.Second)
	if loaded.Height != 2003 || c.Height != 3 {
		t.Errorf("loaded %v, own %v", loaded.Height, c.Height)
	}
	if back := loaded.Unloaded(2 * time.Second); back.Height != 3 {
		t.Errorf("unloaded to %v", back.Height)
	}
	if h := c.Loaded(time.Hour).Height; h != coords.MaxComponent {
		t.Errorf("an hour stands at %v, want it cut at %v", h, coords.MaxComponent)
	}
	loaded.Vec[0] = 99
	if c.Vec[0] != 1 {
		t.Error("a copy shares its components")
	}
}

// The wire form is a map with small integer keys.
func TestCBOR(t *testing.T) {
	t.Parallel()
	in := coords.Coordinate{Vec: []float64{1, 2, 3, 4}, Height: 5, Error: 0.25}
	raw, err := cbor.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	var keys map[int]any
	if err := cbor.Unmarshal(raw, &keys); err != nil || len(keys) != 3 {
		t.Fatalf("keys %v, %v", keys, err)
	}
	var out coords.Coordinate
	if err := cbor.Unmarshal(raw, &out); err != nil {
		t.Fatal(err)
	}
	if out.Distance(in) != 10 || out.Error != in.Error {
		t.Errorf("got %+v", out)
	}
}
