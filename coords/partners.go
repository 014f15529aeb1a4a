package coords

import (
	"cmp"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"slices"
)

// Known is a peer that could be measured, and how far it is taken to be.
type Known struct {
	ID string
	// Distance is the round trip to it, predicted or measured. Milliseconds;
	// negative or NaN means unknown.
	Distance float64
}

// Partners are the peers to keep measuring: half of them near, half random
// ([1] 4.2: near ones alone fold the space, far ones alone leave it coarse).
// The two halves share no peer. It is a value; nothing in it changes.
type Partners struct {
	Near   []string // nearest first
	Random []string
}

// ChoosePartners picks size of the known peers, or all if there are no more:
// the nearest half of size, and of the rest the ones that salt picks. The random
// half depends on salt and on nothing that another peer can move, and it loses
// only those that are no longer known: with the same salt the same peers stay.
// A new salt, now and then, changes it; a salt that others cannot guess keeps
// them from making names that are picked. Peers of unknown distance are never
// near. Names that are empty or repeated count once.
func ChoosePartners(known []Known, size int, salt uint64) Partners {
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
		all = append(all, entry{k.ID, far, saltedRank(k.ID, salt)})
	}
	size = min(max(size, 0), len(all))
	slices.SortFunc(all, func(a, b entry) int {
		return cmp.Or(cmp.Compare(a.far, b.far), cmp.Compare(a.rank, b.rank), cmp.Compare(a.id, b.id))
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

// Len is the number of partners.
func (p Partners) Len() int { return len(p.Near) + len(p.Random) }

// All returns the partners, near ones first.
func (p Partners) All() []string { return slices.Concat(p.Near, p.Random) }

// Partner picks whom to measure next: one of either half with the same chance.
// It returns "" when there is nobody.
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

// saltedRank is a number that looks random, the same for a name and a salt.
func saltedRank(id string, salt uint64) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(id))
	x := h.Sum64() ^ salt
	// The finaliser of splitmix64: FNV alone keeps neighbouring names together.
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
