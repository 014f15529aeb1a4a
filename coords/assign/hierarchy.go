package assign

import (
	"cmp"
	"math"
	"slices"
)

// TrainedDistance is the distance of crawlers that HiMicra builds its hierarchy
// from: ddiff, the sum over the training sites of the difference of the two
// crawlers' probing times (Papapetrou 2003, 6.5). probes holds each crawler's
// times in ms, one a site, NaN where there is none; pairs that share no site are
// as far as can be.
func TrainedDistance(probes map[string][]float64) func(a, b Candidate) float64 {
	place := make(map[string]int, len(probes))
	rows := make([][]float64, 0, len(probes))
	for id, row := range probes {
		place[id] = len(rows)
		rows = append(rows, row)
	}
	far := make([]float64, len(rows)*len(rows))
	for i := range rows {
		for j := range i {
			d := meanDifference(rows[i], rows[j])
			far[i*len(rows)+j], far[j*len(rows)+i] = d, d
		}
	}
	return func(a, b Candidate) float64 {
		i, oki := place[a.ID]
		j, okj := place[b.ID]
		if !oki || !okj {
			return math.MaxFloat64
		}
		return far[i*len(rows)+j]
	}
}

// meanDifference orders pairs as the sum does that the thesis takes.
func meanDifference(x, y []float64) float64 {
	sum, shared := 0.0, 0
	for i := range min(len(x), len(y)) {
		if d := math.Abs(x[i] - y[i]); !math.IsNaN(d) && !math.IsInf(d, 0) {
			sum += d
			shared++
		}
	}
	if shared == 0 {
		return math.MaxFloat64
	}
	return sum / float64(shared)
}

// coordinateDistance is the distance that a live network has: the round trip
// between two peers, by their coordinates, bounds how much their times to any
// site differ.
func coordinateDistance(a, b Candidate) float64 { return a.At.Distance(b.At) }

// subsetsMax is how many subsets of crawlers are tried before the search for
// the best children becomes greedy: 64 crawlers in threes are 41,664.
const subsetsMax = 50_000

// cluster is a crawler and those that will be its descendants.
type cluster struct {
	Candidate
	below []Candidate
}

// hierarchy builds HiMicra's tree, a level at a time.
type hierarchy struct {
	branching int
	distance  func(a, b Candidate) float64
}

// children finds the next level among the crawlers around a root: "the subset
// which maximizes the DiffFunction is chosen over all the possible subsets",
// and "each of the undelegated crawlers" is clustered around the child that it
// is nearest to (6.5, steps 3 to 5). root is nil for the coordinator, whose
// distance to anybody is 0. The crawlers must be sorted by name: the first of
// equal ones wins.
func (h hierarchy) children(root *Candidate, crawlers []Candidate) []cluster {
	if len(crawlers) == 0 {
		return nil
	}
	var picked []int
	switch {
	case len(crawlers) <= h.branching:
		for i := range crawlers {
			picked = append(picked, i)
		}
	case subsets(len(crawlers), h.branching) <= subsetsMax:
		picked = h.exhaustive(root, crawlers)
	default:
		picked = h.greedy(root, crawlers)
	}
	out := make([]cluster, len(picked))
	for k, i := range picked {
		out[k].Candidate = crawlers[i]
	}
	for i, c := range crawlers {
		if slices.Contains(picked, i) {
			continue
		}
		near, least := 0, math.Inf(1)
		for k := range out {
			if d := h.distance(c, out[k].Candidate); d < least {
				near, least = k, d
			}
		}
		out[near].below = append(out[near].below, c)
	}
	return out
}

// toRoot is what a crawler adds to the DiffFunction by the root.
func (h hierarchy) toRoot(root *Candidate, c Candidate) float64 {
	if root == nil {
		return 0
	}
	return h.distance(*root, c)
}

// exhaustive tries all subsets, in the order of the crawlers.
func (h hierarchy) exhaustive(root *Candidate, crawlers []Candidate) []int {
	n := len(crawlers)
	far := make([]float64, n*n)
	own := make([]float64, n)
	for i := range n {
		own[i] = h.toRoot(root, crawlers[i])
		for j := range i {
			d := h.distance(crawlers[i], crawlers[j])
			far[i*n+j], far[j*n+i] = d, d
		}
	}
	var best []int
	most := math.Inf(-1)
	set := make([]int, 0, h.branching)
	var extend func(from int, sum float64)
	extend = func(from int, sum float64) {
		if len(set) == h.branching {
			if sum > most {
				best, most = slices.Clone(set), sum
			}
			return
		}
		for i := from; i <= n-(h.branching-len(set)); i++ {
			more := own[i]
			for _, j := range set {
				more += far[i*n+j]
			}
			set = append(set, i)
			extend(i+1, sum+more)
			set = set[:len(set)-1]
		}
	}
	extend(0, 0)
	return best
}

// greedy starts from the crawler that is farthest from the first one and adds
// the one that adds most, each time; with two children this finds the farthest
// pair up to a factor of two.
func (h hierarchy) greedy(root *Candidate, crawlers []Candidate) []int {
	sums := make([]float64, len(crawlers))
	for i, c := range crawlers {
		sums[i] = h.distance(crawlers[0], c)
	}
	picked := []int{farthestOf(sums, nil)}
	for i, c := range crawlers {
		sums[i] = h.toRoot(root, c)
	}
	for len(picked) < h.branching {
		last := crawlers[picked[len(picked)-1]]
		for i, c := range crawlers {
			sums[i] += h.distance(last, c)
		}
		picked = append(picked, farthestOf(sums, picked))
	}
	slices.Sort(picked)
	return picked
}

// farthestOf is the place of the largest sum that is not taken yet.
func farthestOf(sums []float64, taken []int) int {
	at := -1
	for i, x := range sums {
		if !slices.Contains(taken, i) && (at < 0 || x > sums[at]) {
			at = i
		}
	}
	return at
}

// subsets is the number of k-subsets of n, or more than subsetsMax.
func subsets(n, k int) int {
	out := 1
	for i := range min(k, n-k) {
		out = out * (n - i) / (i + 1)
		if out > subsetsMax {
			return subsetsMax + 1
		}
	}
	return out
}

// byTime orders clusters by their probing times, then by name.
func byTime(times map[string]float64) func(a, b cluster) int {
	return func(a, b cluster) int {
		return cmp.Or(cmp.Compare(times[a.ID], times[b.ID]), cmp.Compare(a.ID, b.ID))
	}
}
