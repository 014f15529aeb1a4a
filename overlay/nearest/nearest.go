package nearest

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

	"peerd/coords"
	"peerd/coords/zone"
	"peerd/overlay/peers"
	"peerd/overlay/wire"
)

var (
	// ErrNobody says that no other peer is known.
	ErrNobody = errors.New("nearest: no other peer is known")
	// ErrAnswer says that a peer answered what no honest one would.
	ErrAnswer = errors.New("nearest: bad answer")
	// ErrRefused says that a peer did not want to answer.
	ErrRefused = errors.New("nearest: refused")
)

// Peers is who is known; given by peers.Service.
type Peers interface {
	Self() peers.Beacon
	Directory() *peers.Directory
	Check(peers.Aged) (peers.Beacon, error)
	Learn(peers.Aged) (peers.Beacon, error)
}

var _ Peers = (*peers.Service)(nil)

// answerRate bounds the answers that are given: they are a few kB each. Who asks
// too often is not the reason for which others get none.
var answerRate = wire.Rate{PerSecond: 16, AtOnce: 32, Together: 4}

// Service searches, and answers those who do. Its methods may be called at
// once.
type Service struct {
	Host     host.Host
	Protocol protocol.ID
	Peers    Peers
	// Search bounds a search.
	Search zone.SearchConfig
	// Timeout bounds asking one peer, connecting included.
	Timeout time.Duration
	// Logger is nil to discard.
	Logger *slog.Logger

	given wire.Limiter
}

// Serve answers other peers' questions until the Server is closed.
func (s *Service) Serve() *wire.Server {
	return wire.Serve(s.Host, s.Protocol, s.limits(maxAsk), s.Logger, s.handle)
}

func (s *Service) limits(most int) wire.Limits { return wire.Limits{MaxMsg: most, Timeout: s.Timeout} }

// Nearest returns at most k other peers of the least cost for a target, best
// first, and how many hops it took to find them: none where the directory holds
// everybody. They are in the directory then. The errors wrap ErrNobody, the
// end of ctx, or say what is wrong with the target.
func (s *Service) Nearest(ctx context.Context, target coords.Proxy, k int) (found []peers.Beacon, hops int, err error) {
	q := ask{Target: target, K: min(max(k, 1), maxFound)}
	if err := q.validate(len(s.Peers.Self().At.Vec)); err != nil {
		return nil, 0, err
	}
	search, err := zone.NewSearch(target.At, s.Search)
	if err != nil {
		return nil, 0, fmt.Errorf("nearest: %w", err)
	}
	known := map[peer.ID]peers.Beacon{}
	passed := map[peer.ID]peers.Aged{}
	dir := s.Peers.Directory()
	for _, b := range dir.All() {
		known[b.Peer] = b
		if a, ok := dir.Passed(b.Peer); ok {
			passed[b.Peer] = a // it may leave the directory while others are asked
		}
		search.Add(foundOf(target, b))
	}
	if len(known) == 0 {
		return nil, 0, ErrNobody
	}
	// More than are wanted are asked for: half of an answer is who knows more.
	q.K = min(2*q.K+2, maxFound)
	for dir.Partial() {
		next := search.Next()
		if len(next) == 0 {
			break
		}
		for i, r := range s.askAll(ctx, next, q, known) {
			if r.err != nil {
				s.debug("a peer was asked in vain who is near", "peer", peer.ID(next[i].ID), "err", r.err)
				if !errors.Is(r.err, ErrRefused) { // whoever is merely busy may still be the best
					search.Gone(next[i].ID)
				}
				continue
			}
			for j, b := range r.beacons {
				if old, ok := known[b.Peer]; b.Peer != s.Host.ID() && (!ok || old.Seq < b.Seq) {
					known[b.Peer], passed[b.Peer] = b, r.passed[j]
					search.Add(foundOf(target, b))
				}
			}
		}
		if ctx.Err() != nil {
			return nil, search.Hops(), fmt.Errorf("nearest: %w", ctx.Err())
		}
	}
	for _, f := range search.Best(len(known)) {
		if len(found) == k {
			break
		}
		b := known[peer.ID(f.ID)]
		if b, err = s.Peers.Learn(passed[b.Peer]); err != nil {
			continue // its time is over
		}
		found = append(found, b)
	}
	return found, search.Hops(), nil
}

// foundOf is a beacon in the words of a search.
func foundOf(target coords.Proxy, b peers.Beacon) zone.Found {
	at := b.At.Unloaded(b.Wait)
	cost := target.Predict(at, 0) + b.Wait // a page's bytes cost the same at all
	return zone.Found{Peer: zone.Peer{ID: string(b.Peer), At: at}, Cost: float64(cost) / float64(time.Millisecond)}
}

// reply is what came of asking one peer.
type reply struct {
	beacons []peers.Beacon
	passed  []peers.Aged
	err     error
}

// askAll asks some peers at once.
func (s *Service) askAll(ctx context.Context, next []zone.Peer, q ask, known map[peer.ID]peers.Beacon) []reply {
	replies := make([]reply, len(next))
	var g sync.WaitGroup
	for i, p := range next {
		info := known[peer.ID(p.ID)].Info()
		g.Go(func() { replies[i] = s.ask(ctx, info, q) })
	}
	g.Wait()
	return replies
}

// ask asks one peer and checks what it says. One bad beacon spoils all of the
// answer.
func (s *Service) ask(ctx context.Context, to peer.AddrInfo, q ask) (r reply) {
	ctx, cancel := context.WithTimeout(ctx, s.Timeout)
	defer cancel()
	if r.err = s.Host.Connect(ctx, to); r.err != nil {
		return r
	}
	c, err := wire.Dial(ctx, s.Host, to.ID, s.limits(maxAnswer), s.Protocol)
	if err != nil {
		r.err = err
		return r
	}
	defer func() { c.End(r.err) }()
	var a answer
	if r.err = errors.Join(c.Send(q), c.Recv(&a)); r.err != nil {
		return r
	}
	switch {
	case a.Refused != "":
		r.err = fmt.Errorf("%w: %.*q", ErrRefused, maxReason, a.Refused)
		return r
	case len(a.Found) > q.K:
		r.err = fmt.Errorf("%w: %d peers, asked for %d", ErrAnswer, len(a.Found), q.K)
		return r
	}
	for _, f := range a.Found {
		b, err := s.Peers.Check(f)
		switch {
		case errors.Is(err, peers.ErrTime):
		case err != nil:
			return reply{err: fmt.Errorf("%w: %w", ErrAnswer, err)}
		default:
			r.beacons, r.passed = append(r.beacons, b), append(r.passed, f)
		}
	}
	return r
}

// handle answers one question.
func (s *Service) handle(_ context.Context, c *wire.Conn) error {
	var q ask
	if err := c.Recv(&q); err != nil {
		return err
	}
	if err := q.validate(len(s.Peers.Self().At.Vec)); err != nil {
		return c.Send(answer{Refused: err.Error()})
	}
	if !s.given.Allow(answerRate, c.Peer(), time.Now()) {
		return c.Send(answer{Refused: "busy"})
	}
	return c.Send(answer{Found: s.near(q, c.Peer())})
}

// near lists who of the directory helps, but for the one who asks.
func (s *Service) near(q ask, from peer.ID) []peers.Aged {
	dir := s.Peers.Directory()
	var known []zone.Found
	for _, b := range dir.All() {
		if b.Peer != from {
			known = append(known, foundOf(q.Target, b))
		}
	}
	var out []peers.Aged
	for _, i := range zone.Answer(q.Target.At, known, q.K) {
		if a, ok := dir.Passed(peer.ID(known[i].ID)); ok {
			out = append(out, a)
		}
	}
	return out
}

func (s *Service) debug(msg string, args ...any) {
	if s.Logger != nil {
		s.Logger.Debug(msg, args...)
	}
}
