package search

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"

	"peerd/overlay/wire"
	"peerd/store"
	"peerd/store/index"
)

// ErrRange means that more than MaxResults hits were asked for.
var ErrRange = fmt.Errorf("search: want hits among the first %d", MaxResults)

// Service searches the indexes of all peers, and answers the requests of others. Its fields are
// set before its methods are called, which may be concurrent.
type Service struct {
	Host     host.Host
	Protocol protocol.ID
	Network  string
	// Local is the index of this peer; nil: it has none.
	Local *Local
	// Peers returns the other peers to ask.
	Peers wire.Peers
	// URLs checks the URLs that another peer sent.
	URLs store.URLChecker
	// Timeout bounds connecting to a peer, and each of the three steps.
	Timeout time.Duration
	// Logger may be nil.
	Logger *slog.Logger

	limiter wire.Limiter
	turns   chan struct{}
	known   factors
}

// Result is the result of a search.
type Result struct {
	Hits []Hit // best first
	// Total is the number of pages that match at all peers together, with copies.
	Total int
	// Partial says that a peer that answered did not look at all of its pages.
	Partial bool
	// Answered, Copied, NoIndex and Failed count the peers, with this one: those that answered
	// all they were asked, those of which a copy was searched, those without an index, and those
	// that did not answer, which may have more.
	Answered, Copied, NoIndex, Failed int
}

// Hit is a page that was found.
type Hit struct {
	index.Hit
	Snippet index.Snippet
	Peer    peer.ID // that has it, or a copy of it
}

// member is a peer that takes part in a search, in the state that err says.
type member struct {
	id     peer.ID
	info   peer.AddrInfo // of another peer
	part   participant
	counts counts
	owners []peer.ID // of the copies that it searches
	result ranked
	err    error   // why it does not take part, or no longer
	by     *member // that searches a copy in its place
}

// Search returns the hits from offset on, at most limit, of all peers together. Errors match
// index.ErrQuery or ErrRange, or are those of ctx. That a peer fails is not an error.
func (s *Service) Search(ctx context.Context, query string, offset, limit int) (Result, error) {
	q, err := parse(query, offset, limit)
	if err != nil {
		return Result{}, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	all := append(s.others(), &member{id: s.Host.ID(), err: errNoIndex})
	if s.Local != nil {
		all[len(all)-1] = s.Local.member(s.Host.ID(), q, s.URLs)
	}
	each(all, func(m *member) {
		if m.part == nil {
			if m.part, m.err = s.dial(ctx, m.info, query, len(q.Words)); m.err != nil {
				m.part = nil
			}
		}
	})
	r, err := (&run{all: all, timeout: s.Timeout, phrases: len(q.Phrases) > 0, known: &s.known}).
		search(ctx, offset, limit)
	if s.Logger != nil {
		for _, m := range all {
			if m.err != nil && !errors.Is(m.err, errNoIndex) {
				s.Logger.Debug("failed to search at peer", "peer", m.id, "err", m.err)
			}
		}
	}
	return r, err
}

// Search is Service.Search for this index alone.
func (l *Local) Search(ctx context.Context, query string, offset, limit int) (Result, error) {
	q, err := parse(query, offset, limit)
	if err != nil {
		return Result{}, err
	}
	m := l.member("", q, nil)
	if m.err != nil {
		return Result{}, m.err
	}
	alone := &run{all: []*member{m}, timeout: aloneTimeout, phrases: len(q.Phrases) > 0,
		known: &factors{}}
	r, err := alone.search(ctx, offset, limit)
	return r, errors.Join(err, m.err)
}

// aloneTimeout bounds the steps of a search in one index.
const aloneTimeout = time.Minute

func parse(query string, offset, limit int) (index.Query, error) {
	if offset < 0 || limit < 1 || offset > MaxResults || limit > MaxResults-offset {
		return index.Query{}, ErrRange
	}
	return index.Parse(query)
}

// others returns the other peers.
func (s *Service) others() (all []*member) {
	for _, p := range s.Peers.Infos() {
		all = append(all, &member{id: p.ID, info: p})
	}
	return all
}

// member returns this index as a member.
func (l *Local) member(id peer.ID, q index.Query, urls store.URLChecker) *member {
	part, err := l.begin(q, urls)
	if err != nil {
		return &member{id: id, err: err}
	}
	return &member{id: id, part: part}
}

// each calls fn concurrently for the members that take part.
func each(all []*member, fn func(*member)) {
	var g sync.WaitGroup
	for _, m := range all {
		if m.err == nil {
			g.Go(func() { fn(m) })
		}
	}
	g.Wait()
}

// summarize returns the result.
func summarize(all []*member, hits []Hit) Result {
	r := Result{Hits: hits}
	for _, m := range all {
		switch {
		case m.by != nil && m.by.err == nil:
			r.Copied++
		case m.err == nil:
			r.Answered++
			r.Total += m.result.Total
			r.Partial = r.Partial || m.result.Partial
		case errors.Is(m.err, errNoIndex):
			r.NoIndex++
		default:
			r.Failed++
		}
	}
	return r
}
