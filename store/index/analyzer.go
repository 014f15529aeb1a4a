package index

import (
	"math/bits"
	"slices"

	bleve "github.com/blevesearch/bleve_index_api"
)

// analyzer splits pages into terms. It keeps its buffers, and the terms of words, from page to
// page. It is not safe for concurrent use.
type analyzer struct {
	stems stems

	// What follows is of the text that was split last.
	letters []byte    // of the words in found
	found   []counted // each word once
	slots   []int32   // a hash table: numbers of words in found, from 1; 0 is free
	hashes  []uint64  // of all words, in order
}

// counted is a word of a text.
type counted struct {
	hash       uint64
	start, end int // in analyzer.letters
	paired     bool
	n          int // occurrences
}

// Buffers that a long text needs are not kept: maxKeptWords is the number of words, of found and
// of all words, for which they are.
const maxKeptWords = 1 << 16

func (a *analyzer) count(word []byte, paired bool) {
	h := hashWord(word)
	a.hashes = append(a.hashes, h)
	slot := a.slot(h, word)
	if n := a.slots[slot]; n > 0 {
		a.found[n-1].n++
		return
	}
	start := len(a.letters)
	a.letters = append(a.letters, word...)
	a.found = append(a.found, counted{h, start, len(a.letters), paired, 1})
	a.slots[slot] = int32(len(a.found))
	if 2*len(a.found) > len(a.slots) {
		a.grow()
	}
}

// slot returns the place of a word in slots, or the one where it is to be put.
func (a *analyzer) slot(hash uint64, word []byte) int {
	for i := int(hash) & (len(a.slots) - 1); ; i = (i + 1) & (len(a.slots) - 1) {
		n := a.slots[i]
		if n == 0 {
			return i
		}
		if w := &a.found[n-1]; w.hash == hash && string(a.letters[w.start:w.end]) == string(word) {
			return i
		}
	}
}

// grow doubles the hash table.
func (a *analyzer) grow() {
	a.slots = make([]int32, 2*len(a.slots))
	for n, w := range a.found {
		i := int(w.hash) & (len(a.slots) - 1)
		for a.slots[i] != 0 {
			i = (i + 1) & (len(a.slots) - 1)
		}
		a.slots[i] = int32(n + 1)
	}
}

// wordBytes is the number of bytes of a text for which the hash table has a place at first. A text
// repeats most of its words.
const wordBytes = 16

// reset prepares the buffers for another text with a size in bytes.
func (a *analyzer) reset(size int) {
	if cap(a.found) > maxKeptWords || cap(a.hashes) > 4*maxKeptWords {
		a.letters, a.found, a.slots, a.hashes = nil, nil, nil, nil
	}
	places := 1 << bits.Len(uint(size/wordBytes)|15)
	a.slots = slices.Grow(a.slots[:0], places)[:places]
	clear(a.slots)
	a.letters, a.found, a.hashes = a.letters[:0], a.found[:0], a.hashes[:0]
}

// split finds the words of a text, and adds them to its sample, which may be nil.
func (a *analyzer) split(text string, s *sample) {
	a.reset(len(text))
	words(text, func(word []byte, _, _ int, paired bool) bool {
		a.count(word, paired)
		if s != nil && !s.add(word, 0, 0, paired) {
			s = nil // it is complete
		}
		return true
	})
}

// field returns a field with the terms of the text that was split, in a language.
func (a *analyzer) field(name string, language byte) *field {
	freqs := make(bleve.TokenFrequencies, len(a.found))
	for _, w := range a.found {
		word := a.letters[w.start:w.end]
		term := a.stems.term(markOf(language, word, w.paired), word)
		if t := freqs[term]; t != nil {
			w.n += t.Frequency()
		}
		freqs[term] = occurs(w.n)
	}
	return &field{name: name, length: weights[name].code(len(a.hashes)), freqs: freqs,
		options: bleve.IndexField}
}
