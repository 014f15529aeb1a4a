package index

import (
	bleve "github.com/blevesearch/bleve_index_api"
)

// analyzer splits pages into terms. It keeps its buffers, and the terms of words, from page to
// page. It is not safe for concurrent use.
type analyzer struct {
	stems stems

	// What follows is of the text that is being split.
	letters []byte    // of the words in found
	found   []counted // each word once
	slots   []int32   // a hash table: numbers of words in found, from 1; 0 is free
	hashes  []uint64  // of all words, in order
}

// counted is a word of a text.
type counted struct {
	hash       uint64
	start, end int // in analyzer.letters
	mark       byte
	n          int // occurrences
}

// Buffers that a long text needs are not kept: maxKeptWords is the number of words, of found and
// of all words, for which they are.
const maxKeptWords = 1 << 16

// count counts an occurrence of a word.
func (a *analyzer) count(word []byte, language byte, paired bool) {
	h := hashWord(word)
	a.hashes = append(a.hashes, h)
	slot := a.slot(h, word)
	if n := a.slots[slot]; n > 0 {
		a.found[n-1].n++
		return
	}
	start := len(a.letters)
	a.letters = append(a.letters, word...)
	a.found = append(a.found, counted{h, start, len(a.letters), markOf(language, word, paired), 1})
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

// reset prepares the buffers for another text.
func (a *analyzer) reset() {
	if cap(a.found) > maxKeptWords || cap(a.hashes) > 4*maxKeptWords {
		a.letters, a.found, a.slots, a.hashes = nil, nil, nil, nil
	}
	if a.slots == nil {
		a.slots = make([]int32, 1024)
	}
	clear(a.slots)
	a.letters, a.found, a.hashes = a.letters[:0], a.found[:0], a.hashes[:0]
}

// text returns a field with the terms of a text in a language, and the pairs of words in it.
func (a *analyzer) text(name, text string, language byte) (*field, pairSet) {
	a.reset()
	words(text, func(word []byte, _, _ int, paired bool) bool {
		a.count(word, language, paired)
		return true
	})
	all := make([]bleve.TokenFreq, len(a.found))
	freqs := make(bleve.TokenFrequencies, len(a.found))
	for i, w := range a.found {
		term := a.stems.term(w.mark, a.letters[w.start:w.end])
		t := freqs[term]
		if t == nil {
			t = &all[i]
			freqs[term] = t
		}
		t.SetFrequency(t.Frequency() + w.n)
	}
	return &field{name: name, length: weights[name].code(len(a.hashes)), freqs: freqs,
		options: bleve.IndexField}, newPairSet(a.hashes)
}
