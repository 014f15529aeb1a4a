package main

import (
	"encoding/binary"
	"math/bits"
)

// Bytes are looked for in words of eight (Lamport, Multiple Byte Processing with Full-Word
// Instructions, CACM 18(8), 1975): Go has no vectors in WebAssembly, and each iteration of a loop
// ends there with an indirect jump.

const (
	ones  = 0x0101010101010101
	highs = 0x80 * ones
)

// word returns the eight bytes at i.
func word(b []byte, i int) uint64 { return binary.LittleEndian.Uint64(b[i:]) }

// zeros returns a mark for each byte of w that is zero. Marks above the lowest may be wrong.
func zeros(w uint64) uint64 { return (w - ones) &^ w & highs }

// exactZeros returns a mark for each byte of w that is zero, and no others.
func exactZeros(w uint64) uint64 { return ^((w&^highs + (highs - ones)) | w) & highs }

// equal returns a mark for each byte of w that is c. Marks above the lowest may be wrong.
func equal(w uint64, c byte) uint64 { return zeros(w ^ uint64(c)*ones) }

// spaces returns a mark for each byte of w that is a space or a control character. Marks above the
// lowest may be wrong.
func spaces(w uint64) uint64 { return (w - (' '+1)*ones) &^ w & highs }

// first returns the index of the byte with the lowest mark.
func first(marks uint64) int { return bits.TrailingZeros64(marks) >> 3 }

// index returns the index of the first c at i or behind it, len(b) if there is none.
func index(b []byte, i int, c byte) int {
	for ; i+8 <= len(b); i += 8 {
		if m := equal(word(b, i), c); m != 0 {
			return i + first(m)
		}
	}
	for i < len(b) && b[i] != c {
		i++
	}
	return i
}
