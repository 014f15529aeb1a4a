package index

import (
	"strings"
	"unicode/utf8"
)

const (
	// snippetBytes is the length of a snippet.
	snippetBytes = 240
	// leadBytes is the length of what a snippet has before its first match, at most.
	leadBytes = 40
	// maxMatches is the number of matches among which the best place is sought.
	maxMatches = 4096
)

// Snippet is a part of a page in which words of a query occur.
type Snippet struct {
	Text string `cbor:"1,keyasint,omitempty"`
	// Marks are the places of the words in Text, in bytes: start and end.
	Marks [][2]int `cbor:"2,keyasint,omitempty"`
	// Lacks says that the page lacks a phrase of the query.
	Lacks bool `cbor:"3,keyasint,omitempty"`
}

// match is a place of a word of a query.
type match struct{ start, end, word int }

// Snippet returns the part of a text in which the most words of a query occur, or only that the
// text lacks a phrase.
func (r *Reader) Snippet(q Query, m Meta, text string) Snippet {
	if !hasPhrases(text, q.Phrases) {
		return Snippet{Lacks: true}
	}
	all := r.matches(q, m, text)
	var start int
	if len(all) > 0 {
		start = max(0, bestPlace(all)-leadBytes)
	}
	start, end := cutText(text, start)
	s := Snippet{Text: oneLine(text[start:end])}
	for _, at := range all {
		if at.start >= start && at.end <= end {
			mark := [2]int{at.start - start, at.end - start}
			if n := len(s.Marks); n > 0 && mark[0] < s.Marks[n-1][1] { // overlapping pairs
				s.Marks[n-1][1] = mark[1]
			} else {
				s.Marks = append(s.Marks, mark)
			}
		}
	}
	return s
}

// matches returns the places of the words of a query.
func (r *Reader) matches(q Query, m Meta, text string) (all []match) {
	wanted := map[string]int{}
	mark := languageByCode(m.Language)
	for i, w := range q.Words {
		wanted[r.stems.term(markOf(mark, []byte(w.Text), w.Paired), w.Text)] = i
	}
	words(text, func(word []byte, start, end int, paired bool) bool {
		if i, ok := wanted[r.stems.term(markOf(mark, word, paired), string(word))]; ok {
			all = append(all, match{start, end, i})
		}
		return len(all) < maxMatches
	})
	return all
}

// bestPlace returns the start of the part with the most different words, and among those of the
// part with the most matches. Pages begin with menus, so that the last match of all is as good a
// guess as the first.
func bestPlace(all []match) (start int) {
	best, from := 0, 0
	var count [MaxWords]int
	different := 0
	for i, at := range all {
		if count[at.word]++; count[at.word] == 1 {
			different++
		}
		for all[from].start < at.end-(snippetBytes-leadBytes) && from < i {
			if count[all[from].word]--; count[all[from].word] == 0 {
				different--
			}
			from++
		}
		if value := different*maxMatches + i - from; value > best {
			best, start = value, all[from].start
		}
	}
	return start
}

// cutText returns a part of about snippetBytes of a text that begins at start or soon after it,
// and does not cut words if there are spaces.
func cutText(text string, start int) (from, to int) {
	from = start
	if start > 0 {
		for from < len(text) && !utf8.RuneStart(text[from]) {
			from++
		}
		if i := strings.IndexAny(text[from:min(len(text), from+leadBytes/2)], " \n"); i >= 0 {
			from += i + 1
		}
	}
	to = min(len(text), from+snippetBytes)
	if to < len(text) {
		for to > from && !utf8.RuneStart(text[to]) {
			to--
		}
		if i := strings.LastIndexAny(text[from:to], " \n"); i > snippetBytes/2 {
			to = from + i
		}
	}
	return from, to
}

// oneLine replaces line ends by spaces.
func oneLine(s string) string { return strings.ReplaceAll(s, "\n", " ") }
