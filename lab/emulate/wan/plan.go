package wan

import (
	"cmp"
	"math/rand/v2"
	"slices"
)

// Plan assigns places of World to peers and sites.
type Plan struct {
	World *World
	Peers []int // place of each peer, all different
	Sites []int // place of each site, all different
}

// NewPlan distributes peers and sites over the rows of w. As long as there are enough, no
// two peers and no two sites share a row; then rows repeat, each time with another last
// mile. Rows are chosen evenly over the order of w, so that a table ordered by region is
// used all over the world. Equal arguments give equal plans.
func NewPlan(w *World, peers, sites int, seed uint64) Plan {
	rows := append(spread(w.Len(), peers, seed, saltPeers),
		spread(w.Len(), sites, seed, saltSites)...)
	p := Plan{World: w.Select(rows), Peers: make([]int, peers), Sites: make([]int, sites)}
	for i := range p.Peers {
		p.Peers[i] = i
	}
	for i := range p.Sites {
		p.Sites[i] = peers + i
	}
	return p
}

// Edges chooses n places of w for the edges of a content network, evenly over the order of w.
func Edges(w *World, n int, seed uint64, network int) []int {
	return spread(w.Len(), n, mix(seed, uint64(network)), saltEdges)
}

// spread chooses k of the numbers below n in random order: each number equally often,
// and for the remainder one from each of equally long ranges.
func spread(n, k int, seed, salt uint64) []int {
	rng := rand.New(rand.NewPCG(seed, salt))
	var picks []int
	for n > 0 && k-len(picks) >= n {
		picks = append(picks, rng.Perm(n)...)
	}
	rest := k - len(picks)
	tail := make([]int, 0, rest)
	for i := range rest {
		lo, hi := i*n/rest, (i+1)*n/rest
		tail = append(tail, lo+rng.IntN(hi-lo))
	}
	rng.Shuffle(len(tail), func(i, j int) { tail[i], tail[j] = tail[j], tail[i] })
	return append(picks, tail...)
}

// misplacedEvery is the inverse share of sites with numbers that do not follow the tour,
// like addresses that are used far from their neighbours.
const misplacedEvery = 7

// Tour numbers the sites in the order of a tour that always continues to the nearest
// place, and then exchanges some numbers: registries assign neighbouring numbers to one
// region. Equal arguments give equal numbers.
func (p Plan) Tour(seed uint64) []int {
	globe := p.World.Globe()
	var rest []Place // each once, in deterministic order
	for _, place := range p.Sites {
		if q := globe[place]; !slices.Contains(rest, q) {
			rest = append(rest, q)
		}
	}
	rank := make(map[Place]int, len(rest))
	var here Place // starts at longitude and latitude 0
	for len(rest) > 0 {
		next := 0
		for i, q := range rest {
			if here.Distance(q) < here.Distance(rest[next]) {
				next = i
			}
		}
		here = rest[next]
		rank[here] = len(rank)
		rest = slices.Delete(rest, next, next+1)
	}
	order := make([]int, len(p.Sites))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Compare(rank[globe[p.Sites[a]]], rank[globe[p.Sites[b]]])
	})
	rng := rand.New(rand.NewPCG(seed, 0x746f7572))
	for i := misplacedEvery - 1; i < len(order); i += misplacedEvery {
		j := rng.IntN(len(order))
		order[i], order[j] = order[j], order[i]
	}
	number := make([]int, len(order))
	for n, subnet := range order {
		number[subnet] = n
	}
	return number
}
