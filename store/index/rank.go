package index

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
)

// Linker is a source that links to a host. Out is the number of hosts to which it links, apart from
// its own, and Rank is its rank; 0 if they are not known.
type Linker struct {
	_      struct{} `cbor:",toarray"`
	Source Source
	Out    uint32
	Rank   float32
}

// Limits of ranks.
const (
	damping = .85 // that of PageRank
	// MaxRank and maxFlow bound what is believed of a rank, and of what a source gives to a host.
	MaxRank = 1 << 20
	maxFlow = 16
	// maxHeard is the number of sources that are remembered of what other peers said.
	maxHeard = 1 << 20
	// maxRead is the number of links that are read of an index.
	maxRead  = 1 << 21
	maxTurns = 200 // of a computation
)

// flow is what a source gives to each host to which it links.
func (l Linker) flow() float64 {
	if l.Out == 0 {
		return 0
	}
	return min(float64(l.Rank)/float64(l.Out), maxFlow)
}

// LeastLinkers sorts what one or several peers said of links to a host, and returns the first n
// sources without repetitions. Of a source, it believes who knows the most links of it.
func LeastLinkers(all []Linker, n int) []Linker {
	slices.SortFunc(all, func(a, b Linker) int { // of a source, the one of which the most is known
		return cmp.Or(cmp.Compare(a.Source, b.Source), cmp.Compare(b.Out, a.Out),
			cmp.Compare(b.Rank, a.Rank))
	})
	kept := all[:0]
	for _, l := range all {
		if len(kept) < n && (len(kept) == 0 || kept[len(kept)-1].Source != l.Source) {
			kept = append(kept, l)
		}
	}
	return kept
}

// Ranks are the ranks of the sources of which this peer has pages, a decentralised PageRank in the
// manner of JXP (Parreira et al., "Efficient and decentralized PageRank approximation in a
// peer-to-peer web search network", 2006). A source has the rank
//
//	1 + damping · (the sum, over links of other sources to its hosts, of rank / Out)
//
// which is PageRank in units of that of a source without links to it, where a random surfer that
// finds no link starts again anywhere. It needs the links between sources here, and what other
// peers say of the links of their sources to the hosts here. The ranks begin at 1; when each peer
// asks all others again and again, they converge from below to those of one index. The methods are
// safe for concurrent use.
type Ranks struct {
	mu    sync.Mutex
	hosts map[string]Source  // of which there are pages here
	ranks map[Source]*Linker // of the sources here
	into  map[string][]Source
	heard map[string]map[string][]Linker // what peers said of hosts here, by host and peer
	count int                            // the sources in heard
}

// Read takes over which links are in some indexes. The ranks remain.
func (r *Ranks) Read(indexes ...*Reader) error {
	g := newGraph()
	for _, x := range indexes {
		if err := g.read(x); err != nil {
			return err
		}
	}
	r.replace(g)
	return nil
}

// Ranks returns the ranks of the sources of an index by itself.
func (x *Index) Ranks() (*Ranks, error) {
	view, err := x.Reader()
	if err != nil {
		return nil, err
	}
	defer view.Close()
	r := &Ranks{}
	if err := r.Read(view); err != nil {
		return nil, fmt.Errorf("read links of index %s: %w", x.dir, err)
	}
	r.Compute()
	return r, nil
}

// graph is the graph of links in an index: the sources by host of its pages, the hosts to which
// each source links, and the sources that link to each host.
type graph struct {
	hosts map[string]Source
	out   map[Source]uint32
	into  map[string][]Source // ascending
	links int
}

func newGraph() *graph {
	return &graph{map[string]Source{}, map[Source]uint32{}, map[string][]Source{}, 0}
}

// read adds an index.
func (g *graph) read(x *Reader) error {
	d, err := x.r.FieldDict(fieldLinked)
	if err != nil {
		return err
	}
	defer d.Close()
	for {
		e, err := d.Next()
		if err != nil || e == nil {
			return err
		}
		own := strings.TrimPrefix(e.Term, "\x00")
		host, rest, ok := strings.Cut(own, "\x00")
		switch {
		case !ok || len(rest) != 4:
		case own != e.Term:
			g.hosts[host] = max(g.hosts[host], sourceIn(rest)) // whatever the order of indexes
		default:
			g.add(sourceIn(rest), host)
		}
	}
}

func (g *graph) add(s Source, host string) {
	at, known := slices.BinarySearch(g.into[host], s)
	if known || g.links == maxRead {
		return
	}
	g.links++
	g.out[s]++
	g.into[host] = slices.Insert(g.into[host], at, s)
}

// replace takes over a graph, without the links of sources to their own hosts.
func (r *Ranks) replace(g *graph) {
	for host, own := range g.hosts {
		if at, ok := slices.BinarySearch(g.into[host], own); ok {
			g.into[host] = slices.Delete(g.into[host], at, at+1)
			g.out[own]--
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	ranks := make(map[Source]*Linker, len(g.out))
	know := func(s Source) {
		l := &Linker{Source: s, Out: g.out[s], Rank: 1}
		if old := r.ranks[s]; old != nil {
			l.Rank = old.Rank
		}
		ranks[s] = l
	}
	for s := range g.out {
		know(s)
	}
	for _, s := range g.hosts {
		know(s)
	}
	foreign := func(host string) bool { _, here := g.hosts[host]; return !here }
	maps.DeleteFunc(g.into, func(host string, _ []Source) bool { return foreign(host) })
	maps.DeleteFunc(r.heard, func(host string, _ map[string][]Linker) bool { return foreign(host) })
	r.hosts, r.ranks, r.into = g.hosts, ranks, g.into
}

// Hosts returns the hosts of which there are pages here, sorted.
func (r *Ranks) Hosts() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Sorted(maps.Keys(r.hosts))
}

// Linkers returns sources that link to a host, with what is known of them. Links of a source to its
// own hosts give nothing. r may be nil: nothing is known.
func (r *Ranks) Linkers(host string, sources []Source) []Linker {
	all := make([]Linker, len(sources))
	for i, s := range sources {
		all[i].Source = s
	}
	if r == nil {
		return all
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range all {
		if l := r.ranks[all[i].Source]; l != nil {
			all[i] = *l
		}
		if own, ok := r.hosts[host]; ok && own == all[i].Source {
			all[i].Rank = 0
		}
	}
	return all
}

// Hear takes over what a peer said of the links of its sources to some hosts, and forgets what it
// said of them before.
func (r *Ranks) Hear(peer string, hosts []string, said [][]Linker) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.heard == nil {
		r.heard = map[string]map[string][]Linker{}
	}
	for i, host := range hosts {
		of := r.heard[host]
		r.count += len(said[i]) - len(of[peer])
		switch _, known := r.hosts[host]; {
		case known && len(said[i]) > 0 && r.count <= maxHeard:
			if of == nil {
				of = map[string][]Linker{}
				r.heard[host] = of
			}
			of[peer] = said[i]
		default:
			r.count -= len(said[i])
			delete(of, peer)
		}
	}
}

// Forget forgets what peers said that are not among some.
func (r *Ranks) Forget(keep func(peer string) bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.count = 0
	for _, of := range r.heard {
		maps.DeleteFunc(of, func(p string, _ []Linker) bool { return !keep(p) })
		for _, said := range of {
			r.count += len(said)
		}
	}
}

// Compute computes the ranks again, and returns by how much one of them changed at most, as a share
// of it.
func (r *Ranks) Compute() (change float64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	linkers := make(map[string][]Linker, len(r.hosts))
	for host, own := range r.hosts {
		var all []Linker
		for _, s := range r.into[host] {
			all = append(all, *r.ranks[s])
		}
		for _, said := range r.heard[host] {
			for _, l := range said {
				if l.Source != own { // which gives itself nothing
					all = append(all, l)
				}
			}
		}
		linkers[host] = LeastLinkers(all, MaxLinking)
	}
	hosts := slices.Sorted(maps.Keys(r.hosts)) // sums depend on the order
	before := make(map[Source]float32, len(r.ranks))
	for s, l := range r.ranks {
		before[s] = l.Rank
	}
	for range maxTurns {
		next := make(map[Source]float64, len(r.ranks))
		for _, host := range hosts {
			all := linkers[host]
			for i, l := range all {
				if here := r.ranks[l.Source]; here != nil && here.Out >= l.Out {
					all[i] = *here
				}
			}
			next[r.hosts[host]] += inflow(all)
		}
		moved := 0.
		for s, l := range r.ranks {
			rank := float32(min(1+damping*next[s], MaxRank))
			moved = max(moved, math.Abs(float64(rank-l.Rank))/float64(rank))
			l.Rank = rank
		}
		if moved < 1e-6 {
			break
		}
	}
	for s, l := range r.ranks {
		change = max(change, math.Abs(float64(l.Rank-before[s]))/float64(l.Rank))
	}
	return change
}

// inflow returns the sum of what the sources that link to a host give to it, by the least of them.
func inflow(linking []Linker) (sum float64) {
	for _, l := range linking {
		sum += l.flow()
	}
	return sum * number(linking) / max(float64(len(linking)), 1)
}

// number returns the number of sources that link to a host, by the least of them. If there are
// MaxLinking, the number of all is estimated from the greatest (Bar-Yossef et al., "Counting
// distinct elements in a data stream", 2002).
func number(linking []Linker) float64 {
	n := float64(len(linking))
	if len(linking) >= MaxLinking {
		n = max(n, (n-1)*math.MaxUint32/max(float64(linking[len(linking)-1].Source), 1))
	}
	return n
}

// The number of sources that link to a host influences the scores of its pages, and where ranks are
// known, by half, what these give to it: each by its logarithm, up to many.
const (
	linkingWeight = .25
	many          = 10_000
	// rankSteps is the number of steps in which what sources give doubles. Peers of which the
	// ranks have not yet converged exactly give the same factors so.
	rankSteps = 4
)

// Factor returns by how much the scores of the pages of a host are multiplied, by the least of the
// sources of links to it; at most 1 + linkingWeight.
func Factor(linking []Linker) float64 {
	share := func(log float64) float64 { return min(log/math.Log1p(many), 1) }
	weight := share(math.Log1p(number(linking)))
	if slices.ContainsFunc(linking, func(l Linker) bool { return l.Out > 0 }) {
		given := math.Round(rankSteps*math.Log2(1+inflow(linking))) / rankSteps * math.Ln2
		weight = (weight + share(given)) / 2
	}
	return 1 + linkingWeight*weight
}
