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
	// named checks what shows that an owner has named the peer as its mirror.
	named func(naming []byte) (owner peer.ID, err error)
}

// dial opens a conversation with a peer within Timeout. ctx ends it.
func (s *Service) dial(
	ctx context.Context, p peer.AddrInfo, query string, words int,
) (participant, error) {
	ctx, cancel := context.WithCancel(ctx)
	late := time.AfterFunc(s.Timeout, cancel)
	c, err := s.open(ctx, p)
	if !late.Stop() && err == nil {
		c.Reset()
		err = context.DeadlineExceeded
	}
	if err != nil {
		cancel()
		return nil, err
	}
	named := func(naming []byte) (peer.ID, error) { return s.named(naming, p.ID) }
	return &remoteSearch{conn: c, query: query, words: words, valid: s.Valid, named: named}, nil
}

// open connects to a peer, if need be, and opens a conversation.
func (s *Service) open(ctx context.Context, p peer.AddrInfo) (*wire.Conn, error) {
	if err := s.Host.Connect(ctx, p); err != nil {
		return nil, err
	}
	return wire.Dial(ctx, s.Host, p.ID, wire.Limits{MaxMsg: maxReply, Timeout: s.Timeout},
		s.Protocol)
}

// ask sends a request and receives its reply. The end of ctx ends the conversation.
func (r *remoteSearch) ask(ctx context.Context, q request) (a reply, err error) {
	stop := context.AfterFunc(ctx, r.conn.Reset)
	defer stop()
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

func (r *remoteSearch) count(ctx context.Context) (c counts, err error) {
	a, err := r.ask(ctx, request{Query: r.query})
	if err == nil {
		err = a.checkCounts(r.words)
	}
	c.Counts = index.Counts{Pages: a.Pages, With: a.With}
	for _, n := range a.Copies {
		if owner, err := r.named(n.Naming); err == nil {
			c.copies = append(c.copies, copyCounts{index.Counts{Pages: n.Pages, With: n.With},
				owner, n.Naming, n.Indexed, n.Whole})
		}
	}
	return c, err
}

func (r *remoteSearch) rank(
	ctx context.Context, sum index.Counts, limit int, owners []peer.ID,
) (res index.Result, err error) {
	a, err := r.ask(ctx, request{Rank: &rankRequest{sum.Pages, sum.With, limit, owners}})
	if err == nil {
		err = a.checkHits(maxHitsOf(limit, owners), sum.MaxScore(), r.valid)
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

func (r *remoteSearch) snippets(ctx context.Context, shown []int) ([]index.Snippet, error) {
	a, err := r.ask(ctx, request{Shown: shown})
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
