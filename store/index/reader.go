package index

import (
	"bytes"
	"cmp"
	"container/heap"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/blevesearch/bleve/v2/index/scorch"
	bleve "github.com/blevesearch/bleve_index_api"
	"github.com/fxamacker/cbor/v2"
)

// ErrCorrupt means that the index has a record that it did not write.
var ErrCorrupt = errors.New("index: damaged record")

// weight says how a field counts: b is the strength of the influence of its length, which is
// compared with length, in words.
type weight struct{ boost, b, length float64 }

// The weights of the fields. All words of the title and the headings are also in the text.
var (
	weightText    = weight{1, .75, 600}
	weightTitle   = weight{4, .5, 8}
	weightHeading = weight{1.5, .75, 40}
)

var weights = map[string]weight{
	fieldText: weightText, fieldTitle: weightTitle, fieldHeading: weightHeading,
}

// k1 limits how much a repeated word counts.
const k1 = 1.2

const (
	// MaxHits is the maximum number of hits of a search.
	MaxHits = 400
	// phraseCandidates is the number of pages in which a phrase is looked up: those with the
	// highest scores that have all its words. Of most, the pairs of words say that it is not there.
	phraseCandidates = 5000
	// checkEvery is the number of pages after which a search checks whether it shall end.
	checkEvery = 1024
)

// anchorBoost is the weight of a source of links with a word, as weight.boost is of an occurrence.
const anchorBoost = 1

// Counts says how rare the words of a query are, and what links say.
type Counts struct {
	Pages uint64   `cbor:"1,keyasint,omitempty"` // in the index
	With  []uint64 `cbor:"2,keyasint,omitempty"` // those with each of Query.Words, in order
	// Anchors are the pages of which most links have words of the query; see Best. They need not
	// be in the index.
	Anchors []Anchor `cbor:"3,keyasint,omitempty"`
}

// Add adds the counts of another index for the same query. When all are added, Best chooses the
// anchors.
func (c *Counts) Add(other Counts) {
	c.Pages += other.Pages
	for len(c.With) < len(other.With) {
		c.With = append(c.With, 0)
	}
	for i, n := range other.With {
		c.With[i] += n
	}
	c.Anchors = addAnchors(c.Anchors, other.Anchors)
}

// Hit is a page that matches a query.
type Hit struct {
	Meta  `cbor:"1,keyasint"`
	Score float64 `cbor:"2,keyasint"`
}

// Result is the result of a search.
type Result struct {
	Hits []Hit `cbor:"1,keyasint,omitempty"` // best first
	// Total is the number of pages that match; with phrases, at least that.
	Total int `cbor:"2,keyasint,omitempty"`
	// Partial says that the search ended early, or looked up phrases in only some of the pages.
	Partial bool `cbor:"3,keyasint,omitempty"`
}

// Reader is a view of an index.
type Reader struct {
	r        bleve.IndexReader
	segments []*scorch.SegmentSnapshot // in the order of the numbers of their pages
	stems    *stemmer
	version  uint64
}

// Close ends the use of the view.
func (r *Reader) Close() error { return r.r.Close() }

// Version returns a number that no other index has, and that changes when pages do. It is of this
// process.
func (r *Reader) Version() uint64 { return r.version }

func (r *Reader) terms(q *Query, w Word) []string {
	var all []string
	for _, m := range q.marks(w) {
		all = append(all, r.stems.term(m, w.Text))
	}
	return all
}

// Count returns the counts of this index for a query.
func (r *Reader) Count(q Query) (Counts, error) {
	var c Counts
	var err error
	if c.Pages, err = r.r.DocCount(); err != nil {
		return c, err
	}
	for _, w := range q.Words {
		u, err := openUnion(r.r, fieldText, r.terms(&q, w), false)
		if err != nil {
			return c, err
		}
		c.With = append(c.With, u.count())
		u.close()
	}
	c.Anchors, err = r.anchors(&q)
	return c, err
}

// Idf returns how much the word number i of a query counts; rare words count more.
func (c Counts) Idf(i int) float64 {
	with := 0.
	if i < len(c.With) {
		with = float64(min(c.With[i], c.Pages))
	}
	return math.Log(1 + (float64(c.Pages)-with+.5)/(with+.5))
}

// MaxScore returns an upper bound of the scores for a query.
func (c Counts) MaxScore() (most float64) {
	for i := range c.With {
		most += c.Idf(i) * (k1 + 1)
	}
	return most
}

// scored is a word of which occurrences are counted.
type scored struct {
	idf                  float64
	text, title, heading union
}

func (s *scored) close() { s.text.close(); s.title.close(); s.heading.close() }

// score returns the part of the score of a page that is due to the word. Links with the word have
// a number of sources.
func (s *scored) score(doc uint64, sources int) (float64, error) {
	tf := s.text.weigh(doc, weightText) + anchorBoost*float64(sources)
	for _, f := range []struct {
		u union
		w weight
	}{{s.title, weightTitle}, {s.heading, weightHeading}} {
		if _, err := f.u.seek(doc); err != nil {
			return 0, err
		}
		tf += f.u.weigh(doc, f.w)
	}
	return s.idf * tf * (k1 + 1) / (tf + k1), nil
}

// search is a search in progress.
type search struct {
	r        *Reader
	words    []*scored
	required []union // the text of words, and the filters
	excluded []union
	anchored map[uint64]*Anchor // by page
	best     ranking
	limit    int
	total    int
}

// A Texter returns the text of a page.
type Texter func(Meta) (string, error)

// Search returns the best limit pages that match a query, at most MaxHits. It ranks by counts,
// the sums of those of all indexes that are searched. Phrases are looked up in the texts; pages of
// which the text cannot be read have none. Without text, hits may lack a phrase: those that their
// pairs of words do not exclude are returned. If ctx ends, it returns what it has, as Partial.
func (r *Reader) Search(
	ctx context.Context, q Query, counts Counts, limit int, text Texter,
) (Result, error) {
	limit = min(max(limit, 1), MaxHits)
	anchored, err := r.pagesOf(counts.Anchors, len(q.Words))
	if err != nil {
		return Result{}, err
	}
	s := &search{r: r, limit: limit, anchored: anchored}
	if len(q.Phrases) > 0 {
		s.limit = phraseCandidates
	}
	defer s.close()
	if err := s.open(&q, counts); err != nil {
		return Result{}, err
	}
	ended, err := s.run(ctx)
	if err == nil && len(s.anchored) > 0 {
		err = s.runAnchored(&q, counts)
	}
	if err != nil {
		return Result{}, err
	}
	res, err := s.result(ctx, q.Phrases, limit, text)
	res.Partial = res.Partial || !ended
	return res, err
}

func (s *search) close() {
	for _, w := range s.words {
		w.close()
	}
	for _, u := range slices.Concat(s.required[min(len(s.words), len(s.required)):], s.excluded) {
		u.close()
	}
}

// open opens the unions of a query. Those of the words come first in s.required.
func (s *search) open(q *Query, counts Counts) error {
	for i, w := range q.Words {
		word := &scored{idf: counts.Idf(i)}
		s.words = append(s.words, word)
		terms := s.r.terms(q, w)
		for _, f := range []struct {
			u    *union
			name string
		}{{&word.text, fieldText}, {&word.title, fieldTitle}, {&word.heading, fieldHeading}} {
			var err error
			if *f.u, err = openUnion(s.r.r, f.name, terms, true); err != nil {
				return err
			}
		}
		s.required = append(s.required, word.text)
	}
	for _, w := range q.Not {
		u, err := openUnion(s.r.r, fieldText, s.r.terms(q, w), false)
		if err != nil {
			return err
		}
		s.excluded = append(s.excluded, u)
	}
	return s.openFilters(q)
}

func (s *search) openFilters(q *Query) error {
	var filters [][]string
	texts := [][2]string{{filterSite, q.Site}, {filterType, q.Type}, {filterLang, q.Lang}}
	for _, f := range texts {
		if f[1] != "" {
			filters = append(filters, []string{f[0] + f[1]})
		}
	}
	if q.From+q.To != "" {
		terms, err := s.r.dayTerms(filterDay, q.From, cmp.Or(q.To, "99999999"))
		if err != nil {
			return err
		}
		filters = append(filters, terms)
	}
	for _, terms := range filters {
		u, err := openUnion(s.r.r, fieldFilter, terms, false)
		if err != nil {
			return err
		}
		s.required = append(s.required, u)
	}
	yesterday := time.Now().UTC().AddDate(0, 0, -1).Format(dayForm)
	past, err := s.r.dayTerms(filterLast, "", yesterday)
	if err != nil {
		return err
	}
	expired, err := openUnion(s.r.r, fieldFilter, past, false)
	s.excluded = append(s.excluded, expired)
	return err
}

// dayTerms returns the terms of a filter with the days of a span.
func (r *Reader) dayTerms(filter, from, to string) (terms []string, err error) {
	d, err := r.r.FieldDictRange(fieldFilter, []byte(filter+from), []byte(filter+to))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	for {
		e, err := d.Next()
		if err != nil || e == nil {
			return terms, err
		}
		terms = append(terms, e.Term)
	}
}

// run visits all pages that match. It returns false if ctx ended before.
func (s *search) run(ctx context.Context) (ended bool, err error) {
	for doc, visited := uint64(0), 0; ; doc, visited = doc+1, visited+1 {
		if visited%checkEvery == 0 && ctx.Err() != nil {
			return false, nil //nolint:nilerr // the result is then partial
		}
		if doc, err = s.next(doc); err != nil || doc == noDoc {
			return true, err
		}
		if s.anchored[doc] != nil {
			continue
		}
		if err := s.consider(doc, nil); err != nil {
			return true, err
		}
	}
}

// consider offers a page that has all words, unless it is excluded. anchor may be nil.
func (s *search) consider(doc uint64, anchor *Anchor) error {
	excluded, err := s.isExcluded(doc)
	if err != nil || excluded {
		return err
	}
	s.total++
	score := 0.
	for i, w := range s.words {
		sources := 0
		if anchor != nil {
			sources = len(anchor.Sources[i])
		}
		part, err := w.score(doc, sources)
		if err != nil {
			return err
		}
		score += part
	}
	return s.offer(doc, score)
}

// runAnchored visits the anchored pages. They match if each word is in the text or in links. It
// opens the query again, because cursors do not go back.
func (s *search) runAnchored(q *Query, counts Counts) error {
	again := &search{r: s.r}
	defer again.close()
	if err := again.open(q, counts); err != nil {
		return err
	}
	s.words, again.words = again.words, s.words
	s.required, again.required = again.required, s.required
	s.excluded, again.excluded = again.excluded, s.excluded
	for _, doc := range slices.Sorted(maps.Keys(s.anchored)) {
		ok, err := s.matches(doc, s.anchored[doc])
		if err != nil {
			return err
		}
		if !ok {
			continue
		}
		if err := s.consider(doc, s.anchored[doc]); err != nil {
			return err
		}
	}
	return nil
}

// matches reports whether a page has all of s.required, some of the words in links.
func (s *search) matches(doc uint64, anchor *Anchor) (bool, error) {
	for i, u := range s.required {
		at, err := u.seek(doc)
		if err != nil {
			return false, err
		}
		if at != doc && (i >= len(s.words) || len(anchor.Sources[i]) == 0) {
			return false, nil
		}
	}
	return true, nil
}

// next returns the first page from n on that all of s.required have.
func (s *search) next(n uint64) (uint64, error) {
	if len(s.required) == 0 {
		return noDoc, nil
	}
	for start := n; ; start = n {
		for _, u := range s.required {
			doc, err := u.seek(n)
			if err != nil || doc == noDoc {
				return noDoc, err
			}
			n = doc
		}
		if n == start {
			return n, nil
		}
	}
}

func (s *search) isExcluded(doc uint64) (bool, error) {
	for _, u := range s.excluded {
		at, err := u.seek(doc)
		if err != nil || at == doc {
			return true, err
		}
	}
	return false, nil
}

// offer adds a page to the best ones if it is one of them.
func (s *search) offer(doc uint64, score float64) error {
	if len(s.best) == s.limit && score < s.best[0].score {
		return nil
	}
	id, err := s.r.r.ExternalID(bleve.NewIndexInternalID(nil, doc))
	if err != nil {
		return err
	}
	c := candidate{score, id, doc}
	if len(s.best) < s.limit {
		heap.Push(&s.best, c)
	} else if compare(c, s.best[0]) < 0 {
		s.best[0] = c
		heap.Fix(&s.best, 0)
	}
	return nil
}

// result returns the first limit of the best pages in which all phrases occur. Most of those that
// lack a phrase are left out by their pairs of words. It stops when ctx ends.
func (s *search) result(
	ctx context.Context, phrases [][]string, limit int, text Texter,
) (Result, error) {
	slices.SortFunc(s.best, compare)
	res := Result{Total: s.total, Partial: len(phrases) > 0 && s.total > len(s.best)}
	hashes := hashPhrases(phrases)
	for _, c := range s.best {
		if len(res.Hits) == limit {
			return res, nil
		}
		if len(phrases) > 0 && ctx.Err() != nil {
			res.Partial = true
			return res, nil //nolint:nilerr // the result says so
		}
		hit, err := s.r.hit(c, hashes)
		if err != nil {
			return Result{}, err
		}
		if hit == nil {
			continue
		}
		if len(phrases) > 0 && text != nil {
			if t, err := text(hit.Meta); err != nil || !hasPhrases(t, phrases) {
				continue
			}
		}
		res.Hits = append(res.Hits, *hit)
	}
	if len(phrases) > 0 && !res.Partial {
		res.Total = len(res.Hits) // all pages were looked at
	}
	return res, nil
}

// hit returns the hit of a candidate; nil if the page lacks one of the phrases, given by the hashes
// of their words, by its pairs of words.
func (r *Reader) hit(c candidate, phrases [][]uint64) (*Hit, error) {
	var meta []byte
	lacks := len(phrases) > 0
	err := r.visit(c.doc, func(name string, value []byte) {
		switch name {
		case fieldMeta:
			meta = bytes.Clone(value)
		case fieldPairs:
			lacks = !pairSet(value).hasAll(phrases)
		}
	})
	if err != nil || lacks {
		return nil, err
	}
	h := Hit{Score: c.score}
	if err := cbor.Unmarshal(meta, &h.Meta); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	return &h, nil
}

// visit calls fn with the stored fields of a page. The values are valid until fn returns.
// Unlike Document of the index, it does not look the page up by its ID.
func (r *Reader) visit(doc uint64, fn func(name string, value []byte)) error {
	for _, s := range r.segments {
		if size := uint64(s.FullSize()); doc >= size {
			doc -= size
			continue
		}
		return s.VisitDocument(doc, func(name string, _ byte, value []byte, _ []uint64) bool {
			fn(name, value)
			return true
		})
	}
	return fmt.Errorf("%w: no page %d", ErrCorrupt, doc)
}

// candidate is a page with a score.
type candidate struct {
	score float64
	id    string
	doc   uint64 // number in the view
}

// compare orders candidates, the better first. The ID, which is the digest of the URL, decides
// between equal scores, so that the order does not depend on the index.
func compare(a, b candidate) int {
	return cmp.Or(cmp.Compare(b.score, a.score), cmp.Compare(a.id, b.id))
}

// Compare orders hits, the better first. Of several indexes, it is the order of all their hits.
func Compare(a, b Hit) int {
	if c := cmp.Compare(b.Score, a.Score); c != 0 {
		return c
	}
	return cmp.Compare(idOf(a.URL), idOf(b.URL))
}

// ranking is a heap of candidates, the worst first.
type ranking []candidate

func (r ranking) Len() int           { return len(r) }
func (r ranking) Less(i, j int) bool { return compare(r[i], r[j]) > 0 }
func (r ranking) Swap(i, j int)      { r[i], r[j] = r[j], r[i] }
func (r *ranking) Push(c any)        { *r = append(*r, c.(candidate)) }
func (r *ranking) Pop() any {
	old := *r
	last := old[len(old)-1]
	*r = old[:len(old)-1]
	return last
}
