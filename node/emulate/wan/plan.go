package wan

import "math/rand/v2"

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
