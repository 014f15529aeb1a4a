package search

import (
	"context"
	"errors"

	"peerd/store/index"
)

// Local is the index of this peer.
type Local struct {
	Index *index.Index
	// Text returns the texts of pages, for snippets and phrases.
	Text index.Texter
}

// errOrder means that the steps of a search are out of order.
var errOrder = errors.New("search: steps out of order")

// participant is an index that takes part in a search. Its methods are called in this order.
type participant interface {
	count(ctx context.Context) (index.Counts, error)
	rank(ctx context.Context, sum index.Counts, limit int) (index.Result, error)
	// snippets returns the snippets of some hits of the result, by their places.
	snippets(ctx context.Context, shown []int) ([]index.Snippet, error)
	close()
}

// localSearch is a search in the index of this peer.
type localSearch struct {
	from   *Local
	query  index.Query
	reader *index.Reader
	hits   []index.Hit
}

func (l *Local) begin(q index.Query) (*localSearch, error) {
	r, err := l.Index.Reader()
	if err != nil {
		return nil, err
	}
	return &localSearch{from: l, query: q, reader: r}, nil
}

func (s *localSearch) count(context.Context) (index.Counts, error) {
	return s.reader.Count(s.query)
}

func (s *localSearch) rank(
	ctx context.Context, sum index.Counts, limit int,
) (index.Result, error) {
	res, err := s.reader.Search(ctx, s.query, sum, limit, s.from.Text)
	s.hits = res.Hits
	return res, err
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
		m := s.hits[n].Meta
		text, err := s.from.Text(m)
		if err != nil { // the page is shown without a snippet
			continue
		}
		all[i] = s.reader.Snippet(s.query, m, text)
	}
	return all, nil //nolint:nilerr // see above
}

func (s *localSearch) close() { s.reader.Close() }
