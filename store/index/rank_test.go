package index

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// web returns a graph in which few hosts have most links, as in the web: host n links to hosts
// before it, mostly to those with many links (Barabási and Albert 1999), and to some others.
func web(seed uint64, hosts int) (links [][]int) {
	rng := rand.New(rand.NewPCG(seed, 1))
	ends := []int{0}
	links = make([][]int, hosts)
	for from := 1; from < hosts; from++ {
		for range 1 + rng.IntN(12) {
			to := ends[rng.IntN(len(ends))]
			if rng.IntN(5) == 0 {
				to = rng.IntN(hosts)
			}
			if to != from && !slices.Contains(links[from], to) {
				links[from] = append(links[from], to)
				ends = append(ends, to)
			}
		}
		ends = append(ends, from)
	}
	return links
}

// source returns the source of a host: numbers are evenly distributed.
func source(host int) Source { return Source(uint32(host+1) * 2654435761) }

func nameOf(host int) string { return fmt.Sprintf("h%d.example", host) }

// rankers returns peers of which each has the pages of some hosts.
func rankers(links [][]int, peers int, owner func(host int) int) []*Ranks {
	all := make([]*Ranks, peers)
	for p := range all {
		g := newGraph()
		for host := range links {
			if owner(host) == p {
				g.hosts[nameOf(host)] = source(host)
			}
		}
		for from, some := range links {
			for _, to := range some {
				if owner(from) == p {
					g.add(source(from), nameOf(to))
				}
			}
		}
		all[p] = &Ranks{}
		all[p].replace(g)
	}
	return all
}

// linking is what a peer answers for a host.
func linking(r *Ranks, links [][]int, owned func(host int) bool, hosts []string) [][]Linker {
	into := map[string][]Source{}
	for from, some := range links {
		for _, to := range some {
			if owned(from) {
				into[nameOf(to)] = append(into[nameOf(to)], source(from))
			}
		}
	}
	all := make([][]Linker, len(hosts))
	for i, h := range hosts {
		all[i] = LeastLinkers(r.Linkers(h, Least(into[h], MaxLinking)), MaxLinking)
	}
	return all
}

// meetAll has each peer meet each other one, rounds times, in a random order.
func meetAll(
	all []*Ranks, links [][]int, owner func(int) int, rounds int, after func(round int),
) {
	rng := rand.New(rand.NewPCG(3, 3))
	for round := range rounds {
		for _, a := range rng.Perm(len(all)) {
			for _, b := range rng.Perm(len(all)) {
				if a != b {
					hosts := all[a].Hosts()
					all[a].Hear(fmt.Sprint(b), hosts, linking(all[b], links,
						func(h int) bool { return owner(h) == b }, hosts))
					all[a].Compute()
				}
			}
		}
		if after != nil {
			after(round + 1)
		}
	}
}

// ranksOf returns the ranks of all hosts, as their peers have them.
func ranksOf(all []*Ranks, links [][]int, owner func(int) int) []float64 {
	out := make([]float64, len(links))
	for host := range links {
		out[host] = float64(all[owner(host)].ranks[source(host)].Rank)
	}
	return out
}

// pageRank returns the PageRank of hosts by power iteration, with a surfer that starts again
// anywhere after a host without links, in units of that of a host without links to it.
func pageRank(links [][]int) []float64 {
	n := float64(len(links))
	p := slices.Repeat([]float64{1 / n}, len(links))
	least := 0.
	for range 300 {
		next, lost := make([]float64, len(p)), 0.
		for from, some := range links {
			if len(some) == 0 {
				lost += p[from]
			}
			for _, to := range some {
				next[to] += damping * p[from] / float64(len(some))
			}
		}
		least = (1-damping)/n + damping*lost/n
		for i := range next {
			next[i] += least
		}
		p = next
	}
	for i := range p {
		p[i] /= least
	}
	return p
}

// spearman returns the rank correlation of two series.
func spearman(a, b []float64) float64 {
	places := func(v []float64) []float64 {
		order := make([]int, len(v))
		for i := range order {
			order[i] = i
		}
		slices.SortFunc(order, func(i, j int) int { return cmp.Compare(v[i], v[j]) })
		at := make([]float64, len(v))
		for i := 0; i < len(order); {
			j := i
			for j < len(order) && v[order[j]] == v[order[i]] {
				j++
			}
			for k := i; k < j; k++ {
				at[order[k]] = float64(i+j-1) / 2
			}
			i = j
		}
		return at
	}
	x, y := places(a), places(b)
	mean := float64(len(a)-1) / 2
	var xy, xx, yy float64
	for i := range x {
		xy += (x[i] - mean) * (y[i] - mean)
		xx += (x[i] - mean) * (x[i] - mean)
		yy += (y[i] - mean) * (y[i] - mean)
	}
	return xy / math.Sqrt(xx*yy)
}

// overlap returns the share of the n greatest that two series have in common.
func overlap(a, b []float64, n int) float64 {
	best := func(v []float64) map[int]bool {
		order := make([]int, len(v))
		for i := range order {
			order[i] = i
		}
		slices.SortFunc(order, func(i, j int) int {
			return cmp.Or(cmp.Compare(v[j], v[i]), cmp.Compare(i, j))
		})
		out := map[int]bool{}
		for _, i := range order[:n] {
			out[i] = true
		}
		return out
	}
	x, common := best(a), 0
	for i := range best(b) {
		if x[i] {
			common++
		}
	}
	return float64(common) / float64(n)
}

// The ranks of one index are PageRank, as far as hosts have at most MaxLinking sources.
func TestRanksOfOneIndex(t *testing.T) {
	t.Parallel()
	links := web(1, 25)
	one := rankers(links, 1, func(int) int { return 0 })
	one[0].Compute()
	got, want := ranksOf(one, links, func(int) int { return 0 }), pageRank(links)
	for i := range got {
		if math.Abs(got[i]-want[i]) > 1e-4*want[i] {
			t.Errorf("host %d has the rank %v, want %v", i, got[i], want[i])
		}
	}
}

// Peers that meet come to the ranks of one index, from below, and near to PageRank, although of a
// host with many links only the least sources are known.
func TestRanksConverge(t *testing.T) {
	t.Parallel()
	links := web(2, 1000)
	owner := func(host int) int { return host * 7919 % 31 % 8 }
	one := rankers(links, 1, func(int) int { return 0 })
	one[0].Compute()
	single, central := ranksOf(one, links, func(int) int { return 0 }), pageRank(links)
	all := rankers(links, 8, owner)
	var before []float64
	meetAll(all, links, owner, 16, func(round int) {
		got := ranksOf(all, links, owner)
		worst := 0.
		for i := range got {
			worst = max(worst, math.Abs(got[i]-single[i])/single[i])
			if got[i] > single[i]*(1+1e-4) || before != nil && got[i] < before[i]*(1-1e-4) {
				t.Fatalf("round %d: host %d has the rank %v, before %v, at last %v", round, i,
					got[i], slices.Concat(before, got)[i], single[i])
			}
		}
		before = got
		t.Logf("round %d: greatest error %.5f; PageRank: Spearman %.4f, first 100 %.0f %%", round,
			worst, spearman(got, central), 100*overlap(got, central, 100))
		if round == 16 && worst > .001 {
			t.Errorf("the greatest error after 16 rounds is %v", worst)
		}
	})
	if s, o := spearman(before, central), overlap(before, central, 100); s < .95 || o < .7 {
		t.Errorf("Spearman's correlation with PageRank is %v, %v of the first 100 are the same",
			s, o)
	}
}

// The factors of all hosts are those of one index, however their pages are distributed, and also
// where several peers have pages of a host.
func TestFactorsOfPeers(t *testing.T) {
	t.Parallel()
	links := web(4, 300)
	owner := func(host int) int { return host % 8 }
	one := rankers(links, 1, func(int) int { return 0 })
	one[0].Compute()
	all := rankers(links, 8, owner)
	meetAll(all, links, owner, 24, nil)
	var hosts []string
	for h := range links {
		hosts = append(hosts, nameOf(h))
	}
	want := linking(one[0], links, func(int) bool { return true }, hosts)
	said := make([][]Linker, len(hosts))
	for p := range all {
		some := linking(all[p], links, func(h int) bool { return owner(h) == p }, hosts)
		few := &Ranks{} // this peer has fetched one page of another's host
		g := newGraph()
		g.add(source(p+8), hosts[0])
		few.replace(g)
		for i := range hosts {
			said[i] = slices.Concat(said[i], some[i])
		}
		said[0] = append(said[0], few.Linkers(hosts[0], []Source{source(p + 8)})...)
	}
	differ := 0
	for i := range hosts {
		if i > 0 && Factor(LeastLinkers(said[i], MaxLinking)) != Factor(want[i]) {
			differ++
		}
	}
	if differ > 0 {
		t.Errorf("%d of %d factors differ from those of one index", differ, len(hosts))
	}
}

// A peer that lies lifts the hosts that it names, but a host that is lifted gives little to others.
func TestLiarIsBounded(t *testing.T) {
	t.Parallel()
	links := web(5, 400)
	owner := func(host int) int { return host % 8 }
	honest := rankers(links, 8, owner)
	meetAll(honest, links, owner, 4, nil)
	want := ranksOf(honest, links, owner)
	all := rankers(links, 8, owner)
	meetAll(all, links, owner, 4, nil)
	victim := 7
	lies := make([]Linker, MaxLinking)
	for i := range lies {
		lies[i] = Linker{Source: Source(i), Out: 1, Rank: MaxRank}
	}
	all[owner(victim)].Hear("liar", []string{nameOf(victim)}, [][]Linker{lies})
	all[owner(victim)].Compute()
	meetAll(all, links, owner, 4, nil)
	for i, rank := range ranksOf(all, links, owner) {
		if i != victim && rank > want[i]+float64(len(links))*maxFlow {
			t.Errorf("host %d has the rank %v by the lie, %v without", i, rank, want[i])
		}
	}
	if got, want := lies[0].flow(), float64(maxFlow); got != want {
		t.Errorf("a source gives %v, want at most %v", got, want)
	}
	if f := Factor(lies); f > 1.25 {
		t.Errorf("the factor is %v", f)
	}
}
