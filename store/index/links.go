package index

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/cespare/xxhash/v2"
	"golang.org/x/net/publicsuffix"

	"peerd/store"
)

// Link is a link to a page of another host.
type Link struct {
	URL  store.URL
	Text string
}

// Limits of links.
const (
	// MaxLinks is the number of links of a page that are indexed.
	MaxLinks = 256
	// maxAnchorWords is the number of words of a link that are indexed.
	maxAnchorWords = 12
	// MaxAnchors is the number of anchors that Best returns.
	MaxAnchors = 64
	// MaxSources is the number of sources that count for a word and a page.
	MaxSources = 4
	// MaxLinking is the number of sources that Linking returns.
	MaxLinking = 32
	// maxScan is the number of terms that are read for a word in a segment of an index.
	maxScan = 1 << 14
	// slots is the number of sources that a network of addresses can be.
	slots = 4
)

// Source is a source of links: a registered domain in a network of addresses, /24 or /48. All
// domains in one network are at most slots sources. The numbers are evenly distributed, so that
// the least of many are a random sample of them.
type Source uint32

// sourceOf returns the source of the links of a host.
func sourceOf(host string, addr netip.Addr) Source {
	domain, err := publicsuffix.EffectiveTLDPlusOne(host)
	if err != nil {
		domain = host
	}
	if !addr.IsValid() {
		return Source(xxhash.Sum64String(domain))
	}
	slot := byte('0' + xxhash.Sum64String(domain)%slots)
	return Source(xxhash.Sum64String(store.SubnetOf(addr).String() + string(slot)))
}

// Target identifies the pages to which a link refers: those of a URL with http and with https, as
// many pages have moved. It is the digest of that with https, without the last bit.
type Target = store.Digest

// targetOf returns the target of links to a page.
func targetOf(u store.URL) Target {
	if rest, ok := strings.CutPrefix(string(u), "http://"); ok {
		u = store.URL("https://" + rest)
	}
	t := u.Digest()
	t[len(t)-1] &^= 1
	return t
}

// idOf returns the ID of a page in the index: its target, and the last bit for http.
func idOf(u store.URL) string {
	t := targetOf(u)
	if strings.HasPrefix(string(u), "http://") {
		t[len(t)-1] |= 1
	}
	return string(t[:])
}

// The terms of links contain the source, and are only read from the dictionary of the index: each
// source counts once, however many of its pages have the link.
//
//	fieldLinked  host 00 source(4)
//	fieldLinked  00 host 00 source(4): the page is of this host
//	fieldAnchor  term of a word 00 target(16) source(4)

func (a *analyzer) links(d Document, language byte) (linked, anchors *field) {
	linked, anchors = newTerms(fieldLinked), newTerms(fieldAnchor)
	source := string(binary.BigEndian.AppendUint32(nil, uint32(sourceOf(d.URL.Host(), d.Addr))))
	linked.add("\x00" + d.URL.Host() + "\x00" + source)
	for _, l := range d.Links[:min(len(d.Links), MaxLinks)] {
		linked.add(l.URL.Host() + "\x00" + source)
		target, n := targetOf(l.URL), 0
		words(l.Text, func(word []byte, _, _ int, paired bool) bool {
			term := a.stems.term(markOf(language, word, paired), word)
			anchors.add(term + "\x00" + string(target[:]) + source)
			n++
			return n < maxAnchorWords
		})
	}
	return linked, anchors
}

// Anchor is a page of which links have words of a query.
type Anchor struct {
	Target Target `cbor:"1,keyasint"`
	// Sources are those of the links with each of Query.Words, in order: the least of them,
	// ascending, at most MaxSources.
	Sources [][]Source `cbor:"2,keyasint"`
}

// words returns the number of words that links have, and that of the sources.
func (a *Anchor) words() (words, sources int) {
	for _, s := range a.Sources {
		if sources += len(s); len(s) > 0 {
			words++
		}
	}
	return words, sources
}

// Best sorts anchors and returns the first MaxAnchors: those with the most words, and of these
// those with the most sources.
func Best(all []Anchor) []Anchor {
	slices.SortFunc(all, func(a, b Anchor) int {
		aw, as := a.words()
		bw, bs := b.words()
		return cmp.Or(cmp.Compare(bw, aw), cmp.Compare(bs, as),
			bytes.Compare(a.Target[:], b.Target[:]))
	})
	return all[:min(len(all), MaxAnchors)]
}

// addAnchors returns the union of two lists for the same query.
func addAnchors(a, b []Anchor) []Anchor {
	at := make(map[Target]int, len(a))
	for i := range a {
		at[a[i].Target] = i
	}
	for _, x := range b {
		i, known := at[x.Target]
		if !known {
			at[x.Target] = len(a)
			a = append(a, x)
			continue
		}
		sum := make([][]Source, len(a[i].Sources)) // those of a may be shared
		for w := range sum {
			sum[w] = Least(slices.Concat(a[i].Sources[w], x.Sources[w]), MaxSources)
		}
		a[i].Sources = sum
	}
	return a
}

// Least sorts sources and returns the first n without repetitions.
func Least(all []Source, n int) []Source {
	slices.Sort(all)
	all = slices.Compact(all)
	return all[:min(len(all), n)]
}

// anchors returns the pages of which most links in this index have words of a query.
func (r *Reader) anchors(q *Query) ([]Anchor, error) {
	found := map[Target][][]Source{}
	for i, w := range q.Words {
		err := r.eachTerm(fieldAnchor, r.terms(q, w), maxScan, func(rest string) {
			if len(rest) != len(Target{})+4 {
				return
			}
			t := Target([]byte(rest[:len(Target{})]))
			if found[t] == nil {
				found[t] = make([][]Source, len(q.Words))
			}
			found[t][i] = append(found[t][i], sourceIn(rest[len(t):]))
		})
		if err != nil {
			return nil, err
		}
	}
	all := make([]Anchor, 0, len(found))
	for t, sources := range found {
		for i := range sources {
			sources[i] = Least(sources[i], MaxSources)
		}
		all = append(all, Anchor{t, sources})
	}
	return Best(all), nil
}

// Linking returns the sources of links to a host in this index: the least of them, ascending, at
// most MaxLinking.
func (r *Reader) Linking(host string) (all []Source, err error) {
	err = r.eachTerm(fieldLinked, []string{host}, MaxLinking, func(rest string) {
		if len(rest) == 4 {
			all = append(all, sourceIn(rest))
		}
	})
	return Least(all, MaxLinking), err
}

func sourceIn(term string) Source { return Source(binary.BigEndian.Uint32([]byte(term))) }

// eachTerm calls fn for the terms of a field that begin with one of some terms and a NUL, with what
// follows, in order, but for each segment of the index again; at most limit times for each of both.
// Terms of pages that were replaced count until their segment is merged.
func (r *Reader) eachTerm(field string, terms []string, limit int, fn func(rest string)) error {
	for _, s := range r.segments {
		d, err := s.Segment().Dictionary(field)
		if err != nil {
			return err
		}
		for _, t := range terms {
			it := d.AutomatonIterator(nil, []byte(t+"\x00"), []byte(t+"\x01"))
			for range limit {
				e, err := it.Next()
				if err != nil {
					return err
				}
				if e == nil {
					break
				}
				fn(e.Term[len(t)+1:])
			}
		}
	}
	return nil
}

// pagesOf returns the anchors of pages in this index, by their numbers.
func (r *Reader) pagesOf(all []Anchor, words int) (map[uint64]*Anchor, error) {
	byID := make(map[string]*Anchor, len(all))
	for i, a := range all {
		if t := a.Target; len(a.Sources) == words && byID[string(t[:])] == nil {
			byID[string(t[:])] = &all[i]
			t[len(t)-1] ^= 1 // with http
			byID[string(t[:])] = &all[i]
		}
	}
	found, first := map[uint64]*Anchor{}, uint64(0)
	if len(byID) == 0 {
		return found, nil
	}
	ids := slices.Collect(maps.Keys(byID))
	for _, s := range r.segments {
		docs, err := s.DocNumbers(ids)
		if err != nil {
			return nil, err
		}
		for _, n := range docs.ToArray() {
			id, err := s.DocID(uint64(n))
			if err != nil {
				return nil, err
			}
			found[first+uint64(n)] = byID[string(id)]
		}
		first += uint64(s.FullSize())
	}
	return found, nil
}
