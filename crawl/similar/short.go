package similar

import (
	"slices"
	"strings"
	"unicode"

	"peerd/store"
)

// TextHash returns a Simhash for comparing the text of the page of u with others: its
// Fingerprint, or for a text of fewer than MinWords words a hash of these words, which is near
// only to that of an equal text. Words with digits and words of the URL do not count in a short
// text: calendars and "not found" pages differ in nothing else.
func TextHash(text string, u store.URL) Simhash {
	if p, ok := Fingerprint(text); ok {
		return p
	}
	url := map[string]bool{}
	for word := range strings.FieldsFuncSeq(string(u), isBetweenWords) {
		url[strings.ToLower(word)] = true
	}
	h := uint64(fnvOffset)
	for word := range strings.FieldsFuncSeq(text, isBetweenWords) {
		if !strings.ContainsAny(word, "0123456789") && !url[strings.ToLower(word)] {
			h = addWord(h, word)
		}
	}
	return Simhash(mix(h))
}

func addWord(h uint64, word string) uint64 {
	for _, c := range []byte(strings.ToLower(word)) {
		h = (h ^ uint64(c)) * fnvPrime
	}
	return (h ^ ' ') * fnvPrime
}

// Gist returns a Simhash for comparing versions of a page: that of its text without numbers and
// dates. Of fewer than MinWords words it is near only to that of the same words. Counters, dates
// and single words of a long text make versions that differ in Near bits at most.
func Gist(text string) Simhash {
	h, rest := uint64(fnvOffset), []string(nil)
	for word := range strings.FieldsFuncSeq(text, isBetweenWords) {
		if !strings.ContainsAny(word, "0123456789") && !isDate(word) {
			h, rest = addWord(h, word), append(rest, word)
		}
	}
	if p, ok := Fingerprint(strings.Join(rest, " ")); ok {
		return p
	}
	return Simhash(mix(h))
}

// isDate reports whether a word is the English name of a month or a day, or a part of a time.
func isDate(word string) bool {
	return slices.ContainsFunc(dates, func(d string) bool { return strings.EqualFold(word, d) })
}

var dates = strings.Fields("january february march april may june july august september october " +
	"november december jan feb mar apr jun jul aug sep sept oct nov dec monday tuesday wednesday " +
	"thursday friday saturday sunday mon tue tues wed thu thur thurs fri sat sun am pm gmt utc")

func isBetweenWords(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }
