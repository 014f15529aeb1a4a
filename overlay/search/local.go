package search

import (
	"context"
	"errors"
	"slices"

	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/store"
	"peerd/store/index"
)

// Local is the index of this peer.
type Local struct {
	Index *index.Index
	// Text returns the texts of pages, for snippets and phrases.
	Text index.Texter
	// Copies may be nil.
	Copies Copies
}

// Copies are the copies of the archives of peers that do not answer (package mirror).
type Copies interface {
	// Use returns the copies, at most MaxCopies. Their indexes remain open until Done is called.
	Use() []Copy
	Done()
}

// Copy is the copy of the archive of a peer that does not answer.
type Copy struct {
	Owner  peer.ID
	Naming []byte // shows that the owner has named this peer
	// Index is nil until the copy is indexed.
	Index *Local
	// Whole says that the copy has all pages of the owner that this peer knows of.
	Whole bool
}

// errOrder means that the steps of a search are out of order.
var errOrder = errors.New("search: steps out of order")

// participant is an index, and copies of others, that take part in a search. Its methods are
// called in this order.
type participant interface {
	count(ctx context.Context) (counts, error)
	// rank returns the hits in the index and in the copies of the owners.
	rank(ctx context.Context, sum index.Counts, limit int, owners []peer.ID) (index.Result, error)
	// snippets returns the snippets of some hits of the result, by their places.
	snippets(ctx context.Context, shown []int) ([]index.Snippet, error)
	close()
}

// counts are the counts of a participant.
type counts struct {
	index.Counts
	copies []copyCounts
}

// copyCounts are the counts of the copy of a peer that does not answer, if it is indexed.
type copyCounts struct {
	index.Counts
	owner          peer.ID
	naming         []byte
	indexed, whole bool
}

// localSearch is a search in the index of this peer, and in copies.
type localSearch struct {
	from  *Local
	query index.Query
	valid func(store.URL) error // nil: pages are not checked
	own   *index.Reader
	using bool // the copies
	parts []part
	hits  []place
}

// part is an index in which a localSearch searches.
type part struct {
	Copy
	reader *index.Reader
}

// place is a hit, and where it was found.
type place struct {
	index.Hit
	in *part
}

func (l *Local) begin(q index.Query, valid func(store.URL) error) (*localSearch, error) {
	r, err := l.Index.Reader()
	if err != nil {
		return nil, err
	}
	s := &localSearch{from: l, query: q, valid: valid, own: r}
	s.parts = []part{{Copy{Index: l, Whole: true}, r}}
	return s, nil
}

func (s *localSearch) count(context.Context) (c counts, err error) {
	if c.Counts, err = s.own.Count(s.query); err != nil || s.from.Copies == nil {
		return c, err
	}
	s.using = true
	for _, cp := range s.from.Copies.Use() {
		n := copyCounts{owner: cp.Owner, naming: cp.Naming, whole: cp.Whole,
			indexed: cp.Index != nil}
		if cp.Index != nil {
			r, err := cp.Index.Index.Reader()
			if err != nil {
				return c, err
			}
			s.parts = append(s.parts, part{cp, r})
			if n.Counts, err = r.Count(s.query); err != nil {
				return c, err
			}
		}
		c.copies = append(c.copies, n)
	}
	return c, nil
}

func (s *localSearch) rank(
	ctx context.Context, sum index.Counts, limit int, owners []peer.ID,
) (all index.Result, err error) {
	for i := range s.parts {
		p := &s.parts[i]
		if p.reader != s.own && !slices.Contains(owners, p.Owner) {
			continue
		}
		res, err := p.reader.Search(ctx, s.query, sum, limit, p.Index.Text)
		if err != nil {
			return all, err
		}
		all.Total += res.Total
		all.Partial = all.Partial || res.Partial || !p.Whole
		for _, h := range res.Hits {
			if s.check(&h) {
				s.hits = append(s.hits, place{h, p})
			}
		}
	}
	slices.SortFunc(s.hits, func(a, b place) int { return index.Compare(a.Hit, b.Hit) })
	s.hits = s.hits[:min(len(s.hits), maxHitsOf(limit, owners))]
	for _, h := range s.hits {
		all.Hits = append(all.Hits, h.Hit)
	}
	return all, nil
}

// maxHitsOf returns the maximum number of hits with copies.
func maxHitsOf(limit int, owners []peer.ID) int { return limit * (1 + min(len(owners), 3)) }

// check reports whether other peers accept a hit: an archive that was copied may have pages that
// no peer of this network has, and any page may name another as its canonical one.
func (s *localSearch) check(h *index.Hit) bool {
	if s.valid == nil {
		return true
	}
	if h.Canonical != "" && s.valid(h.Canonical) != nil {
		h.Canonical = ""
	}
	w := newHit(*h)
	return w.check(s.valid) == nil
}

func (s *localSearch) snippets(ctx context.Context, shown []int) ([]index.Snippet, error) {
	all := make([]index.Snippet, len(shown))
	for i, n := range shown {
		if n < 0 || n >= len(s.hits) {
			return nil, errOrder
		}
		if ctx.Err() != nil {
			break
		}
		m, in := s.hits[n].Meta, s.hits[n].in
		text, err := in.Index.Text(m)
		if err != nil { // the page is shown without a snippet
			continue
		}
		all[i] = in.reader.Snippet(s.query, m, text)
	}
	return all, nil //nolint:nilerr // see above
}

func (s *localSearch) close() {
	for _, p := range s.parts {
		p.reader.Close()
	}
	if s.using {
		s.from.Copies.Done()
	}
}
