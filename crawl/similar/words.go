package similar

import (
	"unicode"
	"unicode/utf8"
)

// FNV-1a.
const (
	fnvOffset = 14695981039346656037
	fnvPrime  = 1099511628211
)

// words calls fn with the hash of each word of text, in order.
//
// A word is a run of letters, marks and digits, ignoring case. In scripts without spaces
// between words, each character is a word. Bytes that are not UTF-8 count as letters.
func words(text string, fn func(hash uint64)) {
	h, open := uint64(fnvOffset), false
	end := func() {
		if open {
			fn(mix(h))
			h, open = fnvOffset, false
		}
	}
	for i := 0; i < len(text); {
		c := text[i]
		if c < utf8.RuneSelf {
			if low := lower[c]; low != 0 {
				h, open = (h^uint64(low))*fnvPrime, true
				i++
				continue
			}
			end()
			i++
			continue
		}
		r, size := utf8.DecodeRuneInString(text[i:])
		i += size
		switch {
		case r == utf8.RuneError && size == 1:
			r = rune(text[i-1]) | 1<<30
		case unspaced(r):
			end()
			fn(mix(uint64(r)))
			continue
		case !unicode.IsLetter(r) && !unicode.IsMark(r) && !unicode.IsDigit(r):
			end()
			continue
		default:
			r = unicode.ToLower(r)
		}
		h, open = (h^uint64(r))*fnvPrime, true
	}
	end()
}

// unspaced reports whether r belongs to a script without spaces between words.
func unspaced(r rune) bool {
	switch {
	case r < 0x0e00:
		return false
	// Thai, Lao; Burmese; Khmer
	case r <= 0x0eff, r >= 0x1000 && r <= 0x109f, r >= 0x1780 && r <= 0x17ff:
		return unicode.IsLetter(r)
	// kana; Han
	case r >= 0x3040 && r <= 0x30ff, r >= 0x3400 && r <= 0x4dbf, r >= 0x4e00 && r <= 0x9fff:
		return true
	}
	return r >= 0xf900 && r <= 0xfaff || r >= 0x20000 && r <= 0x323af
}

// lower maps ASCII letters and digits to lower case, and everything else to 0.
var lower = func() (t [256]byte) {
	for c := byte('0'); c <= '9'; c++ {
		t[c] = c
	}
	for c := byte('a'); c <= 'z'; c++ {
		t[c], t[c-'a'+'A'] = c, c
	}
	return t
}()
