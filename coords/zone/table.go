package zone

import (
	"cmp"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"

	"peerd/coords"
)

// A Peer is one that may be known.
type Peer struct {
	ID string
	At coords.Coordinate // without load
}

// Config says what a bounded table is made of.
type Config struct {
	// Near and Zones are the shares of the nearest peers and of the nearest
	// ones of zones; the rest of the table is random. In [0, 1], together too.
	Near, Zones float64
	// Rings is the number of rings, Inner the radius of the first.
	// Milliseconds. In [1, 32]; > 0.
	Rings int
	Inner float64
}

// DefaultConfig returns the parameters of the network.
func DefaultConfig() Config {
	return Config{Near: 0.5, Zones: 0.25, Rings: 8, Inner: 2}
}

// Validate names every field that is out of its range.
func (c Config) Validate() error {
	var errs []error
	if !(c.Near >= 0 && c.Zones >= 0 && c.Near+c.Zones <= 1) {
		errs = append(errs, fmt.Errorf("zone: Near and Zones are %v and %v, want shares of up to 1 together", c.Near, c.Zones))
	}
	if c.Rings < 1 || c.Rings > 32 {
		errs = append(errs, fmt.Errorf("zone: Rings is %d, want 1 to 32", c.Rings))
	}
	if !(c.Inner > 0) {
		errs = append(errs, fmt.Errorf("zone: Inner is %v, want > 0", c.Inner))
	}
	return errors.Join(errs...)
}

// Keep returns the indices of the size peers of known to keep in a table at
// self, or of all if there are no more, in ascending order. Of each kind those
// that do not find enough of their own leave their room to the random ones.
//
// The random ones are those that salt picks: with the same salt the same peers
// stay, whatever else is known, and nobody who cannot guess it can make an ID
// that is picked. IDs in known must differ.
func Keep(self coords.Coordinate, known []Peer, size int, cfg Config, salt uint64) []int {
	size = max(size, 0)
	order := make([]ranked, len(known))
	for i, p := range known {
		order[i] = ranked{i, self.Distance(p.At), rank(p.ID, salt)}
	}
	if len(known) > size {
		slices.SortFunc(order, nearer)
		near := int(cfg.Near * float64(size))
		kept, rest := order[:near:near], order[near:]
		zones := int(cfg.Zones * float64(size))
		heads, rest := split(self, known, rest, cfg)
		// More zones than room for them: the salt picks, too.
		slices.SortFunc(heads, luckier)
		zones = min(zones, len(heads))
		kept, rest = append(kept, heads[:zones]...), append(rest, heads[zones:]...)
		slices.SortFunc(rest, luckier)
		order = append(kept, rest[:size-len(kept)]...)
	}
	out := make([]int, len(order))
	for i, r := range order {
		out[i] = r.index
	}
	slices.Sort(out)
	return out
}

// split takes the nearest of each zone out of peers sorted by distance.
func split(self coords.Coordinate, known []Peer, sorted []ranked, cfg Config) (heads, rest []ranked) {
	seen := make(map[Zone]bool)
	for _, r := range sorted {
		z := Of(self, known[r.index].At, cfg.Inner, cfg.Rings)
		if seen[z] {
			rest = append(rest, r)
			continue
		}
		seen[z] = true
		heads = append(heads, r)
	}
	return heads, rest
}

// Reach returns how far the nearest peers of a table of size go that Keep made:
// 0 if the table is not full, and there is room for anybody. Milliseconds.
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

// An Offer is a peer that another one could be told of.
type Offer struct {
	Peer
	// Older says that the other one knows it, as it was earlier.
	Older bool
}

// An Asker is who is told.
type Asker struct {
	At coords.Coordinate
	// Reach is that of its table: it has no use for peers farther off, but for a
	// few, at random. Milliseconds; 0 asks for everybody.
	Reach float64
}

// Tell returns the indices of at most n offers that are worth telling: first
// what is news of peers that the other one knows, then peers that it does not
// know, half of them the nearest to it and half random. Full tables are told of
// few: a twelfth of n within their reach, a
// twenty-fourth anywhere.
func Tell(to Asker, offers []Offer, n int, rng *rand.Rand) []int {
	var news, unknown []ranked
	for i, o := range offers {
		if r := (ranked{index: i, luck: rng.Uint64()}); o.Older {
			news = append(news, r)
		} else {
			r.far = to.At.Distance(o.At)
			unknown = append(unknown, r)
		}
	}
	n = max(n, 0)
	if len(news) > n {
		slices.SortFunc(news, luckier)
	}
	out := indices(nil, news, n)
	near, random := n-len(out), n-len(out)
	if len(unknown) > n-len(out) || to.Reach > 0 {
		slices.SortFunc(unknown, nearer)
		near, random = (near+1)/2, random/2
	}
	if to.Reach > 0 {
		within, _ := slices.BinarySearchFunc(unknown, to.Reach, func(r ranked, reach float64) int { return cmp.Compare(r.far, reach) })
		near, random = min(near, n/12, within), min(random, n/24)
	}
	near = min(near, len(unknown))
	out = indices(out, unknown, near)
	rest := unknown[near:]
	slices.SortFunc(rest, luckier)
	return indices(out, rest, min(random, n-len(out)))
}

// indices appends those of the first n.
func indices(out []int, from []ranked, n int) []int {
	for _, r := range from[:min(n, len(from))] {
		out = append(out, r.index)
	}
	return out
}

// ranked is a peer under comparison.
type ranked struct {
	index int
	far   float64
	luck  uint64
}

func nearer(a, b ranked) int {
	switch { // spelled out, as this is most of what choosing costs
	case a.far < b.far:
		return -1
	case a.far > b.far:
		return 1
	}
	return luckier(a, b)
}

func luckier(a, b ranked) int {
	switch {
	case a.luck < b.luck:
		return -1
	case a.luck > b.luck:
		return 1
	}
	return a.index - b.index
}

// rank is a number that looks random, the same for a name and a salt.
func rank(id string, salt uint64) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(id)) // never fails
	x := h.Sum64() ^ salt
	// The finaliser of splitmix64: FNV alone keeps neighbouring names together.
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
