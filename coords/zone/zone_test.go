package zone

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"peerd/coords"
	_ "peerd/internal/rapidtest"
)

func at(height float64, vec ...float64) coords.Coordinate {
	return coords.Coordinate{Vec: vec, Height: height, Error: 0.1}
}

func TestOf(t *testing.T) {
	home := at(5, 10, 10)
	for _, c := range []struct {
		to   coords.Coordinate
		want Zone
	}{
		{at(0, 10, 10), Zone{0, 0}},
		{at(900, 11, 10), Zone{0, 0}}, // heights have no direction
		{at(0, 12, 10), Zone{0, 0}},   // on the border
		{at(0, 12.1, 10), Zone{1, 0}},
		{at(0, 10, 13), Zone{1, 2}},
		{at(0, 10, 7), Zone{1, 3}},
		{at(0, 2, 11), Zone{3, 1}},
		{at(0, -60000, 11), Zone{7, 1}}, // the last ring has no end
	} {
		if got := Of(home, c.to, 2, 8); got != c.want {
			t.Errorf("Of(%v) = %v, want %v", c.to, got, c.want)
		}
	}
}

// swarm returns n peers in clusters, as in the real world.
func swarm(n, dims int, rng *rand.Rand) []Peer {
	var all []Peer
	for i := range n {
		clump := rand.New(rand.NewPCG(uint64(i%12), 7))
		vec := make([]float64, dims)
		for d := range vec {
			vec[d] = clump.NormFloat64()*60 + rng.NormFloat64()*4
		}
		all = append(all, Peer{ID: fmt.Sprint("p", i), At: at(rng.ExpFloat64()*3, vec...)})
	}
	return all
}

func TestKeepProperties(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 1))
		all := swarm(rapid.IntRange(0, 150).Draw(rt, "n"), 3, rng)
		size := rapid.IntRange(0, 80).Draw(rt, "size")
		salt := rng.Uint64()
		cfg := DefaultConfig()
		self := at(1, 0, 0, 0)
		kept := Keep(self, all, size, cfg, salt)
		if len(kept) != min(size, len(all)) {
			rt.Fatalf("Keep kept %d of %d peers, want %d", len(kept), len(all), min(size, len(all)))
		}
		if !slices.IsSorted(kept) || len(slices.Compact(slices.Clone(kept))) != len(kept) {
			rt.Fatalf("Keep() = %v, want ascending indices", kept)
		}
		// The nearest peers are in the table.
		byDistance := slices.Clone(all)
		slices.SortFunc(byDistance, func(a, b Peer) int {
			return cmp.Compare(self.Distance(a.At), self.Distance(b.At))
		})
		in := map[string]bool{}
		for _, i := range kept {
			in[all[i].ID] = true
		}
		for _, p := range byDistance[:min(len(all), size/2)] {
			if !in[p.ID] {
				rt.Fatalf("Keep dropped %s, want the nearest kept", p.ID)
			}
		}
		// Keep is idempotent.
		var again []Peer
		for _, i := range kept {
			again = append(again, all[i])
		}
		if len(Keep(self, again, size, cfg, salt)) != len(again) {
			rt.Fatalf("Keep dropped peers of a table of %d that fits", len(again))
		}
	})
}

func TestKeepFillsZones(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	all := swarm(2000, 3, rng)
	cfg := DefaultConfig()
	self := at(1, 0, 0, 0)
	have := map[Zone]bool{}
	for _, p := range all {
		have[Of(self, p.At, cfg.InnerRadius, cfg.Rings)] = true
	}
	kept := map[Zone]bool{}
	for _, i := range Keep(self, all, 128, cfg, 3) {
		kept[Of(self, all[i].At, cfg.InnerRadius, cfg.Rings)] = true
	}
	if len(have) > 32 || len(kept) != len(have) {
		t.Errorf("Keep kept peers of %d zones, want %d", len(kept), len(have))
	}
}

// The random part does not depend on what else is offered, so that no peer gets in by
// sending more.
func TestKeepRandomIsStable(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	all := swarm(600, 3, rng)
	cfg := Config{Rings: 1, InnerRadius: 1}
	first := Keep(at(1, 0, 0, 0), all, 32, cfg, 9)
	var few []Peer
	for i, p := range all {
		if slices.Contains(first, i) || i%3 == 0 {
			few = append(few, p)
		}
	}
	second := Keep(at(1, 0, 0, 0), few, 32, cfg, 9)
	for i, j := range second {
		if few[j].ID != all[first[i]].ID {
			t.Fatalf("Keep selected %s, want %s", few[j].ID, all[first[i]].ID)
		}
	}
	if slices.Equal(first, Keep(at(1, 0, 0, 0), all, 32, cfg, 10)) {
		t.Error("Keep selected the same peers with another salt")
	}
}

func TestSelectOffers(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var all []Offer
	for i, p := range swarm(300, 3, rng) {
		all = append(all, Offer{Peer: p, Older: i >= 290})
	}
	to := Recipient{At: all[17].At}
	told := SelectOffers(to, all, 26, rng)
	if len(told) != 26 || len(slices.Compact(slices.Sorted(slices.Values(told)))) != 26 {
		t.Fatalf("SelectOffers() = %v", told)
	}
	for i := range 10 {
		if !slices.Contains(told[:10], 290+i) {
			t.Errorf("SelectOffers() lacks the update of %d", 290+i)
		}
	}
	far := 0.0
	for _, i := range told[10:18] {
		far = max(far, to.At.Distance(all[i].At))
	}
	for i, o := range all[:290] {
		if !slices.Contains(told[10:18], i) && to.At.Distance(o.At) < far {
			t.Fatalf("SelectOffers() lacks %d, which is nearer than a selected one", i)
		}
	}
	if n := len(SelectOffers(to, all[:5], 16, rng)); n != 5 {
		t.Errorf("SelectOffers returned %d of 5 offers, want all", n)
	}
	if n := len(SelectOffers(to, all[290:], 4, rng)); n != 4 {
		t.Errorf("SelectOffers returned %d updates, want 4", n)
	}
	to.Reach = to.At.Distance(all[17].At) + 1e-9 // no place for others
	if told := SelectOffers(to, all[:290], 24, rng); len(told) != 2 || told[0] != 17 {
		t.Errorf("SelectOffers(full table) = %v, want the near one and one random", told)
	}
}

func TestReach(t *testing.T) {
	known := []Peer{{"c", at(0, 30)}, {"a", at(0, 1)}, {"b", at(0, 2)}, {"d", at(0, 40)}}
	cfg := DefaultConfig()
	if r := Reach(at(1, 0), known, 4, cfg); r != 3 {
		t.Errorf("Reach = %v, want 3", r)
	}
	if r := Reach(at(1, 0), known, 5, cfg); r != 0 {
		t.Errorf("Reach(table not full) = %v, want 0", r)
	}
}

// lookup runs a search over tables and returns it and the number of peers asked.
func lookup(
	t interface{ Fatal(...any) }, all []Peer, tables [][]int, cost func(Peer) float64,
	target coords.Coordinate, start int, k int, cfg SearchConfig,
) (*Search, int) {
	s, err := NewSearch(target, cfg)
	if err != nil {
		t.Fatal(err)
	}
	index := map[string]int{}
	for i, p := range all {
		index[p.ID] = i
	}
	add := func(of int) {
		answer := slices.Clone(tables[of])
		slices.SortFunc(answer, func(a, b int) int {
			return cmp.Compare(cost(all[a]), cost(all[b]))
		})
		for _, i := range answer[:min(len(answer), k)] {
			s.Add(Found{all[i], cost(all[i])})
		}
	}
	s.Add(Found{all[start], cost(all[start])})
	s.MarkAsked(all[start].ID)
	add(start)
	asked := 0
	for next := s.Next(); len(next) > 0; next = s.Next() {
		for _, p := range next {
			asked++
			add(index[p.ID])
		}
	}
	return s, asked
}

// Whatever the tables contain, the search ends in time, asks no peer twice, and is never
// worse than its start.
func TestSearchProperties(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 1))
		n := rapid.IntRange(1, 120).Draw(rt, "n")
		all := swarm(n, 3, rng)
		tables := make([][]int, n)
		for i := range tables {
			for range rapid.IntRange(0, 12).Draw(rt, "size") {
				tables[i] = append(tables[i], rng.IntN(n))
			}
		}
		cfg := SearchConfig{Hops: rapid.IntRange(1, 10).Draw(rt, "hops"),
			Width: rapid.IntRange(1, 3).Draw(rt, "width"), Known: 16}
		target := all[rng.IntN(n)].At
		cost := func(p Peer) float64 { return target.Distance(p.At) }
		start := rng.IntN(n)
		s, asked := lookup(rt, all, tables, cost, target, start, 5, cfg)
		if s.Hops() > cfg.Hops || asked > cfg.Hops*cfg.Width {
			rt.Fatalf("search took %d hops and asked %d peers, want at most %d and %d", s.Hops(),
				asked, cfg.Hops, cfg.Hops*cfg.Width)
		}
		best := s.Best(3)
		if len(best) == 0 || best[0].Cost > cost(all[start]) {
			rt.Fatalf("Best() = %v, want at most the cost of the start, %v", best, cost(all[start]))
		}
		if !slices.IsSortedFunc(best, func(a, b Found) int { return cmp.Compare(a.Cost, b.Cost) }) {
			rt.Fatalf("Best() = %v, want it sorted by cost", best)
		}
	})
}

// With full tables the first answer is the best.
func TestSearchFullTables(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 1))
		n := rapid.IntRange(1, 60).Draw(rt, "n")
		all := swarm(n, 3, rng)
		tables := make([][]int, n)
		for i := range tables {
			tables[i] = rng.Perm(n)
		}
		target := at(2, rng.NormFloat64()*60, rng.NormFloat64()*60, rng.NormFloat64()*60)
		cost := func(p Peer) float64 { return target.Distance(p.At) }
		s, _ := lookup(rt, all, tables, cost, target, rng.IntN(n), 4, DefaultSearchConfig())
		least := math.Inf(1)
		for _, p := range all {
			least = min(least, cost(p))
		}
		if got := s.Best(1)[0].Cost; got != least {
			rt.Fatalf("search found cost %v, want %v", got, least)
		}
	})
}

// With tables made by Keep, each with a small part of the network, nearly every search
// finds the best.
func TestSearchBoundedTables(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 2))
	const n, size = 1000, 64
	all := swarm(n, 4, rng)
	tables := make([][]int, n)
	for i := range tables {
		tables[i] = Keep(all[i].At, all, size, DefaultConfig(), rng.Uint64())
	}
	found, hops := 0, 0
	const queries = 200
	for range queries {
		target := all[rng.IntN(n)].At.Clone()
		target.Vec[0] += rng.NormFloat64() * 10
		cost := func(p Peer) float64 { return target.Distance(p.At) }
		s, _ := lookup(t, all, tables, cost, target, rng.IntN(n), 8, DefaultSearchConfig())
		least := math.Inf(1)
		for _, p := range all {
			least = min(least, cost(p))
		}
		if s.Best(1)[0].Cost <= least*1.001 {
			found++
		}
		hops = max(hops, s.Hops())
	}
	t.Logf("%d of %d searches found the best of %d peers, tables of %d, at most %d hops", found,
		queries, n, size, hops)
	if found < queries*9/10 {
		t.Errorf("%d of %d searches found the best, want nearly all", found, queries)
	}
}

func TestAnswer(t *testing.T) {
	known := []Found{
		{Peer{"far", at(0, 50)}, 10}, {Peer{"busy", at(0, 1)}, 900}, {Peer{"good", at(0, 2)}, 5},
		{Peer{"both", at(0, 3)}, 20},
	}
	for k, want := range map[int][]int{0: {}, 1: {2}, 2: {2, 1}, 3: {2, 1, 0}, 4: {2, 1, 0, 3},
		9: {2, 1, 0, 3}} {
		if got := Answer(at(0, 0), known, k); !slices.Equal(got, want) {
			t.Errorf("Answer(%d) = %v, want %v", k, got, want)
		}
	}
}

func TestSearchGone(t *testing.T) {
	s, err := NewSearch(at(0, 0), SearchConfig{Hops: 4, Width: 1, Known: 4})
	if err != nil {
		t.Fatal(err)
	}
	s.Add(Found{Peer{"near", at(0, 1)}, 1})
	s.Add(Found{Peer{"far", at(0, 9)}, 9})
	if next := s.Next(); len(next) != 1 || next[0].ID != "near" {
		t.Fatalf("first Next() = %v, want near", next)
	}
	s.MarkFailed("near")
	s.Add(Found{Peer{"near", at(0, 1)}, 1}) // another peer still reports it
	if next := s.Next(); len(next) != 1 || next[0].ID != "far" {
		t.Fatalf("second Next() = %v, want far", next)
	}
	if s.Next() != nil || s.Hops() != 2 {
		t.Errorf("Next() continues after all were asked; %d hops, want 2", s.Hops())
	}
	if best := s.Best(5); len(best) != 1 || best[0].ID != "far" {
		t.Errorf("Best() = %v, want far", best)
	}
}

func TestValidate(t *testing.T) {
	if err := DefaultSearchConfig().Validate(); err != nil {
		t.Error(err)
	}
	for _, c := range []SearchConfig{{}, {Hops: 1}, {Hops: 1, Width: 2, Known: 1}} {
		if _, err := NewSearch(at(0, 0), c); err == nil {
			t.Errorf("Validate(%+v) = nil, want an error", c)
		}
	}
}
