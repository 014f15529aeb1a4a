package index

import (
	"math/bits"
	"slices"

	"github.com/cespare/xxhash/v2"
)

// pairBits is the number of bits of a pairSet for each word of the page. With three, at most one of
// four pairs that a page does not have seems to be in it, and the sets are 6 % of the texts.
const pairBits = 3

// pairSet says which pairs of neighbouring words a page may have: a Bloom filter (Bloom, 1970) with
// two bits of each pair. A page lacks each phrase of which it lacks a pair. A page with less than
// two words has an empty set.
type pairSet []byte

// newPairSet returns the set of the pairs in a text, by the hashes of its words in order.
func newPairSet(words []uint64) pairSet {
	if len(words) < 2 {
		return nil
	}
	s := make(pairSet, (pairBits*len(words)+7)/8)
	for i, second := range words[1:] {
		a, b := s.places(words[i], second)
		s[a/8] |= 1 << (a % 8)
		s[b/8] |= 1 << (b % 8)
	}
	return s
}

// has reports whether the page may have two words next to each other.
func (s pairSet) has(first, second uint64) bool {
	if len(s) == 0 {
		return false
	}
	a, b := s.places(first, second)
	return s[a/8]&(1<<(a%8)) != 0 && s[b/8]&(1<<(b%8)) != 0
}

// hasAll reports whether the page may have all phrases, given by the hashes of their words.
func (s pairSet) hasAll(phrases [][]uint64) bool {
	return !slices.ContainsFunc(phrases, func(words []uint64) bool {
		for i := range words[1:] {
			if !s.has(words[i], words[i+1]) {
				return true
			}
		}
		return false
	})
}

// places returns the two bits of a pair. The hash of the first word is rotated, so that the order
// counts.
func (s pairSet) places(first, second uint64) (a, b uint64) {
	// The constant is that of SplitMix64 (Steele et al., 2014), as is the mixing.
	h := bits.RotateLeft64(first, 31) + second*0x9e3779b97f4a7c15
	h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
	h ^= h >> 31
	n := uint64(len(s)) * 8
	return (h >> 32) * n >> 32, (h & (1<<32 - 1)) * n >> 32
}

// hashWord returns the hash of a word in pairs. Indexes store it: it must not change.
func hashWord(word []byte) uint64 { return xxhash.Sum64(word) }

// hashPhrases returns the hashes of the words of phrases.
func hashPhrases(phrases [][]string) [][]uint64 {
	all := make([][]uint64, len(phrases))
	for i, p := range phrases {
		for _, w := range p {
			all[i] = append(all[i], hashWord([]byte(w)))
		}
	}
	return all
}
