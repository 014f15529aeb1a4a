package similar

import "math/bits"

const (
	// MinWords is the minimum number of words for a meaningful Simhash. Below it, a single
	// word changes too many bits.
	MinWords = 50
	// Near is the maximum number of bits in which the Simhashes of near-copies differ.
	Near = 3
)

// Simhash is a hash of a text. Texts that share most of their word sequences differ in few
// bits, others in about half of the 64.
type Simhash uint64

// Distance returns the number of bits in which a and b differ.
func (a Simhash) Distance(b Simhash) int { return bits.OnesCount64(uint64(a ^ b)) }

// Fingerprint returns the Simhash of the words of a text in UTF-8, without markup; see words.go
// for the definition of a word. It returns false for texts of fewer than MinWords words; their
// Simhashes must not be compared. The text may be truncated or invalid. Fingerprint takes
// linear time and allocates nothing.
func Fingerprint(text string) (Simhash, bool) {
	var s hasher
	words(text, s.word)
	return s.sum(), s.words >= MinWords
}

// shingle is the number of words per sequence. With one, all pages of a language are alike;
// with three, half of the near-copies with one changed word in a hundred are missed.
const shingle = 2

// hasher adds ±1 to each bit of the result for each bit of each shingle's hash. It does so
// for 64 bits at once: bit b of the planes counts the ones of bit b, plane i holding the
// digit 2^i; the remaining shingles have zeros.
type hasher struct {
	planes   [40]uint64
	words    int
	shingles int
	seen     [8192]uint32    // upper halves of the hashes of shingles, by hash
	last     [shingle]uint64 // hashes of the previous words
}

// word adds the hash of the next word.
func (s *hasher) word(h uint64) {
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
	for i := 0; h != 0; i++ { // add with carry until none is left
		s.planes[i], h = s.planes[i]^h, s.planes[i]&h
	}
}

func (s *hasher) sum() Simhash {
	var p Simhash
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
