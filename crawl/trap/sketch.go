package trap

import (
	"encoding/binary"
	"math"
)

// A sketch counts distinct 64-bit hashes: up to exactMax as values (32 bits each), more
// with HyperLogLog. Its length tells the form: 4 bytes per value, or registers bytes.
type sketch []byte

const (
	exactMax  = 8
	registers = 128
	indexBits = 7
	maxRank   = 64 - indexBits + 1

	// limitMargin is three standard errors of 1.04/√registers: a limit that counts as
	// reached is not the result of chance.
	limitMargin = 1 + 3*0.092
)

// exact reports whether k holds values rather than registers.
func (k sketch) exact() bool { return len(k) < registers }

// has reports whether h is counted: certainly, or as far as registers can tell.
func (k sketch) has(h uint64) bool {
	if !k.exact() {
		i, r := registerOf(h)
		return k[i] >= r
	}
	for i := 0; i < len(k); i += 4 {
		if binary.LittleEndian.Uint32(k[i:]) == uint32(h) {
			return true
		}
	}
	return false
}

// full reports whether k is exact and the next value converts it to registers.
func (k sketch) full() bool { return len(k) == 4*exactMax }

// add returns k with h counted.
func (k sketch) add(h uint64) sketch {
	switch {
	case k.has(h):
		return k
	case !k.exact():
		i, r := registerOf(h)
		k[i] = r
		return k
	case !k.full():
		return binary.LittleEndian.AppendUint32(k, uint32(h))
	}
	reg := make(sketch, registers)
	for i := 0; i < len(k); i += 4 {
		reg.addRegister(binary.LittleEndian.Uint32(k[i:]))
	}
	reg.addRegister(uint32(h))
	return reg
}

// addRegister counts a value of which only 32 bits are left. registerOf reads the same 32
// bits of a full hash.
func (k sketch) addRegister(low uint32) {
	i, r := registerOf(uint64(low))
	k[i] = max(k[i], r)
}

// registerOf returns the register of h and its rank. It reads only the low half of h, which
// is what the exact form stores.
func registerOf(h uint64) (index int, rank byte) {
	x := mix(uint64(uint32(h)))
	rest := x<<indexBits | 1<<(indexBits-1)
	r := byte(1)
	for rest>>63 == 0 {
		rest <<= 1
		r++
	}
	return int(x >> (64 - indexBits)), r
}

// count estimates the number of distinct values.
func (k sketch) count() float64 {
	if k.exact() {
		return float64(len(k) / 4)
	}
	sum, zero := 0.0, 0
	for _, r := range k {
		sum += inverse[min(r, maxRank)]
		if r == 0 {
			zero++
		}
	}
	const alpha = 0.7213 / (1 + 1.079/registers)
	e := alpha * registers * registers / sum
	if e <= 2.5*registers && zero > 0 { // small range: linear counting
		e = registers * math.Log(float64(registers)/float64(zero))
	}
	return e
}

// exceeds reports whether h would make the count of k exceed limit, including the margin.
func (k sketch) exceeds(h uint64, limit int) bool {
	if k.exact() {
		return len(k)/4 >= limit && !k.has(h)
	}
	return k.count() >= float64(limit)*limitMargin
}

// valid reports whether k, which came from outside, is a sketch.
func (k sketch) valid() bool {
	if k.exact() {
		return len(k)%4 == 0 && len(k) <= 4*exactMax
	}
	for _, r := range k {
		if r > maxRank {
			return false
		}
	}
	return len(k) == registers
}

// inverse holds 2^-r.
var inverse = func() (t [maxRank + 1]float64) {
	for r := range t {
		t[r] = math.Ldexp(1, -r)
	}
	return t
}()
