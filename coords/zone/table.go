package zone

import (
	"cmp"
	"math/rand/v2"
	"slices"

	"peerd/coords"
)

// A Peer is a peer that a table may contain.
type Peer struct {
	ID string
	At coords.Coordinate // without load
}

// Config defines the composition of a bounded table.
type Config struct {
	// Near and Zones are the shares of the nearest peers and of the nearest ones of zones;
	// the rest of the table is random. In [0, 1], and so is their sum.
	Near, Zones float64
	// Rings is the number of rings, in [1, 32], and InnerRadius the radius of the first in
	// milliseconds, > 0.
	Rings       int
	InnerRadius float64
}

// DefaultConfig returns the parameters of the network.
func DefaultConfig() Config {
	return Config{Near: 0.5, Zones: 0.25, Rings: 8, InnerRadius: 2}
}

// Keep returns the indices of the known peers to keep in a table of the given size at
// self, in ascending order; all of them if there are no more. Places that one kind of
// peers does not fill go to random ones.
//
// The random ones are selected by salt: with the same salt the same peers stay, whatever
// else is known, and a peer that cannot guess it cannot create an ID that is selected.
// IDs in known must differ.
func Keep(self coords.Coordinate, known []Peer, size int, cfg Config, salt uint64) []int {
	size = max(size, 0)
	order := make([]ranked, len(known))
	for i, p := range known {
		order[i] = ranked{i, self.Distance(p.At), coords.SaltedRank(p.ID, salt)}
	}
	if len(known) > size {
		slices.SortFunc(order, nearer)
		near := int(cfg.Near * float64(size))
		kept, rest := order[:near:near], order[near:]
		zones := int(cfg.Zones * float64(size))
		heads, rest := split(self, known, rest, cfg)
		// If there are more zones than places, the salt selects.
		slices.SortFunc(heads, byRandom)
		zones = min(zones, len(heads))
		kept, rest = append(kept, heads[:zones]...), append(rest, heads[zones:]...)
		slices.SortFunc(rest, byRandom)
		order = append(kept, rest[:size-len(kept)]...)
	}
	out := make([]int, len(order))
	for i, r := range order {
		out[i] = r.index
	}
	slices.Sort(out)
	return out
}

// split takes the nearest peer of each zone out of peers sorted by distance.
func split(
	self coords.Coordinate, known []Peer, sorted []ranked, cfg Config,
) (heads, rest []ranked) {
	seen := make(map[Zone]bool)
	for _, r := range sorted {
		z := Of(self, known[r.index].At, cfg.InnerRadius, cfg.Rings)
		if seen[z] {
			rest = append(rest, r)
			continue
		}
		seen[z] = true
		heads = append(heads, r)
	}
	return heads, rest
}

// Reach returns the distance of the farthest of the nearest peers in a table of the
// given size made by Keep, in milliseconds; 0 if the table is not full and accepts any
// peer.
func Reach(self coords.Coordinate, known []Peer, size int, cfg Config) float64 {
	near := int(cfg.Near * float64(size))
	if near < 1 || len(known) < size {
		return 0
	}
	far := make([]float64, len(known))
	for i, p := range known {
		far[i] = self.Distance(p.At)
	}
	slices.Sort(far)
	return far[near-1]
}

// An Offer is a peer that another one could be told about.
type Offer struct {
	Peer
	// Older reports that the other peer knows an older state of it.
	Older bool
}

// A Recipient is the peer that is told.
type Recipient struct {
	At coords.Coordinate
	// Reach is that of its table: beyond it the peer needs only a few random ones.
	// Milliseconds; 0: it accepts any peer.
	Reach float64
}

// SelectOffers returns the indices of at most n offers to send: first updates of peers
// that the recipient knows, then peers that it does not know, half of them nearest to it
// and half random. A full table gets few of the latter: a twelfth of n within its reach,
// and a twenty-fourth anywhere.
func SelectOffers(to Recipient, offers []Offer, n int, rng *rand.Rand) []int {
	var news, unknown []ranked
	for i, o := range offers {
		if r := (ranked{index: i, random: rng.Uint64()}); o.Older {
			news = append(news, r)
		} else {
			r.far = to.At.Distance(o.At)
			unknown = append(unknown, r)
		}
	}
	n = max(n, 0)
	if len(news) > n {
		slices.SortFunc(news, byRandom)
	}
	out := indices(nil, news, n)
	near, random := n-len(out), n-len(out)
	if len(unknown) > n-len(out) || to.Reach > 0 {
		slices.SortFunc(unknown, nearer)
		near, random = (near+1)/2, random/2
	}
	if to.Reach > 0 {
		within, _ := slices.BinarySearchFunc(unknown, to.Reach, func(r ranked, reach float64) int {
			return cmp.Compare(r.far, reach)
		})
		near, random = min(near, n/12, within), min(random, n/24)
	}
	near = min(near, len(unknown))
	out = indices(out, unknown, near)
	rest := unknown[near:]
	slices.SortFunc(rest, byRandom)
	return indices(out, rest, min(random, n-len(out)))
}

// indices appends the indices of the first n.
func indices(out []int, from []ranked, n int) []int {
	for _, r := range from[:min(n, len(from))] {
		out = append(out, r.index)
	}
	return out
}

// ranked is a peer with its sort keys.
type ranked struct {
	index  int
	far    float64
	random uint64
}

func nearer(a, b ranked) int {
	switch { // not cmp.Or, because sorting dominates the run time
	case a.far < b.far:
		return -1
	case a.far > b.far:
		return 1
	}
	return byRandom(a, b)
}

func byRandom(a, b ranked) int {
	switch {
	case a.random < b.random:
		return -1
	case a.random > b.random:
		return 1
	}
	return a.index - b.index
}
