package similar

import (
	"bytes"
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
// between words, each character is a word. Bytes that are not UTF-8 count as letters. Tags,
// comments, character references and the contents of script, style and template are skipped
// and separate words.
func words(text []byte, fn func(hash uint64)) {
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
			switch c {
			case '<':
				i += markup(text[i:])
			case '&':
				i += reference(text[i:])
			default:
				i++
			}
			continue
		}
		r, size := utf8.DecodeRune(text[i:])
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

// visible returns up to limit bytes of the text that words would read, with a space for
// each tag, comment and reference.
func visible(text []byte, limit int) []byte {
	var out []byte
	for i := 0; i < len(text) && len(out) < limit; {
		n := 0
		switch text[i] {
		case '<':
			n = markup(text[i:])
		case '&':
			n = reference(text[i:])
		}
		if n > 1 {
			out = append(out, ' ')
			i += n
			continue
		}
		out = append(out, text[i])
		i++
	}
	return out
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

// markup returns the length of the tag or comment at the start of s, including the contents
// of elements that are not displayed. It returns 1 if the < is an ordinary character.
func markup(s []byte) int {
	if len(s) < 2 {
		return 1
	}
	switch c := s[1]; {
	case bytes.HasPrefix(s, []byte("<!--")):
		return upTo(s, []byte("-->"))
	case c == '!' || c == '?' || c == '/':
		return upTo(s, []byte(">"))
	case lower[c] < 'a':
		return 1
	}
	n := tag(s)
	for _, name := range hidden {
		if len(s) > len(name)+1 && foldEqual(s[1:1+len(name)], name) && lower[s[1+len(name)]] == 0 {
			return n + closing(s[n:], name)
		}
	}
	return n
}

var hidden = []string{"script", "style", "template"}

// tag returns the length of the start tag at the start of s. A > within quotes does not end
// it. Only a quote after an equals sign opens a quotation.
func tag(s []byte) int {
	before := byte(0)
	for i := 1; i < len(s); i++ {
		switch c := s[i]; {
		case c == '>':
			return i + 1
		case (c == '"' || c == '\'') && before == '=':
			n := bytes.IndexByte(s[i+1:], c)
			if n < 0 {
				return len(s)
			}
			i += n + 1
			before = c
		case c > ' ':
			before = c
		}
	}
	return len(s)
}

// closing returns the offset of the end tag of name in s, or the length of s.
func closing(s []byte, name string) int {
	for i := 0; ; {
		n := bytes.Index(s[i:], []byte("</"))
		if n < 0 {
			return len(s)
		}
		i += n
		if rest := s[i+2:]; len(rest) >= len(name) && foldEqual(rest[:len(name)], name) {
			return i
		}
		i += 2
	}
}

// upTo returns the length of s up to the end of stop, or the length of s.
func upTo(s, stop []byte) int {
	if i := bytes.Index(s, stop); i >= 0 {
		return i + len(stop)
	}
	return len(s)
}

// reference returns the length of the character reference at the start of s, or 1.
func reference(s []byte) int {
	const longest = 34 // &CounterClockwiseContourIntegral;
	for i := 1; i < min(len(s), longest); i++ {
		if s[i] == ';' {
			return i + 1
		}
		if lower[s[i]] == 0 && s[i] != '#' {
			break
		}
	}
	return 1
}

// foldEqual compares b with a lower-case ASCII name of the same length, ignoring case.
func foldEqual(b []byte, name string) bool {
	for i := range len(name) {
		if lower[b[i]] != name[i] {
			return false
		}
	}
	return true
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
