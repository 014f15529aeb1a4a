package emulate

import (
	"math/rand/v2"
	"net/netip"

	"peerd/lab/emulate/wan"
)

// The limits of content networks.
const (
	MaxContentNetworks = 64
	// maxEdges bounds the edges of a network, so that each has a /24 of its own.
	maxEdges = 64
)

// A ContentNetwork serves sites from edges all over the world. Its name servers answer each
// peer with the edge that is nearest to it.
type ContentNetwork struct{ Edges []Edge }

// An Edge is an address of a content network. It has a /24 of its own.
type Edge struct {
	Addr  netip.Addr
	Place int
}

// WithContentNetworks returns l with the share (0 to 1) of its sites, rounded, behind n content
// networks. w is the world from which l was made. Each network has an edge in every second place of
// w, at most maxEdges, chosen evenly over its order and not the same as those of the other
// networks. A site has the same address as all others behind its network, at each edge.
//
// The number of sites behind the network of rank r is proportional to 1/r, so that the number of
// sites of an address has a heavy tail. With 60 % of the sites behind 5 networks it is about as
// measured by Wang et al., "Measuring the Consolidation of DNS and Web Hosting Providers" (2021,
// arXiv:2110.15345): five providers serve 60 % of the 10,000 most popular sites. For the number of
// sites per address see Hoang et al., "The Web is Still Small After More Than a Decade" (2020,
// arXiv:2004.04623).
//
// Equal arguments give equal layouts. It panics if n is not 1 to MaxContentNetworks.
func (l Layout) WithContentNetworks(w *wan.World, share float64, n int, seed uint64) Layout {
	if n < 1 || n > MaxContentNetworks {
		panic("emulate: more content networks than addresses")
	}
	edges := max(1, min(maxEdges, w.Len()/2))
	for i := range n {
		var c ContentNetwork
		rows := wan.Edges(w, edges, seed, i)
		for e := range rows {
			c.Edges = append(c.Edges, Edge{address(144, i*maxEdges+e, 10), l.World.Len() + e})
		}
		l.World = l.World.Extend(w, rows)
		l.Networks = append(l.Networks, c)
	}
	sites := len(l.SiteAddrs)
	behind := rand.New(rand.NewPCG(seed, 0x63646e)).Perm(sites)[:int(share*float64(sites)+0.5)]
	l.behind = make(map[int]int, len(behind))
	for i, count := range zipf(len(behind), n) {
		for _, site := range behind[:count] {
			l.behind[site] = i
		}
		behind = behind[count:]
	}
	l.SiteAddrs = append([][]netip.Addr(nil), l.SiteAddrs...)
	for site, i := range l.behind {
		l.SiteAddrs[site] = nil
		for _, e := range l.Networks[i].Edges {
			l.SiteAddrs[site] = append(l.SiteAddrs[site], e.Addr)
		}
	}
	return l
}

// zipf distributes total over n ranks in proportion to 1/rank.
func zipf(total, n int) []int {
	sum := 0.0
	for r := range n {
		sum += 1 / float64(r+1)
	}
	counts, left := make([]int, n), total
	for r := range counts {
		counts[r] = int(float64(total) / float64(r+1) / sum)
		left -= counts[r]
	}
	for r := 0; left > 0; r, left = (r+1)%n, left-1 {
		counts[r]++
	}
	return counts
}

// Answer returns the addresses that the resolver at a place returns for a site.
func (l Layout) Answer(from, site int) []netip.Addr {
	if i, ok := l.behind[site]; ok {
		return []netip.Addr{l.nearest(from, i).Addr}
	}
	return l.SiteAddrs[site]
}

// PlaceFor returns the place of the server that a client at place from reaches as a site, if it
// uses the answer of its own resolver.
func (l Layout) PlaceFor(from, site int) int {
	if i, ok := l.behind[site]; ok {
		return l.nearest(from, i).Place
	}
	return l.SitePlaces[site]
}

// nearest returns the edge of a network with the shortest round trip from a place.
func (l Layout) nearest(from, network int) Edge {
	edges := l.Networks[network].Edges
	best := edges[0]
	for _, e := range edges[1:] {
		if l.World.Link(from, e.Place).RTT < l.World.Link(from, best.Place).RTT {
			best = e
		}
	}
	return best
}

// Behind returns the number of the content network of a site, and false if it has a server of its
// own.
func (l Layout) Behind(site int) (network int, ok bool) {
	network, ok = l.behind[site]
	return network, ok
}
