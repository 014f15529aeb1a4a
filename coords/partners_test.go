package coords_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"peerd/coords"
)

func knownPeers(n int) []coords.Known {
	known := make([]coords.Known, n)
	for i := range known {
		known[i] = coords.Known{ID: fmt.Sprint("p", i), Distance: float64((i*37)%n + 1)}
	}
	return known
}

func TestPartnersAreHalfNearHalfRandom(t *testing.T) {
	known := knownPeers(100)
	p := coords.ChoosePartners(known, 16, 1)
	if len(p.Near) != 8 || len(p.Random) != 8 {
		t.Fatalf("%d near and %d random", len(p.Near), len(p.Random))
	}
	far := map[string]float64{}
	for _, k := range known {
		far[k.ID] = k.Distance
	}
	for i, id := range p.Near {
		if far[id] != float64(i+1) {
			t.Errorf("near %d is %s at %v", i, id, far[id])
		}
	}
	// The order in which peers are known does not matter.
	slices.Reverse(known)
	if q := coords.ChoosePartners(known, 16, 1); fmt.Sprint(q) != fmt.Sprint(p) {
		t.Errorf("%v\n%v", p, q)
	}
	// Another salt picks others, and all of them get their turn.
	picked := map[string]bool{}
	for salt := range uint64(200) {
		for _, id := range coords.ChoosePartners(known, 16, salt).Random {
			picked[id] = true
		}
	}
	if len(picked) != 92 {
		t.Errorf("200 salts picked %d of 92", len(picked))
	}
	// Both halves are asked alike.
	rng, near := rand.New(rand.NewPCG(1, 1)), 0
	for range 1000 {
		if slices.Contains(p.Near, p.Partner(rng)) {
			near++
		}
	}
	if near < 450 || near > 550 {
		t.Errorf("%d of 1000 near", near)
	}
}

// One that leaves takes nobody along from the random half.
func TestRandomPartnersStay(t *testing.T) {
	known := knownPeers(100)
	p := coords.ChoosePartners(known, 16, 7)
	gone := p.Random[3]
	q := coords.ChoosePartners(slices.DeleteFunc(known, func(k coords.Known) bool { return k.ID == gone }), 16, 7)
	for _, id := range p.Random {
		if id != gone && !slices.Contains(q.Random, id) {
			t.Errorf("%s went too", id)
		}
	}
}

func TestPartnersOfFew(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	if got := coords.ChoosePartners(nil, 8, 1).Partner(rng); got != "" {
		t.Errorf("of none: %q", got)
	}
	p := coords.ChoosePartners([]coords.Known{{"a", 1}, {"b", math.NaN()}, {"a", 2}, {"", 1}, {"c", -1}}, 8, 1)
	if all := p.All(); len(all) != 3 || p.Len() != 3 || len(p.Near) != 1 || p.Near[0] != "a" {
		t.Errorf("%+v", p)
	}
}

func TestPartnersProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		known := rapid.SliceOf(rapid.Custom(func(t *rapid.T) coords.Known {
			return coords.Known{ID: rapid.StringMatching(`[a-e]{0,2}`).Draw(t, "id"), Distance: rapid.Float64().Draw(t, "far")}
		})).Draw(t, "known")
		size := rapid.IntRange(-1, 20).Draw(t, "size")
		p := coords.ChoosePartners(known, size, rapid.Uint64().Draw(t, "salt"))
		names := map[string]bool{}
		for _, k := range known {
			if k.ID != "" {
				names[k.ID] = true
			}
		}
		all := p.All()
		if len(all) != min(max(size, 0), len(names)) {
			t.Fatalf("%d of %d, asked for %d", len(all), len(names), size)
		}
		for _, id := range all {
			if !names[id] {
				t.Fatalf("%q twice or unknown", id)
			}
			delete(names, id)
		}
	})
}
