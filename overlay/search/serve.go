package search

import (
	"context"
	"errors"
	"fmt"
	"time"

	"peerd/overlay/wire"
	"peerd/store"
	"peerd/store/index"
)

// requestRate limits the searches of each peer.
var requestRate = wire.Rate{PerSecond: 4, Burst: 16, TotalFactor: 4}

const (
	// maxAtOnce is the number of steps that are computed at a time for other peers.
	maxAtOnce = 2
	// stepTime bounds the computation of a step, with the wait for its turn.
	stepTime = 2 * time.Second
	// maxSteps is the number of requests of a conversation: a search counts, ranks, asks for links,
	// maxRounds times for snippets, and then maybe again for each of the three.
	maxSteps = 6 + maxRounds
)

var (
	errBusy  = errors.New("busy")
	errHosts = errors.New("links to too many hosts requested")
)

// Serve answers the requests of other peers until the returned Server is closed.
func (s *Service) Serve() *wire.Server {
	s.turns = make(chan struct{}, maxAtOnce)
	return wire.Serve(s.Host, s.Protocol, wire.Limits{MaxMsg: maxRequest, Timeout: s.Timeout},
		s.Logger, s.handle)
}

// handle answers the requests of one search, or of one meeting (ranker).
func (s *Service) handle(ctx context.Context, c *wire.Conn) error {
	var r request
	if err := c.Recv(&r); err != nil {
		return err
	}
	if s.Local == nil {
		return c.Send(reply{NoIndex: true})
	}
	if !s.limiter.Allow(requestRate, c.Peer(), time.Now()) {
		return c.Send(reply{Refused: errBusy.Error()})
	}
	meeting := r.Query == "" && len(r.Linking) > 0
	var q index.Query
	if !meeting {
		var err error
		if q, err = index.Parse(r.Query); err != nil {
			return c.Send(reply{Refused: err.Error()})
		}
	}
	l, err := s.Local.begin(q, s.URLs)
	if err != nil {
		return c.Send(reply{Refused: errBusy.Error()})
	}
	defer l.close()
	if meeting {
		l.askAll()
	}
	for n := range maxSteps {
		step := stepOf(n, r)
		if meeting {
			step = linkingStep
		}
		a, err := s.inTurn(ctx, func(ctx context.Context) (reply, error) { return step(ctx, r, l) })
		if err != nil {
			a = reply{Refused: err.Error()}
		}
		if err := c.Send(a); err != nil || a.Refused != "" {
			return err
		}
		r = request{}
		if err := c.Recv(&r); err != nil {
			return nil // the other peer needs no more
		}
	}
	return nil
}

// stepOf returns how the request number n of a conversation is answered.
func stepOf(n int, r request) func(context.Context, request, *localSearch) (reply, error) {
	switch {
	case n == 0:
		return countStep
	case n == 1, r.Rank != nil:
		return rankStep
	case len(r.Linking) > 0:
		return linkingStep
	}
	return snippetStep
}

// inTurn runs a step when fewer than maxAtOnce others run.
func (s *Service) inTurn(
	ctx context.Context, step func(context.Context) (reply, error),
) (reply, error) {
	ctx, cancel := context.WithTimeout(ctx, min(stepTime, s.Timeout/2))
	defer cancel()
	select {
	case s.turns <- struct{}{}:
		defer func() { <-s.turns }()
		return step(ctx)
	case <-ctx.Done():
		return reply{}, errBusy
	}
}

func countStep(ctx context.Context, _ request, l *localSearch) (a reply, err error) {
	a.Counts, err = l.count(ctx)
	a.Counts.Copies = a.Counts.Copies[:min(len(a.Counts.Copies), MaxCopies)]
	a.fit(0)
	return a, err
}

func rankStep(ctx context.Context, r request, l *localSearch) (a reply, err error) {
	if err := r.Rank.check(len(l.query.Words)); err != nil {
		return a, err
	}
	a.Ranked, err = l.rank(ctx, *r.Rank)
	for i := range a.Ranked.Hits {
		a.Ranked.Hits[i].Archive = store.Location{}
	}
	a.fit(r.Rank.Limit)
	return a, err
}

func linkingStep(ctx context.Context, r request, l *localSearch) (a reply, err error) {
	if len(r.Linking) > maxAsked {
		return a, errHosts
	}
	a.Ranked.Linking, err = l.linking(ctx, r.Linking)
	return a, err
}

func snippetStep(ctx context.Context, r request, l *localSearch) (a reply, err error) {
	if len(r.Shown) > MaxResults {
		return a, fmt.Errorf("%d snippets requested", len(r.Shown))
	}
	a.Ranked.Snippets, err = l.snippets(ctx, r.Shown)
	return a, err
}
