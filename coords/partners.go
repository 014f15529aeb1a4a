package coords

import (
	"cmp"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"slices"
)

// KnownPeer is a peer that could be measured, with its distance.
type KnownPeer struct {
	ID string
	// Distance is the predicted or measured round trip to the peer. Milliseconds; negative
	// or NaN means unknown.
	Distance float64
}

// Partners are the peers to keep measuring: half of them near, half random ([1] 4.2:
// near ones alone fold the space, far ones alone leave it coarse). No peer is in both
// halves. Partners is an immutable value.
type Partners struct {
	Near   []string // nearest first
	Random []string
}

// ChoosePartners selects size of the known peers, or all if there are no more: the
// nearest ones for one half, and of the rest those that salt selects. No other peer can
// influence the random half, which loses only peers that are no longer known: with the
// same salt the same peers stay. A new salt changes it. A salt that others cannot guess
// keeps them from creating names that are selected. Peers of unknown distance are never
// near. Empty names are ignored, repeated ones used once.
func ChoosePartners(known []KnownPeer, size int, salt uint64) Partners {
	type entry struct {
		id   string
		far  float64
		rank uint64
	}
	seen := make(map[string]bool, len(known))
	all := make([]entry, 0, len(known))
	for _, k := range known {
		if k.ID == "" || seen[k.ID] {
			continue
		}
		seen[k.ID] = true
		far := k.Distance
		if !(far >= 0) {
			far = math.Inf(1)
		}
		all = append(all, entry{k.ID, far, SaltedRank(k.ID, salt)})
	}
	size = min(max(size, 0), len(all))
	slices.SortFunc(all, func(a, b entry) int {
		return cmp.Or(cmp.Compare(a.far, b.far), cmp.Compare(a.rank, b.rank),
			cmp.Compare(a.id, b.id))
	})
	var p Partners
	near := 0
	for near < size/2 && !math.IsInf(all[near].far, 1) {
		p.Near = append(p.Near, all[near].id)
		near++
	}
	rest := all[near:]
	slices.SortFunc(rest, func(a, b entry) int {
		return cmp.Or(cmp.Compare(a.rank, b.rank), cmp.Compare(a.id, b.id))
	})
	for _, e := range rest[:size-near] {
		p.Random = append(p.Random, e.id)
	}
	return p
}

// Len returns the number of partners.
func (p Partners) Len() int { return len(p.Near) + len(p.Random) }

// All returns the partners, near ones first.
func (p Partners) All() []string { return slices.Concat(p.Near, p.Random) }

// Partner returns the peer to measure next, from either half with equal probability. It
// returns "" if there are no partners.
func (p Partners) Partner(rng *rand.Rand) string {
	half := p.Random
	if len(half) == 0 || len(p.Near) > 0 && rng.IntN(2) == 0 {
		half = p.Near
	}
	if len(half) == 0 {
		return ""
	}
	return half[rng.IntN(len(half))]
}

// SaltedRank returns a pseudo-random number that depends only on id and salt.
func SaltedRank(id string, salt uint64) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(id))
	x := h.Sum64() ^ salt
	// The finaliser of splitmix64: FNV alone gives similar names similar hashes.
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
