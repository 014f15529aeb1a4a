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
	// ErrNoPeers means that no other peer is known.
	ErrNoPeers = errors.New("nearest: no other peer known")
	// ErrAnswer means that a peer sent a response that no honest peer sends.
	ErrAnswer = errors.New("nearest: bad answer")
	// ErrRefused means that a peer refused to answer.
	ErrRefused = errors.New("nearest: refused")
)

// Peers provides the known peers. peers.Service implements it.
type Peers interface {
	Self() peers.Beacon
	Directory() *peers.Directory
	Verify(peers.RelayedBeacon) (peers.Beacon, error)
	Learn(peers.RelayedBeacon) (peers.Beacon, error)
}

var _ Peers = (*peers.Service)(nil)

// responseRate limits the responses to each peer, which are a few kB each.
var responseRate = wire.Rate{PerSecond: 16, Burst: 32, TotalFactor: 4}

// Service finds near peers and answers the requests of others. Its methods may be called
// concurrently.
type Service struct {
	Host     host.Host
	Protocol protocol.ID
	Peers    Peers
	// Search bounds a search.
	Search zone.SearchConfig
	// Timeout bounds the request to one peer, including connecting.
	Timeout time.Duration
	// Logger may be nil.
	Logger *slog.Logger

	limiter wire.Limiter
}

// Serve answers requests until the returned Server is closed.
func (s *Service) Serve() *wire.Server {
	return wire.Serve(s.Host, s.Protocol, s.limits(maxRequest), s.Logger, s.handle)
}

func (s *Service) limits(most int) wire.Limits {
	return wire.Limits{MaxMsg: most, Timeout: s.Timeout}
}

// Nearest returns at most k other peers with the lowest cost for a target, best first, and the
// number of hops of the search. If the directory contains all peers, it searches only there,
// with no hops. The peers found are added to the directory. Errors wrap ErrNoPeers or the error
// of ctx, or describe what is wrong with the target.
func (s *Service) Nearest(
	ctx context.Context, target coords.Proxy, k int,
) (found []peers.Beacon, hops int, err error) {
	q := request{Target: target, K: min(max(k, 1), maxFound)}
	if err := q.validate(len(s.Peers.Self().At.Vec)); err != nil {
		return nil, 0, err
	}
	search, err := zone.NewSearch(target.At, s.Search)
	if err != nil {
		return nil, 0, fmt.Errorf("nearest: %w", err)
	}
	known := map[peer.ID]peers.Beacon{}
	passed := map[peer.ID]peers.RelayedBeacon{}
	dir := s.Peers.Directory()
	for _, b := range dir.All() {
		known[b.Peer] = b
		if a, ok := dir.Relayed(b.Peer); ok {
			passed[b.Peer] = a // it may be evicted during the search
		}
		search.Add(candidate(target, b))
	}
	if len(known) == 0 {
		return nil, 0, ErrNoPeers
	}
	// Ask for more than k: half of a response are peers that are near the target, which
	// know more, rather than of low cost.
	q.K = min(2*q.K+2, maxFound)
	for dir.Partial() {
		next := search.Next()
		if len(next) == 0 {
			break
		}
		for i, r := range s.queryAll(ctx, next, q, known) {
			if r.err != nil {
				s.debug("failed to query peer", "peer", peer.ID(next[i].ID), "err",
					r.err)
				if !errors.Is(r.err, ErrRefused) { // a busy peer may still be the best
					search.MarkFailed(next[i].ID)
				}
				continue
			}
			for j, b := range r.beacons {
				if old, ok := known[b.Peer]; b.Peer != s.Host.ID() && (!ok || old.Seq < b.Seq) {
					known[b.Peer], passed[b.Peer] = b, r.passed[j]
					search.Add(candidate(target, b))
				}
			}
		}
		if ctx.Err() != nil {
			return nil, search.Hops(), fmt.Errorf("nearest: %w", ctx.Err())
		}
	}
	return s.learn(ctx, search.Best(len(known)), k, known, passed), search.Hops(), nil
}

// learn adds the first k of the peers found to the directory that can be reached. Some of them
// only a stranger may have told of; a connection proves that they exist.
func (s *Service) learn(
	ctx context.Context, best []zone.Found, k int, known map[peer.ID]peers.Beacon,
	passed map[peer.ID]peers.RelayedBeacon,
) (found []peers.Beacon) {
	for len(best) > 0 && len(found) < k && ctx.Err() == nil {
		batch := best[:min(len(best), k-len(found))]
		best = best[len(batch):]
		learned := make([]*peers.Beacon, len(batch))
		var g sync.WaitGroup
		for i, f := range batch {
			id := peer.ID(f.ID)
			g.Go(func() {
				if !s.reach(ctx, known[id].Info()) {
					return
				}
				if b, err := s.Peers.Learn(passed[id]); err == nil { // or it has expired
					learned[i] = &b
				}
			})
		}
		g.Wait()
		for _, b := range learned {
			if b != nil {
				found = append(found, *b)
			}
		}
	}
	return found
}

// reach reports whether a peer is known by more than hearsay, or can be connected to.
func (s *Service) reach(ctx context.Context, info peer.AddrInfo) bool {
	dir := s.Peers.Directory()
	if _, ok := dir.Get(info.ID); ok && !dir.Hearsay(info.ID) {
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, s.Timeout)
	defer cancel()
	if err := s.Host.Connect(ctx, info); err != nil {
		s.debug("failed to reach peer", "peer", info.ID, "err", err)
		return false
	}
	dir.Touch(info.ID)
	return true
}

// candidate converts a beacon for a search.
func candidate(target coords.Proxy, b peers.Beacon) zone.Found {
	at := b.At.Unloaded(b.Wait)
	cost := target.Predict(at, 0) + b.Wait // the transfer time of a page is the same at all peers
	return zone.Found{Peer: zone.Peer{ID: string(b.Peer), At: at},
		Cost: float64(cost) / float64(time.Millisecond)}
}

// queryResult is the result of asking one peer.
type queryResult struct {
	beacons []peers.Beacon
	passed  []peers.RelayedBeacon
	err     error
}

// queryAll asks several peers concurrently.
func (s *Service) queryAll(
	ctx context.Context, next []zone.Peer, q request, known map[peer.ID]peers.Beacon,
) []queryResult {
	replies := make([]queryResult, len(next))
	var g sync.WaitGroup
	for i, p := range next {
		info := known[peer.ID(p.ID)].Info()
		g.Go(func() { replies[i] = s.query(ctx, info, q) })
	}
	g.Wait()
	return replies
}

// query asks one peer and verifies its response. One invalid beacon invalidates the whole
// response.
func (s *Service) query(ctx context.Context, to peer.AddrInfo, q request) (r queryResult) {
	ctx, cancel := context.WithTimeout(ctx, s.Timeout)
	defer cancel()
	if r.err = s.Host.Connect(ctx, to); r.err != nil {
		return r
	}
	var a response
	r.err = wire.Ask(ctx, s.Host, to.ID, s.limits(maxResponse), s.Protocol, q, &a)
	if r.err != nil {
		return r
	}
	switch {
	case a.Refused != "":
		r.err = fmt.Errorf("%w: %.*q", ErrRefused, maxReason, a.Refused)
		return r
	case len(a.Found) > q.K:
		r.err = fmt.Errorf("%w: %d peers, want at most %d", ErrAnswer, len(a.Found), q.K)
		return r
	}
	for _, f := range a.Found {
		b, err := s.Peers.Verify(f)
		switch {
		case errors.Is(err, peers.ErrTime):
		case err != nil:
			return queryResult{err: fmt.Errorf("%w: %w", ErrAnswer, err)}
		default:
			r.beacons, r.passed = append(r.beacons, b), append(r.passed, f)
		}
	}
	return r
}

// handle answers one request.
func (s *Service) handle(_ context.Context, c *wire.Conn) error {
	var q request
	if err := c.Recv(&q); err != nil {
		return err
	}
	if err := q.validate(len(s.Peers.Self().At.Vec)); err != nil {
		return c.Send(response{Refused: err.Error()})
	}
	if !s.limiter.Allow(responseRate, c.Peer(), time.Now()) {
		return c.Send(response{Refused: "busy"})
	}
	return c.Send(response{Found: s.closest(q, c.Peer())})
}

// closest selects beacons from the directory for a response to the peer from.
func (s *Service) closest(q request, from peer.ID) []peers.RelayedBeacon {
	dir := s.Peers.Directory()
	var known []zone.Found
	for _, b := range dir.All() {
		if b.Peer != from {
			known = append(known, candidate(q.Target, b))
		}
	}
	var out []peers.RelayedBeacon
	for _, i := range zone.Answer(q.Target.At, known, q.K) {
		if a, ok := dir.Relayed(peer.ID(known[i].ID)); ok {
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
