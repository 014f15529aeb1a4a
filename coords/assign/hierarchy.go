package assign

import (
	"cmp"
	"math"
	"slices"
)

// TrainedDistance returns the distance of crawlers from which HiMicra builds its
// hierarchy: ddiff, the sum over the training sites of the difference of two crawlers'
// probing times (Papapetrou 2003, 6.5). probes holds each crawler's times in ms, one per
// site, NaN where there is none. Pairs without a common site have the maximum distance.
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

// meanDifference orders pairs in the same way as the sum in the thesis.
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

// coordinateDistance is the distance used in a live network: the round trip between two
// peers, by their coordinates, bounds the difference of their times to any site.
func coordinateDistance(a, b Candidate) float64 { return a.At.Distance(b.At) }

// subsetsMax is the number of subsets of crawlers up to which the search for the best
// children is exhaustive; beyond it is greedy. 64 crawlers have 41,664 subsets of three.
const subsetsMax = 50_000

// cluster is a crawler and its future descendants.
type cluster struct {
	Candidate
	below []Candidate
}

// hierarchy builds HiMicra's tree level by level.
type hierarchy struct{ HiMicraConfig }

// children finds the next level among the crawlers around a root: "the subset which
// maximizes the DiffFunction is chosen over all the possible subsets", and "each of the
// undelegated crawlers" is clustered around its nearest child (6.5, steps 3 to 5). root
// is nil for the coordinator, which has distance 0 to all crawlers. The crawlers must be
// sorted by name: of equal ones the first is selected.
func (h hierarchy) children(root *Candidate, crawlers []Candidate) []cluster {
	if len(crawlers) == 0 {
		return nil
	}
	var picked []int
	switch {
	case len(crawlers) <= h.Branching:
		for i := range crawlers {
			picked = append(picked, i)
		}
	case subsets(len(crawlers), h.Branching) <= subsetsMax:
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
			if d := h.Distance(c, out[k].Candidate); d < least {
				near, least = k, d
			}
		}
		out[near].below = append(out[near].below, c)
	}
	return out
}

// toRoot returns the contribution of the root to the DiffFunction of a crawler.
func (h hierarchy) toRoot(root *Candidate, c Candidate) float64 {
	if root == nil {
		return 0
	}
	return h.Distance(*root, c)
}

// exhaustive tries all subsets in the order of the crawlers.
func (h hierarchy) exhaustive(root *Candidate, crawlers []Candidate) []int {
	n := len(crawlers)
	far := make([]float64, n*n)
	own := make([]float64, n)
	for i := range n {
		own[i] = h.toRoot(root, crawlers[i])
		for j := range i {
			d := h.Distance(crawlers[i], crawlers[j])
			far[i*n+j], far[j*n+i] = d, d
		}
	}
	var best []int
	most := math.Inf(-1)
	set := make([]int, 0, h.Branching)
	var extend func(from int, sum float64)
	extend = func(from int, sum float64) {
		if len(set) == h.Branching {
			if sum > most {
				best, most = slices.Clone(set), sum
			}
			return
		}
		for i := from; i <= n-(h.Branching-len(set)); i++ {
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

// greedy starts with the crawler farthest from the first one and repeatedly adds the one
// with the largest sum. With two children it finds the farthest pair up to a factor of
// two.
func (h hierarchy) greedy(root *Candidate, crawlers []Candidate) []int {
	sums := make([]float64, len(crawlers))
	for i, c := range crawlers {
		sums[i] = h.Distance(crawlers[0], c)
	}
	picked := []int{farthestOf(sums, nil)}
	for i, c := range crawlers {
		sums[i] = h.toRoot(root, c)
	}
	for len(picked) < h.Branching {
		last := crawlers[picked[len(picked)-1]]
		for i, c := range crawlers {
			sums[i] += h.Distance(last, c)
		}
		picked = append(picked, farthestOf(sums, picked))
	}
	slices.Sort(picked)
	return picked
}

// farthestOf returns the index of the largest sum that is not taken yet.
func farthestOf(sums []float64, taken []int) int {
	at := -1
	for i, x := range sums {
		if !slices.Contains(taken, i) && (at < 0 || x > sums[at]) {
			at = i
		}
	}
	return at
}

// subsets returns the number of k-subsets of n, or subsetsMax + 1 if there are more.
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
