package index

import (
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// maxWord is the length in bytes of the longest word that is indexed. Longer ones are data rather
// than language, and each would be a term of its own.
const maxWord = 64

// words calls fn with each word of text, in order, in lower case and composed (NFC), until fn
// returns false; start and end are its place in text. The word is valid until fn returns.
//
// A word is a run of letters, marks and digits. In scripts without spaces between words, each
// pair of neighbouring characters is a word, and so is a character that stands alone: paired
// says so.
func words(text string, fn func(word []byte, start, end int, paired bool) bool) {
	buf := make([]byte, 0, 2*maxWord)
	for i := 0; i < len(text); {
		if class[text[i]] == 0 {
			i++
			continue
		}
		start, ascii := i, true
		word := buf
		for i < len(text) {
			c := text[i]
			if c >= utf8.RuneSelf {
				ascii = false
				break
			}
			if class[c] == 0 {
				break
			}
			if len(word) < maxWord {
				word = append(word, class[c])
			}
			i++
		}
		if !ascii {
			var ok bool
			if i, ok = mixedWord(text, start, buf, fn); !ok {
				return
			}
			continue
		}
		if i-start <= maxWord && !fn(word, start, i, false) {
			return
		}
	}
}

// class maps letters and digits of ASCII to lower case, bytes beyond ASCII to 1, and all other
// bytes to 0.
var class = func() (t [256]byte) {
	for c := '0'; c <= '9'; c++ {
		t[c] = byte(c)
	}
	for c := 'a'; c <= 'z'; c++ {
		t[c], t[c-'a'+'A'] = byte(c), byte(c)
	}
	for c := utf8.RuneSelf; c < 256; c++ {
		t[c] = 1
	}
	return t
}()

// mixedWord reads what begins at start, up to the end of a run of letters, marks and digits of
// any script. It returns the end, and false if fn did. Words are put into buf.
func mixedWord(
	text string, start int, buf []byte, fn func(word []byte, start, end int, paired bool) bool,
) (end int, ok bool) {
	from, i := start, start // a word of a script with spaces begins at from
	flush := func() bool {
		if from == i || i-from > 2*maxWord {
			return true
		}
		word := buf
		for _, r := range norm.NFC.String(text[from:i]) {
			word = utf8.AppendRune(word, unicode.ToLower(r))
		}
		return len(word) > maxWord || fn(word, from, i, false)
	}
	for i < len(text) {
		r, size := utf8.DecodeRuneInString(text[i:])
		if unspaced(r) {
			if !flush() {
				return i, false
			}
			if i, ok = pairs(text, i, buf, fn); !ok {
				return i, false
			}
			from = i
			continue
		}
		if !unicode.IsLetter(r) && !unicode.IsMark(r) && !unicode.IsDigit(r) ||
			r == utf8.RuneError {
			ok = flush()
			return i + size, ok
		}
		i += size
	}
	return i, flush()
}

// pairs passes the pairs of a run of characters of scripts without spaces to fn.
func pairs(
	text string, i int, buf []byte, fn func(word []byte, start, end int, paired bool) bool,
) (end int, ok bool) {
	last, n := i, 0 // start of the last character, and number of characters
	for i < len(text) {
		r, size := utf8.DecodeRuneInString(text[i:])
		if !unspaced(r) {
			break
		}
		if n > 0 && !fn(append(buf, text[last:i+size]...), last, i+size, true) {
			return i, false
		}
		last, n, i = i, n+1, i+size
	}
	if n == 1 {
		return i, fn(append(buf, text[last:i]...), last, i, true)
	}
	return i, true
}

// unspaced reports whether r belongs to a script that is indexed as pairs of characters.
func unspaced(r rune) bool {
	const firstKana, lastKana = 0x3040, 0x30ff // with the marks that kana share with other scripts
	return r >= 0x0e00 && (r >= firstKana && r <= lastKana || unicode.In(r, unicode.Han,
		unicode.Hangul, unicode.Thai, unicode.Lao, unicode.Myanmar, unicode.Khmer))
}
