package search

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/overlay/wire"
	"peerd/store"
	"peerd/store/index"
)

// errNoIndex means that a peer has no index.
var errNoIndex = errors.New("the peer has no index")

// remoteSearch is a search at another peer.
type remoteSearch struct {
	conn  *wire.Conn
	query string
	words int
	valid func(store.URL) error
}

// dial opens a conversation with a peer. ctx ends it.
func (s *Service) dial(
	ctx context.Context, p peer.AddrInfo, query string, words int,
) (participant, error) {
	connecting, cancel := context.WithTimeout(ctx, s.Timeout)
	defer cancel()
	if err := s.Host.Connect(connecting, p); err != nil {
		return nil, err
	}
	c, err := wire.Dial(ctx, s.Host, p.ID, wire.Limits{MaxMsg: maxReply, Timeout: s.Timeout},
		s.Protocol)
	if err != nil {
		return nil, err
	}
	return &remoteSearch{conn: c, query: query, words: words, valid: s.Valid}, nil
}

// ask sends a request and receives its reply.
func (r *remoteSearch) ask(q request) (a reply, err error) {
	if err := errors.Join(r.conn.Send(q), r.conn.Recv(&a)); err != nil {
		return a, err
	}
	switch {
	case a.NoIndex:
		return a, errNoIndex
	case a.Refused != "":
		return a, fmt.Errorf("refused: %.*q", maxReason, a.Refused)
	}
	return a, nil
}

func (r *remoteSearch) count(context.Context) (index.Counts, error) {
	a, err := r.ask(request{Query: r.query})
	if err == nil {
		err = a.checkCounts(r.words)
	}
	return index.Counts{Pages: a.Pages, With: a.With}, err
}

func (r *remoteSearch) rank(
	_ context.Context, sum index.Counts, limit int,
) (res index.Result, err error) {
	a, err := r.ask(request{Rank: &rankRequest{sum.Pages, sum.With, limit}})
	if err == nil {
		err = a.checkHits(limit, sum.MaxScore(), r.valid)
	}
	if err != nil {
		return res, err
	}
	res.Total, res.Partial = a.Total, a.Partial
	for _, h := range a.Hits {
		res.Hits = append(res.Hits, index.Hit{Score: math.Abs(h.Score), Meta: index.Meta{
			URL: h.URL, Title: h.Title, Type: h.Type, Language: h.Language,
			FetchedAt: time.Unix(h.FetchedAt, 0).UTC(), Digest: h.Digest, Canonical: h.Canonical,
		}})
	}
	return res, nil
}

func (r *remoteSearch) snippets(_ context.Context, shown []int) ([]index.Snippet, error) {
	a, err := r.ask(request{Shown: shown})
	if err == nil {
		err = a.checkSnippets(len(shown))
	}
	if err != nil {
		return nil, err
	}
	all := make([]index.Snippet, len(a.Snippets))
	for i, s := range a.Snippets {
		all[i].Text = s.Text
		for m := s.Marks; len(m) > 1; m = m[2:] {
			all[i].Marks = append(all[i].Marks, [2]int{m[0], m[1]})
		}
	}
	return all, nil
}

func (r *remoteSearch) close() { r.conn.Reset() }
