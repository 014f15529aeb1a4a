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

func knownPeers(n int) []coords.KnownPeer {
	known := make([]coords.KnownPeer, n)
	for i := range known {
		known[i] = coords.KnownPeer{ID: fmt.Sprint("p", i), Distance: float64((i*37)%n + 1)}
	}
	return known
}

func TestPartnersAreHalfNearHalfRandom(t *testing.T) {
	t.Parallel()
	known := knownPeers(100)
	p := coords.ChoosePartners(known, 16, 1)
	if len(p.Near) != 8 || len(p.Random) != 8 {
		t.Fatalf("ChoosePartners() = %d near and %d random, want 8 and 8", len(p.Near),
			len(p.Random))
	}
	far := map[string]float64{}
	for _, k := range known {
		far[k.ID] = k.Distance
	}
	for i, id := range p.Near {
		if far[id] != float64(i+1) {
			t.Errorf("Near[%d] = %s at %v, want the one at %d", i, id, far[id], i+1)
		}
	}
	// The order in which peers are known does not matter.
	slices.Reverse(known)
	if q := coords.ChoosePartners(known, 16, 1); fmt.Sprint(q) != fmt.Sprint(p) {
		t.Errorf("ChoosePartners(reversed) = %v, want %v", q, p)
	}
	// Another salt selects others, and all of them at some time.
	picked := map[string]bool{}
	for salt := range uint64(200) {
		for _, id := range coords.ChoosePartners(known, 16, salt).Random {
			picked[id] = true
		}
	}
	if len(picked) != 92 {
		t.Errorf("200 salts selected %d peers, want all 92", len(picked))
	}
	// Both halves are asked equally often.
	rng, near := rand.New(rand.NewPCG(1, 1)), 0
	for range 1000 {
		if slices.Contains(p.Near, p.Partner(rng)) {
			near++
		}
	}
	if near < 450 || near > 550 {
		t.Errorf("Partner() returned a near one %d times in 1000, want about 500", near)
	}
}

// A peer that leaves does not change the rest of the random half.
func TestRandomPartnersStay(t *testing.T) {
	t.Parallel()
	known := knownPeers(100)
	p := coords.ChoosePartners(known, 16, 7)
	gone := p.Random[3]
	q := coords.ChoosePartners(slices.DeleteFunc(known, func(k coords.KnownPeer) bool {
		return k.ID == gone
	}), 16, 7)
	for _, id := range p.Random {
		if id != gone && !slices.Contains(q.Random, id) {
			t.Errorf("%s was dropped, want only %s dropped", id, gone)
		}
	}
}

func TestPartnersOfFew(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 1))
	if got := coords.ChoosePartners(nil, 8, 1).Partner(rng); got != "" {
		t.Errorf("Partner() of no partners = %q, want none", got)
	}
	p := coords.ChoosePartners([]coords.KnownPeer{{"a", 1}, {"b", math.NaN()}, {"a", 2}, {"", 1},
		{"c", -1}}, 8, 1)
	if all := p.All(); len(all) != 3 || p.Len() != 3 || len(p.Near) != 1 || p.Near[0] != "a" {
		t.Errorf("ChoosePartners() = %+v, want three with a near", p)
	}
}

func TestPartnersProperties(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		known := rapid.SliceOf(rapid.Custom(func(t *rapid.T) coords.KnownPeer {
			return coords.KnownPeer{ID: rapid.StringMatching(`[a-e]{0,2}`).Draw(t, "id"),
				Distance: rapid.Float64().Draw(t, "far")}
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
			t.Fatalf("ChoosePartners(%d) returned %d of %d peers", size, len(all), len(names))
		}
		for _, id := range all {
			if !names[id] {
				t.Fatalf("ChoosePartners() returned %q twice, or it is not known", id)
			}
			delete(names, id)
		}
	})
}
