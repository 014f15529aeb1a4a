package wan

import (
	"cmp"
	"math/rand/v2"
	"slices"
)

// Plan says where everybody stands: places of its World by number.
type Plan struct {
	World *World
	Peers []int // place of each peer; no two the same number
	Sites []int // place of each site; no two the same number
}

// NewPlan spreads peers and sites over the rows of w: as long as there are
// enough, no two peers share a row and no two sites do; after that rows repeat,
// with last miles of their own. Rows are taken evenly over the whole of w's
// order, so that a table ordered by region is used all over the world. Equal
// arguments give equal plans.
func NewPlan(w *World, peers, sites int, seed uint64) Plan {
	rows := append(spread(w.Len(), peers, seed, saltPeers), spread(w.Len(), sites, seed, saltSites)...)
	p := Plan{World: w.Select(rows), Peers: make([]int, peers), Sites: make([]int, sites)}
	for i := range p.Peers {
		p.Peers[i] = i
	}
	for i := range p.Sites {
		p.Sites[i] = peers + i
	}
	return p
}

// spread picks k of the numbers below n: each number equally often as far as
// that goes, one from each of equally long stretches for what remains, in an
// order of no meaning.
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

// stray is one in how many of the sites is out of its place: the share of
// addresses that stand elsewhere than their neighbours.
const stray = 7

// Tour numbers the sites in the order in which somebody comes by their places
// who always goes on to the nearest, and then exchanges some: as registries give
// neighbouring numbers to one region. Equal arguments give equal numbers.
func (p Plan) Tour(seed uint64) []int {
	globe := p.World.Globe()
	var rest []Place // each once, in an order of no chance
	for _, place := range p.Sites {
		if q := globe[place]; !slices.Contains(rest, q) {
			rest = append(rest, q)
		}
	}
	rank := make(map[Place]int, len(rest))
	var here Place // it begins where longitude and latitude are 0
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
	for i := stray - 1; i < len(order); i += stray {
		j := rng.IntN(len(order))
		order[i], order[j] = order[j], order[i]
	}
	number := make([]int, len(order))
	for n, subnet := range order {
		number[subnet] = n
	}
	return number
}
