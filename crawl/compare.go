package crawl

import (
	"fmt"

	"peerd/crawl/similar"
	"peerd/store"
)

// comparison is the result of comparing a report with what this peer has found.
type comparison uint8

const (
	unclear comparison = iota
	same
	different
)

const (
	// alike is the number of bits in which the hashes of two texts differ at most that are
	// versions of one page. Those of other pages differ in about 32.
	alike = 12
	// apart is the number for pages that web servers change by a tenth as they send them.
	apart = 18
	// fewLinks is the number of links that say nothing.
	fewLinks = 3
)

// compare compares a report with what this peer has found itself. Pages may be different each
// time: they are the same with similar texts or mostly the same links, and it is unclear if only
// the sizes are similar. Sites may answer otherwise for a moment, or redirect by place.
func compare(said, found store.FetchReport) comparison {
	a, b := kindOf(said), kindOf(found)
	switch {
	case b == answerOther || said.Outcome == store.OutcomeNotModified ||
		found.Outcome == store.OutcomeNotModified:
		return unclear
	case a != b:
		return different
	case a == answerGone, said.Content.Digest == found.Content.Digest:
		return same
	case a == answerRedirect:
		return unclear
	}
	p, q := similar.Simhash(said.Content.Fingerprint), similar.Simhash(found.Content.Fingerprint)
	if p != 0 && q != 0 && p.Distance(q) <= alike {
		return same
	}
	shared, all := overlap(said.Links, found.Links)
	switch {
	case all > fewLinks && 2*shared >= all:
		return same
	case shared == 0 && all > fewLinks:
		return different
	case 10*max(said.Bytes, found.Bytes) <= 11*min(said.Bytes, found.Bytes):
		return unclear
	}
	return different
}

// compareFile compares the report of a page from its file with what this peer has found, or two of
// its own answers. Unlike compare it wants similar texts, and mostly the same links if both have
// some: a web server that answers with something else than the file counts as different. Texts are
// different beyond limit bits, and it is unclear if they differ in fewer, but in more than alike.
func compareFile(said, found store.FetchReport, limit int) comparison {
	p, q := similar.Simhash(said.Content.Fingerprint), similar.Simhash(found.Content.Fingerprint)
	switch {
	case kindOf(said) != answerPage, kindOf(found) != answerPage, p == 0 && q == 0,
		said.Content.Digest == found.Content.Digest:
		return compare(said, found)
	case p == 0 || q == 0:
		return unclear
	}
	shared, all := overlap(said.Links, found.Links)
	switch d := p.Distance(q); {
	case d > limit, len(found.Links) > 0 && all > fewLinks && 2*shared < all:
		return different
	case d > alike:
		return unclear
	}
	return same
}

// answer is the kind of an answer.
type answer uint8

const (
	answerOther answer = iota
	answerPage
	answerRedirect
	answerGone
)

func kindOf(r store.FetchReport) answer {
	switch {
	case isPage(r.Outcome):
		return answerPage
	case r.Outcome == store.OutcomeRedirect:
		return answerRedirect
	case isGone(r.Status):
		return answerGone
	}
	return answerOther
}

// overlap returns how many links two lists have both, and together.
func overlap(a, b []store.URL) (shared, all int) {
	in := make(map[store.URL]bool, len(a))
	for _, u := range a {
		in[u] = true
	}
	all = len(in)
	for _, u := range b {
		if in[u] {
			shared++
		} else {
			all++
		}
	}
	return shared, all
}

// summary describes a report in a few words.
func summary(r store.FetchReport) string {
	return fmt.Sprintf("%v %d, %d bytes, %d links, text %016x", r.Outcome, r.Status, r.Bytes,
		len(r.Links), r.Content.Fingerprint)
}
