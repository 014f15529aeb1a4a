package search

import (
	"context"
	"errors"
	"fmt"
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
	stop  context.CancelFunc // of the conversation's context
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
	return &remoteSearch{conn: c, stop: cancel, query: query, words: words, urls: s.URLs,
		peer: p.ID, by: s}, nil
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

func (r *remoteSearch) count(ctx context.Context) (counts, error) {
	a, err := r.ask(ctx, request{Query: r.query})
	if err == nil {
		err = a.Counts.check(r.words)
	}
	if err != nil {
		return counts{}, err
	}
	named := a.Counts.Copies[:0]
	for _, c := range a.Counts.Copies {
		var refused error
		if c.owner, refused = r.by.named(c.Naming, r.peer); refused == nil {
			named = append(named, c)
		}
	}
	a.Counts.Copies = named
	return a.Counts, nil
}

func (r *remoteSearch) rank(ctx context.Context, q ranking) (ranked, error) {
	a, err := r.ask(ctx, request{Rank: &q})
	if err == nil {
		err = errors.Join(
			a.Ranked.checkHits(maxHitsOf(q.Limit, q.Owners), q.Sum.MaxScore(), r.urls),
			checkSnippets(a.Ranked.Snippets, len(a.Ranked.Hits)),
			checkLinking(a.Ranked.Linking, len(q.Hosts)))
	}
	return a.Ranked, err
}

func (r *remoteSearch) linking(ctx context.Context, hosts []string) ([][]index.Linker, error) {
	a, err := r.ask(ctx, request{Linking: hosts})
	if err == nil {
		err = checkLinking(a.Ranked.Linking, len(hosts))
	}
	return a.Ranked.Linking, err
}

func (r *remoteSearch) snippets(ctx context.Context, shown []int) ([]index.Snippet, error) {
	a, err := r.ask(ctx, request{Shown: shown})
	if got := a.Ranked.Snippets; err == nil && len(got) != len(shown) {
		err = fmt.Errorf("%w: %d snippets, want %d", ErrAnswer, len(got), len(shown))
	}
	if err == nil {
		err = checkSnippets(a.Ranked.Snippets, len(shown))
	}
	return a.Ranked.Snippets, err
}

func (r *remoteSearch) close() {
	r.conn.Reset()
	r.stop()
}
