package similar

import (
	"bytes"
	"slices"
	"strings"
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
		h = addWord(h, word)
	}
	return Simhash(mix(h))
}

func addWord(h uint64, word []byte) uint64 {
	for _, c := range bytes.ToLower(word) {
		h = (h ^ uint64(c)) * fnvPrime
	}
	return (h ^ ' ') * fnvPrime
}

// Gist returns a Simhash for comparing versions of a page: that of its text without numbers and
// dates. Of fewer than MinWords words it is near only to that of the same words. Counters, dates
// and single words of a long text make versions that differ in Near bits at most.
func Gist(text []byte) Simhash {
	h, rest := uint64(fnvOffset), []byte(nil)
	for word := range bytes.FieldsFuncSeq(visible(text, len(text)), isBetweenWords) {
		if !bytes.ContainsAny(word, "0123456789") && !isDate(word) {
			h, rest = addWord(h, word), append(append(rest, word...), ' ')
		}
	}
	if p, ok := Fingerprint(rest); ok {
		return p
	}
	return Simhash(mix(h))
}

// isDate reports whether a word is the English name of a month or a day, or a part of a time.
func isDate(word []byte) bool {
	return slices.ContainsFunc(dates, func(d string) bool {
		return len(d) == len(word) && foldEqual(word, d)
	})
}

var dates = strings.Fields("january february march april may june july august september october " +
	"november december jan feb mar apr jun jul aug sep sept oct nov dec monday tuesday wednesday " +
	"thursday friday saturday sunday mon tue tues wed thu thur thurs fri sat sun am pm gmt utc")

func isBetweenWords(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }
