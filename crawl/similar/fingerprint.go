package similar

import "math/bits"

const (
	// MinWords is the least number of words of which a Print says anything:
	// below, one word more or less turns too many bits.
	MinWords = 50
	// Near is the most bits in which the Prints of near-copies differ.
	Near = 3
)

// Print is the simhash of a text: texts with most of their sequences of words
// in common differ in few bits, others in about half of 64.
type Print uint64

// Distance returns the number of bits in which a and b differ.
func (a Print) Distance(b Print) int { return bits.OnesCount64(uint64(a ^ b)) }

// Fingerprint returns the Print of an HTML page or a plain text in UTF-8, of its
// words without markup; see words.go for what a word is. It is false for texts
// of fewer than MinWords words, whose Prints are not to be compared. The text
// may be cut off or broken anywhere. It takes linear time and allocates
// nothing.
func Fingerprint(text []byte) (Print, bool) {
	var s simhash
	words(text, s.word)
	return s.print(), s.words >= MinWords
}

// shingle is the number of words of a sequence: one word makes pages of one
// language alike, three lose half of the near-copies with one word in a hundred
// changed.
const shingle = 2

// simhash sums up ±1 for each bit of each shingle's hash. It does so for 64 bits
// at once: the ones of bit b are counted in bit b of the planes, plane i
// holding the digit 2^i of the counters, and the zeros are what is missing.
type simhash struct {
	planes   [40]uint64
	words    int
	shingles int
	seen     [8192]uint32    // halves of hashes of shingles, by the other half
	last     [shingle]uint64 // hashes of the words before
}

// word takes in the hash of the next word.
func (s *simhash) word(h uint64) {
	copy(s.last[:], s.last[1:])
	s.last[shingle-1] = h
	if s.words++; s.words < shingle {
		return
	}
	h = 0
	for _, w := range s.last {
		h = mix(h + w)
	}
	at := &s.seen[h%uint64(len(s.seen))]
	if *at == uint32(h>>32) {
		return
	}
	*at = uint32(h >> 32)
	s.shingles++
	for i := 0; h != 0; i++ { // add with carry, until no bit has one
		s.planes[i], h = s.planes[i]^h, s.planes[i]&h
	}
}

func (s *simhash) print() Print {
	var p Print
	for b := range 64 {
		ones := 0
		for i, plane := range s.planes {
			ones += int(plane>>b&1) << i
		}
		if 2*ones > s.shingles {
			p |= 1 << b
		}
	}
	return p
}

// mix is the finalizer of MurmurHash3.
func mix(h uint64) uint64 {
	h ^= h >> 33
	h *= 0xff51afd7ed558ccd
	h ^= h >> 33
	h *= 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}
