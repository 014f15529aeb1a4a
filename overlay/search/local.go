package search

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/internal/order"
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
	// Ranks are those of the sources in Index and in Copies; nil: they do not count.
	Ranks *index.Ranks
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
// called in this order, the last two any number of times.
type participant interface {
	count(ctx context.Context) (counts, error)
	// rank returns the hits in the index and in the copies of the owners. It may be called again.
	rank(ctx context.Context, q ranking) (ranked, error)
	// linking returns the sources of the links to some hosts.
	linking(ctx context.Context, hosts []string) ([][]index.Linker, error)
	// snippets returns the snippets of some hits of the result, by their places.
	snippets(ctx context.Context, shown []int) ([]index.Snippet, error)
	close()
}

// localSearch is a search in the index of this peer, and in copies.
type localSearch struct {
	from  *Local
	query index.Query
	urls  store.URLChecker // nil: pages are not checked
	own   *index.Reader
	using bool // the copies
	parts []part
	asked []*part // that are searched
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

func (l *Local) begin(q index.Query, urls store.URLChecker) (*localSearch, error) {
	r, err := l.Index.Reader()
	if err != nil {
		return nil, err
	}
	s := &localSearch{from: l, query: q, urls: urls, own: r}
	s.parts = []part{{Copy{Index: l, Whole: true}, r}}
	return s, nil
}

func (s *localSearch) count(ctx context.Context) (c counts, err error) {
	if c.Counts, err = s.own.Count(s.query); err != nil {
		return c, err
	}
	if s.urls != nil { // other peers take part
		if c.Hosts, err = s.likelyHosts(ctx, c.Counts); err != nil {
			return c, err
		}
	}
	for _, p := range s.join() {
		n := copyCounts{owner: p.Owner, Naming: p.Naming, Whole: p.Whole}
		if p.reader != nil {
			n.Counts, err = p.reader.Count(s.query)
			n.Indexed = err == nil
		}
		c.Copies = append(c.Copies, n)
	}
	return c, nil
}

// join opens the copies, and returns also those without an index. A copy of which the index cannot
// be read counts as one of these: other pages are found without it.
func (s *localSearch) join() (all []part) {
	if s.from.Copies == nil {
		return nil
	}
	s.using = true
	for _, cp := range s.from.Copies.Use() {
		p := part{Copy: cp}
		if cp.Index != nil {
			if r, err := cp.Index.Index.Reader(); err == nil {
				p.reader = r
				s.parts = append(s.parts, p)
			}
		}
		all = append(all, p)
	}
	return all
}

// askAll has linking look at all indexes.
func (s *localSearch) askAll() {
	s.join()
	for i := range s.parts {
		s.asked = append(s.asked, &s.parts[i])
	}
}

func (s *localSearch) rank(ctx context.Context, q ranking) (all ranked, err error) {
	s.asked, s.hits = nil, nil
	for i := range s.parts {
		p := &s.parts[i]
		if p.reader != s.own && !slices.Contains(q.Owners, p.Owner) {
			continue
		}
		s.asked = append(s.asked, p)
		var text index.Texter
		if q.Verify {
			text = p.Index.Text
		}
		res, err := p.reader.Search(ctx, s.query, q.Sum, q.Limit, text)
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
	order.SortFunc(s.hits, func(a, b place) int { return index.Compare(a.Hit, b.Hit) })
	s.hits = s.hits[:min(len(s.hits), maxHitsOf(q.Limit, q.Owners))]
	for _, h := range s.hits {
		all.Hits = append(all.Hits, h.Hit)
	}
	began := time.Now()
	for n, wanted := 0, q.Snippets; n < len(s.hits) && wanted > 0; n++ {
		if ctx.Err() != nil || time.Since(began) > spareTime {
			break
		}
		made := s.snippet(n)
		if !made.Lacks {
			wanted--
		}
		all.Snippets = append(all.Snippets, made)
	}
	if len(q.Hosts) > 0 {
		all.Linking, err = s.linking(ctx, q.Hosts)
	}
	return all, err
}

// spareTime is how long snippets are made that may not be needed.
const spareTime = 150 * time.Millisecond

// likelyHosts returns the hosts of the best pages by the counts of this index.
func (s *localSearch) likelyHosts(ctx context.Context, c index.Counts) (hosts []string, err error) {
	q := s.query
	q.Phrases = nil
	res, err := s.own.Search(ctx, q, c, maxLikely, nil)
	for _, h := range res.Hits {
		if host := h.URL.Host(); !slices.Contains(hosts, host) {
			hosts = append(hosts, host)
		}
	}
	return hosts, err
}

// maxHitsOf returns the maximum number of hits with copies.
func maxHitsOf(limit int, owners []peer.ID) int { return limit * (1 + min(len(owners), 3)) }

// check reports whether other peers accept a hit: an archive that was copied may have pages that
// no peer of this network has, and any page may name another as its canonical one.
func (s *localSearch) check(h *index.Hit) bool {
	if s.urls == nil {
		return true
	}
	if h.Canonical != "" && s.urls.Check(h.Canonical) != nil {
		h.Canonical = ""
	}
	return checkMeta(&h.Meta, s.urls) == nil
}

func (s *localSearch) linking(
	ctx context.Context, hosts []string,
) (all [][]index.Linker, err error) {
	for _, host := range hosts {
		var sources []index.Source
		for _, p := range s.asked {
			some, err := p.reader.Linking(host)
			if err = errors.Join(err, ctx.Err()); err != nil {
				return nil, err
			}
			sources = append(sources, some...)
		}
		all = append(all, index.LeastLinkers(s.from.Ranks.Linkers(host, sources), index.MaxLinking))
	}
	return all, nil
}

func (s *localSearch) snippets(ctx context.Context, shown []int) ([]index.Snippet, error) {
	all := make([]index.Snippet, len(shown))
	for i, n := range shown {
		if n < 0 || n >= len(s.hits) {
			return nil, errOrder
		}
		if all[i].Lacks = len(s.query.Phrases) > 0; ctx.Err() == nil {
			all[i] = s.snippet(n)
		}
	}
	return all, nil
}

// snippet returns the snippet of a hit. A page of which the text cannot be read has none, and no
// phrase.
func (s *localSearch) snippet(n int) index.Snippet {
	m, in := s.hits[n].Meta, s.hits[n].in
	text, err := in.Index.Text(m)
	if err != nil {
		return index.Snippet{Lacks: len(s.query.Phrases) > 0}
	}
	made := in.reader.Snippet(s.query, m, text)
	made.Marks = made.Marks[:min(len(made.Marks), maxMarks)]
	return made
}

func (s *localSearch) close() {
	for _, p := range s.parts {
		p.reader.Close()
	}
	if s.using {
		s.from.Copies.Done()
	}
}
