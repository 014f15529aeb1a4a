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
	urls  store.URLChecker
	peer  peer.ID
	by    *Service // checks what shows that an owner has named the peer as its mirror
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
	return &remoteSearch{conn: c, query: query, words: words, urls: s.URLs, peer: p.ID, by: s}, nil
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
	c.Counts = index.Counts{Pages: a.Pages, With: a.With, Anchors: openAnchors(a.Anchors)}
	c.hosts = a.Hosts
	for _, n := range a.Copies {
		if owner, err := r.by.named(n.Naming, r.peer); err == nil {
			c.copies = append(c.copies, copyCounts{index.Counts{Pages: n.Pages, With: n.With,
				Anchors: openAnchors(n.Anchors)}, owner, n.Naming, n.Indexed, n.Whole})
		}
	}
	return c, err
}

func (r *remoteSearch) rank(ctx context.Context, q ranking) (res ranked, err error) {
	a, err := r.ask(ctx, request{Linking: q.hosts, Rank: &rankRequest{q.sum.Pages, q.sum.With,
		q.limit, q.owners, newAnchors(q.sum.Anchors), q.verify, q.snippets}})
	if err == nil {
		res.linking, err = a.linking(len(q.hosts))
		err = errors.Join(a.checkHits(maxHitsOf(q.limit, q.owners), q.sum.MaxScore(), r.urls),
			a.checkSnippets(len(a.Hits)), err)
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
	res.snippets = a.openSnippets()
	return res, nil
}

func (r *remoteSearch) linking(
	ctx context.Context, hosts []string,
) ([][]index.Linker, error) {
	a, err := r.ask(ctx, request{Linking: hosts})
	if err != nil {
		return nil, err
	}
	return a.linking(len(hosts))
}

func (r *remoteSearch) snippets(ctx context.Context, shown []int) ([]index.Snippet, error) {
	a, err := r.ask(ctx, request{Shown: shown})
	if err == nil && len(a.Snippets) != len(shown) {
		err = fmt.Errorf("%w: %d snippets, want %d", ErrAnswer, len(a.Snippets), len(shown))
	}
	if err == nil {
		err = a.checkSnippets(len(shown))
	}
	return a.openSnippets(), err
}

func (r *reply) openSnippets() []index.Snippet {
	all := make([]index.Snippet, len(r.Snippets))
	for i, s := range r.Snippets {
		all[i].Text, all[i].Lacks = s.Text, s.Lacks
		for m := s.Marks; len(m) > 1; m = m[2:] {
			all[i].Marks = append(all[i].Marks, [2]int{m[0], m[1]})
		}
	}
	return all
}

func (r *remoteSearch) close() { r.conn.Reset() }
