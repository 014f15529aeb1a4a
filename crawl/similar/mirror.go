package similar

import (
	"fmt"
	"math/bits"

	"peerd/store"
)

// MaxComparisons is the most comparisons that a Mirror remembers.
const MaxComparisons = 64

// Mirror compares two hosts page by page, at paths (with queries) that both
// have. The zero Mirror has compared nothing. Any values are sound. One
// goroutine at a time.
type Mirror struct {
	Equal uint64 `cbor:"1,keyasint,omitempty"` // the last comparisons, newest in bit 0; 1 is equal
	Made  uint8  `cbor:"2,keyasint,omitempty"` // how many there were, up to MaxComparisons
	// Last is the digest of the last pages that were equal.
	Last store.Digest `cbor:"3,keyasint"`
}

// Compare takes in the digests of the two hosts' pages at one path; status
// other than 200, soft not-founds and empty bodies are the caller's to leave
// out. Equal pages with the digest of the equal pages before say nothing and do
// not count: two parked domains have one page at all their paths.
func (m *Mirror) Compare(a, b store.Digest) {
	if a == b && a == m.Last {
		return
	}
	m.Equal <<= 1
	if a == b {
		m.Equal |= 1
		m.Last = a
	}
	m.Made = min(m.Made, MaxComparisons-1) + 1
}

// Is says whether at least n of the last of comparisons were equal; before
// there were as many, it is false. It panics unless 1 <= n <= of <=
// MaxComparisons. Usable values are 15 of 16.
func (m Mirror) Is(n, of int) bool {
	if n < 1 || n > of || of > MaxComparisons {
		panic(fmt.Sprintf("similar: %d of %d comparisons", n, of))
	}
	last := m.Equal << (MaxComparisons - of)
	return int(m.Made) >= of && bits.OnesCount64(last) >= n
}
