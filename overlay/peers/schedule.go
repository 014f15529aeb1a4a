package peers

import (
	"cmp"
	"context"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/coords"
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
	// retryAfter is how long a failed first exchange waits, twice as long after
	// each failure: what is overloaded needs no more to do.
	retryAfter = 2 * time.Second
	retryMost  = 5 // doublings
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
	// hasteMax is how many measurements in a row may be quick. Where round trips
	// are mostly noise no number of them settles a coordinate.
	hasteMax = 64
	// circleFor is how long the partners are not looked for again while nobody
	// comes or goes.
	circleFor = 500 * time.Millisecond
	// turnover is how long the random partners stay the same.
	turnover = 10 * time.Minute
	// dropAfter is after how many failed dials in a row a partial directory
	// gives a peer up.
	dropAfter = 3
)

// link is what is known of the way to one peer.
type link struct {
	rtt      time.Duration // zero: never measured
	measured time.Time

	busy   bool      // an exchange is under way
	tried  time.Time // when the last one began
	failed int       // how many in a row broke off
	synced time.Time // when third peers were last told; zero: not in this connection

	dialing bool
	fails   int
	dialAt  time.Time // not before

	up bool // was connected at the last look
	watch
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
	all, good := s.dir.known(), s.dir.All()
	gone := s.tidy(connected, all)
	if now.Sub(s.lastAt) >= circleFor || len(good) != s.last.known || len(connected) != s.last.connected {
		s.last, s.lastAt = s.circle(connected, good, now), now
	}
	circle := s.last
	s.suspicious(circle, gone, connected)
	for _, p := range s.toCheck(now) {
		s.start(s.checks, func() { s.check(ctx, p) })
	}
	for _, p := range s.toMeasure(circle, now) {
		s.start(s.exchanges, func() { s.visit(ctx, p) })
	}
	for _, info := range s.toDial(circle, connected, all, now) {
		s.start(s.dials, func() { s.dial(ctx, info) })
	}
}

// circle is who this peer deals with.
type circle struct {
	mesh     bool             // everybody is connected to everybody
	speakers []peer.ID        // connected peers of this network
	partners coords.Partners  // by string(peer.ID)
	is       map[peer.ID]bool // partners as a set

	known, connected int // how many there were
}

// circle finds the partners: half near, half random, of the connected peers in
// a network in which all are connected, else of all that are known.
func (s *Service) circle(connected map[peer.ID]bool, all []Beacon, now time.Time) circle {
	s.mu.Lock()
	here := s.est.Coordinate()
	c := circle{known: len(all), connected: len(connected), mesh: len(all) <= s.cfg.MaxConns && (s.larger.IsZero() || now.Sub(s.larger) > partialFor)}
	s.mu.Unlock()
	c.mesh = c.mesh && !s.dir.Partial()
	c.speakers = s.speakers()
	known := make([]coords.Known, 0, len(all))
	seen := make(map[peer.ID]bool, len(all))
	for _, b := range all {
		if !c.mesh || connected[b.Peer] {
			seen[b.Peer] = true
			known = append(known, coords.Known{ID: string(b.Peer), Distance: here.Distance(b.At.Unloaded(b.Wait))})
		}
	}
	for _, p := range c.speakers {
		if !seen[p] && (c.mesh || len(all) == 0) && !s.dir.Suspected(p) {
			known = append(known, coords.Known{ID: string(p), Distance: -1})
		}
	}
	c.partners = coords.ChoosePartners(known, s.cfg.Partners, s.salt+uint64(now.UnixNano()/int64(turnover)))
	c.is = make(map[peer.ID]bool, c.partners.Len())
	for _, p := range c.partners.All() {
		c.is[peer.ID(p)] = true
	}
	return c
}

// tidy ends what belonged to connections that are gone, and forgets peers that
// are gone altogether. It lists whose connection has gone since the last time.
func (s *Service) tidy(connected map[peer.ID]bool, all []Beacon) (gone []peer.ID) {
	present := make(map[peer.ID]bool, len(all))
	for _, b := range all {
		present[b.Peer] = true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for p, l := range s.links {
		if connected[p] {
			l.up = true
			continue
		}
		if l.up {
			l.up, gone = false, append(gone, p)
		}
		l.synced = time.Time{}
		if !present[p] && !l.busy && !l.dialing && !l.checking {
			delete(s.links, p)
			s.expired = later(s.expired, l.missed)
			s.est.Forget(p.String())
		}
	}
	return gone
}

// toMeasure lists whom to have an exchange with now: those newly connected, and
// at each measuring time a near and a random partner in turn, in each half the
// one that was measured longest ago.
func (s *Service) toMeasure(c circle, now time.Time) []peer.ID {
	s.mu.Lock()
	defer s.mu.Unlock()
	var picked []peer.ID
	ready := make(map[peer.ID]bool)
	for _, p := range c.speakers {
		if !c.mesh && !c.is[p] {
			continue
		}
		l := s.link(p)
		switch {
		case l.busy || now.Sub(l.tried) < retryAfter<<min(max(l.failed-1, 0), retryMost) && l.synced.IsZero():
		case l.synced.IsZero():
			picked = append(picked, p)
		default:
			ready[p] = true
		}
	}
	if !now.Before(s.measure) {
		n, pause := 1, s.cfg.Slow
		if s.est.Coordinate().Error <= s.cfg.Settled {
			s.hasty = hasteMax
		} else if s.hasty > 0 {
			s.hasty--
			n, pause = fastPeers, s.cfg.Fast
		}
		s.measure = now.Add(spread(pause))
		for range n {
			s.near = !s.near
			if p := s.longestAgo(c.partners, ready); p != "" {
				picked = append(picked, p)
				delete(ready, p)
			}
		}
	}
	for i, p := range picked {
		if !s.exchanges.take() {
			return picked[:i]
		}
		l := s.link(p)
		l.busy, l.tried = true, now
	}
	return picked
}

// longestAgo returns who of the half whose turn it is was measured longest ago,
// or of the other half if there is nobody, or "". The caller holds s.mu.
func (s *Service) longestAgo(p coords.Partners, ready map[peer.ID]bool) peer.ID {
	halves := [][]string{p.Near, p.Random}
	if !s.near {
		slices.Reverse(halves)
	}
	for _, half := range halves {
		var first peer.ID
		for _, name := range half {
			q := peer.ID(name)
			if ready[q] && (first == "" || s.link(q).measured.Before(s.link(first).measured)) {
				first = q
			}
		}
		if first != "" {
			return first
		}
	}
	return ""
}

// visit has one exchange with p and notes how it went.
func (s *Service) visit(ctx context.Context, p peer.ID) {
	s.mu.Lock()
	l := s.link(p)
	most := 0
	switch {
	case l.synced.IsZero():
		most = maxOthers
	case time.Since(l.synced) >= s.cfg.Sync:
		most = others
	}
	s.mu.Unlock()
	err := s.exchange(ctx, p, most)
	s.mu.Lock()
	l.busy = false
	if l.failed++; err == nil {
		l.failed = 0
	}
	s.mu.Unlock()
	if err != nil && ctx.Err() == nil {
		s.log.Debug("exchange failed", "peer", p, "err", err)
		s.Doubt(p)
	}
}

// toDial lists whom to connect to now: everybody, or the partners.
func (s *Service) toDial(c circle, connected map[peer.ID]bool, all []Beacon, now time.Time) []peer.AddrInfo {
	room := s.cfg.MaxConns - len(connected)
	if !c.mesh {
		room = s.cfg.Partners
	}
	if room <= 0 {
		return nil
	}
	rand.Shuffle(len(all), func(a, b int) { all[a], all[b] = all[b], all[a] })
	var out []peer.AddrInfo
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, b := range all {
		if connected[b.Peer] || len(b.Addrs) == 0 || !c.mesh && !c.is[b.Peer] {
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
	err := s.connect(dctx, info)
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
	hopeless := l.fails >= dropAfter
	s.mu.Unlock()
	if hopeless && s.dir.Partial() {
		s.dir.Drop(info.ID)
	}
	s.hurry() // a slot is free, and there may be a new connection
	if err != nil && ctx.Err() == nil {
		s.log.Debug("dialing a known peer failed", "peer", info.ID, "err", err)
		s.Doubt(info.ID)
	}
}
