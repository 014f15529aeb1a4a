package search

import (
	"context"
	"errors"
	"fmt"
	"time"

	"peerd/overlay/wire"
	"peerd/store/index"
)

// requestRate limits the searches of each peer.
var requestRate = wire.Rate{PerSecond: 4, Burst: 16, TotalFactor: 4}

const (
	// maxAtOnce is the number of steps that are computed at a time for other peers.
	maxAtOnce = 2
	// stepTime bounds the computation of a step, with the wait for its turn.
	stepTime = 2 * time.Second
)

var errBusy = errors.New("busy")

// Serve answers the requests of other peers until the returned Server is closed.
func (s *Service) Serve() *wire.Server {
	s.turns = make(chan struct{}, maxAtOnce)
	return wire.Serve(s.Host, s.Protocol, wire.Limits{MaxMsg: maxRequest, Timeout: s.Timeout},
		s.Logger, s.handle)
}

// handle answers the requests of one search.
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
	q, err := index.Parse(r.Query)
	if err != nil {
		return c.Send(reply{Refused: err.Error()})
	}
	l, err := s.Local.begin(q, s.Valid)
	if err != nil {
		return c.Send(reply{Refused: errBusy.Error()})
	}
	defer l.close()
	for _, step := range []func(context.Context, request, *localSearch) (reply, error){
		countStep, rankStep, snippetStep,
	} {
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

func countStep(ctx context.Context, _ request, l *localSearch) (reply, error) {
	c, err := l.count(ctx)
	a := reply{Pages: c.Pages, With: c.With}
	for _, n := range c.copies[:min(len(c.copies), MaxCopies)] {
		a.Copies = append(a.Copies, copyReply{n.naming, n.indexed, n.whole, n.Pages,
			n.With})
	}
	return a, err
}

func rankStep(ctx context.Context, r request, l *localSearch) (reply, error) {
	if err := r.Rank.check(len(l.query.Words)); err != nil {
		return reply{}, err
	}
	sum := index.Counts{Pages: r.Rank.Pages, With: r.Rank.With}
	res, err := l.rank(ctx, sum, r.Rank.Limit, r.Rank.Copies)
	a := reply{Total: res.Total, Partial: res.Partial}
	for _, h := range res.Hits {
		a.Hits = append(a.Hits, newHit(h))
	}
	return a, err
}

func snippetStep(ctx context.Context, r request, l *localSearch) (reply, error) {
	if len(r.Shown) > MaxResults {
		return reply{}, fmt.Errorf("%d snippets requested", len(r.Shown))
	}
	all, err := l.snippets(ctx, r.Shown)
	var a reply
	for _, s := range all {
		w := snippet{Text: s.Text}
		for _, m := range s.Marks[:min(len(s.Marks), maxMarks)] {
			w.Marks = append(w.Marks, m[0], m[1])
		}
		a.Snippets = append(a.Snippets, w)
	}
	return a, err
}
