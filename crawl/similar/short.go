package similar

import (
	"bytes"
	"slices"
	"unicode"

	"peerd/store"
)

// maxShort is the length of the text, without markup, that TextHash reads of a short text.
// Fewer than MinWords words are rarely longer.
const maxShort = 4096

// TextHash returns a Simhash for comparing the page of u with others: its Fingerprint, or for
// a text of fewer than MinWords words a hash of these words, which is near only to that of
// an equal text. Words with digits and words of the URL do not count in a short text:
// calendars and "not found" pages differ in nothing else.
func TextHash(text []byte, u store.URL) Simhash {
	if p, ok := Fingerprint(text); ok {
		return p
	}
	h, url := uint64(fnvOffset), bytes.FieldsFunc([]byte(u), isBetweenWords)
	for word := range bytes.FieldsFuncSeq(visible(text, maxShort), isBetweenWords) {
		if bytes.ContainsAny(word, "0123456789") || slices.ContainsFunc(url, func(w []byte) bool {
			return bytes.EqualFold(w, word)
		}) {
			continue
		}
		for _, c := range bytes.ToLower(word) {
			h = (h ^ uint64(c)) * fnvPrime
		}
		h = (h ^ ' ') * fnvPrime
	}
	return Simhash(mix(h))
}

func isBetweenWords(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }
