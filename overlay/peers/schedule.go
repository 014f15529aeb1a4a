package peers

import (
	"cmp"
	"context"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
)

const (
	// maxExchanges and maxDials are how many are under way at a time. Dials are
	// few, as handshakes are costly: when a whole network starts on one busy
	// machine, more at a time would only make each of them time out.
	maxExchanges = 8
	maxDials     = 4
	// fastPeers is how many peers are measured at a time while the own
	// coordinate is not settled.
	fastPeers = 2
	// retryAfter is how long a failed first exchange waits.
	retryAfter = 2 * time.Second
	// dialTimeout bounds a connection attempt; the host's own bound is tighter.
	dialTimeout = 10 * time.Second
	// redialFirst and redialLast bound the pause after failed dials; redialHeld
	// is the pause after a good one, for when the other side hangs up.
	redialFirst = time.Second
	redialLast  = time.Minute
	redialHeld  = 30 * time.Second
	// yield is how long the peer with the greater ID leaves the dialing to the
	// other one, as both often learn of each other at the same moment.
	yield = 500 * time.Millisecond
)

// link is what is known of the way to one peer.
type link struct {
	rtt      time.Duration // zero: never measured
	measured time.Time

	busy   bool      // an exchange is under way
	tried  time.Time // when the last one began
	synced time.Time // when third peers were last told; zero: not in this connection

	dialing bool
	fails   int
	dialAt  time.Time // not before
}

// link returns that of p. The caller holds s.mu.
func (s *Service) link(p peer.ID) *link {
	l := s.links[p]
	if l == nil {
		l = &link{}
		s.links[p] = l
	}
	return l
}

// schedule starts the exchanges and dials that are due.
func (s *Service) schedule(ctx context.Context, now time.Time) {
	if ctx.Err() != nil {
		return
	}
	connected := make(map[peer.ID]bool)
	for _, p := range s.cfg.Host.Network().Peers() {
		connected[p] = true
	}
	s.tidy(connected)
	for _, p := range s.toMeasure(connected, now) {
		s.start(s.exchanges, func() { s.visit(ctx, p) })
	}
	for _, info := range s.toDial(connected, now) {
		s.start(s.dials, func() { s.dial(ctx, info) })
	}
}

// slots bounds how many of something run at a time.
type slots chan struct{}

// take takes a slot if one is free.
func (s slots) take() bool {
	select {
	case s <- struct{}{}:
		return true
	default:
		return false
	}
}

// start runs f in a goroutine of its own, and then frees a slot, which the
// caller has taken.
func (s *Service) start(from slots, f func()) {
	s.work.Go(func() {
		defer func() { <-from }()
		f()
	})
}

// tidy ends what belonged to connections that are gone, and forgets peers that
// are gone altogether.
func (s *Service) tidy(connected map[peer.ID]bool) {
	present := make(map[peer.ID]bool)
	for _, b := range s.dir.All() {
		present[b.Peer] = true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for p, l := range s.links {
		if connected[p] {
			continue
		}
		l.synced = time.Time{}
		if !present[p] && !l.busy && !l.dialing {
			delete(s.links, p)
			s.est.Forget(p.String())
		}
	}
}

// toMeasure lists whom to have an exchange with now: those newly connected, and
// at each measuring time the ones that were measured longest ago.
func (s *Service) toMeasure(connected map[peer.ID]bool, now time.Time) []peer.ID {
	var fresh, others []peer.ID
	for p := range connected {
		spoken, err := s.cfg.Host.Peerstore().SupportsProtocols(p, s.cfg.Protocol)
		if err != nil || len(spoken) == 0 {
			continue // of another network, or not identified yet
		}
		others = append(others, p)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	others = slices.DeleteFunc(others, func(p peer.ID) bool {
		l := s.link(p)
		if l.busy || now.Sub(l.tried) < retryAfter && l.synced.IsZero() {
			return true
		}
		if l.synced.IsZero() {
			fresh = append(fresh, p)
			return true
		}
		return false
	})
	if !now.Before(s.measure) {
		n, pause := 1, s.cfg.Slow
		if s.est.Coordinate().Error > s.cfg.Settled {
			n, pause = fastPeers, s.cfg.Fast
		}
		s.measure = now.Add(spread(pause))
		// Map order has shuffled those that are equal.
		slices.SortStableFunc(others, func(a, b peer.ID) int { return s.link(a).measured.Compare(s.link(b).measured) })
		fresh = append(fresh, others[:min(len(others), n)]...)
	}
	for i, p := range fresh {
		if !s.exchanges.take() {
			return fresh[:i]
		}
		l := s.link(p)
		l.busy, l.tried = true, now
	}
	return fresh
}

// visit has one exchange with p and notes how it went.
func (s *Service) visit(ctx context.Context, p peer.ID) {
	s.mu.Lock()
	l := s.link(p)
	sync := time.Since(l.synced) >= s.cfg.Sync
	s.mu.Unlock()
	err := s.exchange(ctx, p, sync)
	s.mu.Lock()
	l.busy = false
	s.mu.Unlock()
	if err != nil && ctx.Err() == nil {
		s.log.Debug("exchange failed", "peer", p, "err", err)
	}
}

// toDial lists whom to connect to now.
func (s *Service) toDial(connected map[peer.ID]bool, now time.Time) []peer.AddrInfo {
	room := s.cfg.MaxConns - len(connected)
	if room <= 0 {
		return nil
	}
	all := s.dir.All()
	rand.Shuffle(len(all), func(a, b int) { all[a], all[b] = all[b], all[a] })
	var out []peer.AddrInfo
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, b := range all {
		if connected[b.Peer] || len(b.Addrs) == 0 {
			continue
		}
		l := s.link(b.Peer)
		if l.dialAt.IsZero() && cmp.Less(b.Peer, s.cfg.Host.ID()) {
			l.dialAt = now.Add(yield)
		}
		if l.dialing || now.Before(l.dialAt) {
			continue
		}
		if len(out) == room || !s.dials.take() {
			break
		}
		l.dialing = true
		out = append(out, b.Info())
	}
	return out
}

// dial connects to a peer and notes how it went.
func (s *Service) dial(ctx context.Context, info peer.AddrInfo) {
	dctx, cancel := context.WithTimeout(network.WithDialPeerTimeout(ctx, dialTimeout), dialTimeout)
	err := s.cfg.Host.Connect(dctx, info)
	cancel()
	now := time.Now()
	s.mu.Lock()
	l := s.link(info.ID)
	l.dialing = false
	if err == nil {
		l.fails, l.dialAt = 0, now.Add(redialHeld)
	} else {
		l.dialAt = now.Add(spread(min(redialFirst<<min(l.fails, 10), redialLast)))
		l.fails++
	}
	s.mu.Unlock()
	s.hurry() // a slot is free, and there may be a new connection
	if err != nil && ctx.Err() == nil {
		s.log.Debug("dialing a known peer failed", "peer", info.ID, "err", err)
	}
}

func randDuration(n time.Duration) time.Duration {
	if n <= 0 {
		return 0
	}
	return rand.N(n)
}
