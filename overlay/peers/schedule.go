package peers

import (
	"cmp"
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"golang.org/x/sync/semaphore"
	"golang.org/x/time/rate"

	"peerd/coords"
	"peerd/internal/backoff"
	"peerd/overlay/wire"
)

const (
	// maxExchanges and maxDials limit what runs concurrently. Few dials are allowed because
	// handshakes are expensive: if a whole network starts on one busy machine, more would make
	// all of them time out.
	maxExchanges = 8
	maxDials     = 4
	// fastPeers is how many peers are measured at a time while the coordinate has not
	// converged.
	fastPeers = 2
	// retryFirst is the wait after a failed first exchange. It doubles with each failure, up to
	// retryLast.
	retryFirst = 2 * time.Second
	retryLast  = 64 * time.Second
	// dialTimeout bounds a connection attempt. The host's own limit is shorter.
	dialTimeout = 10 * time.Second
	// redialFirst and redialLast bound the wait after failed dials. redialConnected is the wait
	// after a successful dial, in case the remote peer disconnects.
	redialFirst     = time.Second
	redialLast      = time.Minute
	redialConnected = 30 * time.Second
	// dialYield is how long the peer with the greater ID waits before dialing, because two
	// peers often learn of each other at the same time.
	dialYield = 500 * time.Millisecond
	// maxFastMeasurements is how many measurements in a row use FastInterval, and fastRefill how
	// long it takes until one more may. Where round trips are mostly noise, the error stays large,
	// or is small for moments only.
	maxFastMeasurements = 64
	fastRefill          = 20 * time.Second
	// contactsTTL is how long contacts are reused if the number of known and connected peers
	// does not change.
	contactsTTL = 500 * time.Millisecond
	// partnerTTL is how long the random partners stay the same.
	partnerTTL = 10 * time.Minute
	// dropAfter is the number of successive failed dials after which a partial directory drops
	// a peer.
	dropAfter = 3
)

// peerStates are the states of measuring, dialing and checking other peers.
type peerStates struct {
	mu             sync.Mutex // never held during I/O; self.mu may be taken while it is held
	all            map[peer.ID]*peerState
	otherPartialAt time.Time // when another peer last showed that it has a partial directory
}

// peerState is the state of measuring, dialing and checking one peer. peerStates.mu guards it.
type peerState struct {
	rtt        time.Duration // zero: never measured
	measuredAt time.Time

	exchanging    bool      // an exchange is in progress
	exchangeAt    time.Time // when the last exchange began
	exchangeFails int       // successive failures
	syncedAt      time.Time // when beacons were last relayed; zero: not since it connected

	dialing   bool
	dialFails int
	dialAt    time.Time // no dial before

	heartbeatAt  time.Time // when the last heartbeat with a payload came from it
	sentSeq      uint64    // Seq of the last beacon sent to it in a heartbeat
	pushing      bool      // a push is in progress
	wasConnected bool      // at the last call of updateConnections
	checkState
}

// of returns the state of p, which it creates if necessary. The caller holds mu.
func (s *peerStates) of(p peer.ID) *peerState {
	st := s.all[p]
	if st == nil {
		st = &peerState{}
		s.all[p] = st
	}
	return st
}

func (s *peerStates) rtt(p peer.ID) (time.Duration, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.all[p]
	if st == nil || st.rtt == 0 {
		return 0, false
	}
	return st.rtt, true
}

// markSynced records that both sides have relayed beacons over this connection.
func (s *peerStates) markSynced(p peer.ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.of(p).syncedAt = time.Now()
}

// setSent records the Seq of the beacon that p has been sent in a heartbeat, and returns that of
// the one before. 0 means that it has to be sent again.
func (s *peerStates) setSent(p peer.ID, seq uint64) (before uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.of(p)
	before, st.sentSeq = st.sentSeq, seq
	return before
}

// beginPush reports whether a beacon is to be pushed to p: not if p will get it by other
// heartbeats, or has not answered the last push yet. The caller ends the push with endPush.
func (s *peerStates) beginPush(p peer.ID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.of(p)
	if st.pushing || time.Since(st.heartbeatAt) < heartbeatTTL {
		return false
	}
	st.pushing = true
	return true
}

func (s *peerStates) endPush(p peer.ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.of(p).pushing = false
}

// scheduler decides with which peers to exchange beacons, and which to dial and to check. What is
// not in states is used by the goroutine of Service.loop only.
type scheduler struct {
	*env
	self      *self
	states    *peerStates
	checker   *checker
	exchanger *exchanger

	exchanges   *semaphore.Weighted
	dials       *semaphore.Weighted
	nextMeasure time.Time     // when the next measurement is due
	fast        *rate.Limiter // of measurements that use FastInterval
	nearTurn    bool          // whether the last measurement was of a near partner
	salt        uint64        // selects the random partners
	contacts    contacts      // as of contactsAt
	contactsAt  time.Time
}

// schedule starts the checks, exchanges and dials that are due. It returns the time after which it
// should be called again.
func (s *scheduler) schedule(ctx context.Context, now time.Time) time.Duration {
	if ctx.Err() != nil {
		return calmInterval
	}
	connected := make(map[peer.ID]bool)
	for _, p := range s.cfg.Host.Network().Peers() {
		connected[p] = true
	}
	all, good := s.dir.allPresent(), s.dir.known()
	disconnected := s.updateConnections(connected, all)
	for _, p := range disconnected {
		s.exchanger.heartbeats.drop(p)
	}
	if now.Sub(s.contactsAt) >= contactsTTL || len(good) != s.contacts.numKnown ||
		len(connected) != s.contacts.numConnected {
		s.contacts, s.contactsAt = s.findContacts(connected, good, now), now
	}
	c := s.contacts
	s.checker.requestChecks(c, disconnected, connected)
	checks, exchanges := s.checker.dueChecks(now), s.dueExchanges(c, now)
	for _, p := range checks {
		s.start(s.checker.checks, func() { s.checker.check(ctx, p) })
	}
	for _, p := range exchanges {
		s.start(s.exchanges, func() { s.runExchange(ctx, p) })
	}
	dials := s.dueDials(c, connected, all, now)
	for _, info := range dials {
		s.start(s.dials, func() { s.dial(ctx, info) })
	}
	if len(checks)+len(exchanges)+len(dials) > 0 {
		return tickInterval
	}
	return min(max(s.nextMeasure.Sub(now), tickInterval), calmInterval)
}

// contacts are the peers to which this one stays connected.
type contacts struct {
	fullMesh  bool             // all peers connect to all others
	peers     []peer.ID        // connected peers of this network
	partners  coords.Partners  // by string(peer.ID)
	isPartner map[peer.ID]bool // the partners as a set

	numKnown, numConnected int // of peers when computed
}

// findContacts chooses the partners, half near and half random: among the connected peers in a
// full mesh, otherwise among all known peers.
func (s *scheduler) findContacts(connected map[peer.ID]bool, all []Beacon, now time.Time) contacts {
	at := s.self.coordinate()
	s.states.mu.Lock()
	since := s.states.otherPartialAt
	s.states.mu.Unlock()
	otherPartial := !since.IsZero() && now.Sub(since) <= partialFor
	c := contacts{
		fullMesh: len(all) <= s.cfg.MaxConns && !otherPartial && !s.dir.Partial(),
		peers:    s.networkPeers(),
		numKnown: len(all), numConnected: len(connected),
	}
	known := make([]coords.KnownPeer, 0, len(all))
	seen := make(map[peer.ID]bool, len(all))
	for _, b := range all {
		if !c.fullMesh || connected[b.Peer] {
			seen[b.Peer] = true
			known = append(known, coords.KnownPeer{ID: string(b.Peer),
				Distance: at.Distance(b.At.Unloaded(b.Wait))})
		}
	}
	for _, p := range c.peers {
		if !seen[p] && (c.fullMesh || len(all) == 0) && !s.dir.Suspected(p) {
			known = append(known, coords.KnownPeer{ID: string(p), Distance: -1})
		}
	}
	c.partners = coords.ChoosePartners(known, s.cfg.Partners,
		s.salt+uint64(now.UnixNano()/int64(partnerTTL)))
	c.isPartner = make(map[peer.ID]bool, c.partners.Len())
	for _, p := range c.partners.All() {
		c.isPartner[peer.ID(p)] = true
	}
	return c
}

// updateConnections resets the state of peers that have disconnected and deletes the state of
// peers that have expired. It returns the peers that have disconnected since the last call.
func (s *scheduler) updateConnections(
	connected map[peer.ID]bool, all []Beacon,
) (disconnected []peer.ID) {
	present := make(map[peer.ID]bool, len(all))
	for _, b := range all {
		present[b.Peer] = true
	}
	s.states.mu.Lock()
	defer s.states.mu.Unlock()
	for p, st := range s.states.all {
		if connected[p] {
			st.wasConnected = true
			continue
		}
		if st.wasConnected {
			st.wasConnected, disconnected = false, append(disconnected, p)
		}
		st.syncedAt, st.sentSeq = time.Time{}, 0
		if !present[p] && !st.exchanging && !st.dialing && !st.checking && !st.pushing {
			delete(s.states.all, p)
			s.self.forget(p)
		}
	}
	return disconnected
}

// dueExchanges returns the peers with which to start an exchange now: peers that have just
// connected and, when a measurement is due, alternately a near and a random partner, the least
// recently measured one first.
func (s *scheduler) dueExchanges(c contacts, now time.Time) []peer.ID {
	s.states.mu.Lock()
	defer s.states.mu.Unlock()
	var picked []peer.ID
	ready := make(map[peer.ID]bool)
	for _, p := range c.peers {
		if _, met := wire.Met(s.cfg.Host.Peerstore(), p); met && !c.fullMesh && !c.isPartner[p] {
			continue
		}
		st := s.states.of(p)
		wait := backoff.Double(retryFirst, retryLast, st.exchangeFails-1)
		switch {
		case st.exchanging || now.Sub(st.exchangeAt) < wait && st.syncedAt.IsZero():
		case st.syncedAt.IsZero():
			picked = append(picked, p)
		default:
			ready[p] = true
		}
	}
	if !now.Before(s.nextMeasure) {
		n, pause := s.pace(now, s.self.coordinate().Error)
		s.nextMeasure = now.Add(backoff.Jitter(pause))
		for range n {
			s.nearTurn = !s.nearTurn
			if p := s.leastRecentlyMeasured(c.partners, ready); p != "" {
				picked = append(picked, p)
				delete(ready, p)
			}
		}
	}
	for i, p := range picked {
		if !s.exchanges.TryAcquire(1) {
			return picked[:i]
		}
		st := s.states.of(p)
		st.exchanging, st.exchangeAt = true, now
	}
	return picked
}

// pace returns how many peers to measure now, and the time until the next measurement. e is the
// error of the coordinate.
func (s *scheduler) pace(now time.Time, e float64) (n int, pause time.Duration) {
	if e > s.cfg.SettledError && s.fast.AllowN(now, 1) {
		return fastPeers, s.cfg.FastInterval
	}
	return 1, s.cfg.SlowInterval
}

// leastRecentlyMeasured returns the least recently measured ready partner of the half that has
// its turn, or of the other half if there is none, or "". The caller holds s.states.mu.
func (s *scheduler) leastRecentlyMeasured(p coords.Partners, ready map[peer.ID]bool) peer.ID {
	halves := [][]string{p.Near, p.Random}
	if !s.nearTurn {
		slices.Reverse(halves)
	}
	for _, half := range halves {
		var first peer.ID
		for _, name := range half {
			q := peer.ID(name)
			if ready[q] && (first == "" ||
				s.states.of(q).measuredAt.Before(s.states.of(first).measuredAt)) {
				first = q
			}
		}
		if first != "" {
			return first
		}
	}
	return ""
}

// runExchange runs one exchange with p and records the result.
func (s *scheduler) runExchange(ctx context.Context, p peer.ID) {
	s.states.mu.Lock()
	st := s.states.of(p)
	most := 0
	switch {
	case st.syncedAt.IsZero():
		most = maxFirstSync
	case time.Since(st.syncedAt) >= s.cfg.SyncInterval:
		most = maxLaterSync
	}
	s.states.mu.Unlock()
	err := s.exchanger.exchange(ctx, p, most)
	s.states.mu.Lock()
	st.exchanging = false
	if st.exchangeFails++; err == nil {
		st.exchangeFails = 0
	}
	s.states.mu.Unlock()
	if err != nil && ctx.Err() == nil {
		s.log.Debug("failed to exchange beacons", "peer", p, "err", err)
		s.checker.requestCheck(p, false)
	}
}

// dueDials returns the peers to dial now: any known peer in a full mesh, otherwise partners.
func (s *scheduler) dueDials(
	c contacts, connected map[peer.ID]bool, all []Beacon, now time.Time,
) []peer.AddrInfo {
	free := s.cfg.MaxConns - len(connected)
	if !c.fullMesh {
		free = s.cfg.Partners
	}
	if free <= 0 {
		return nil
	}
	rand.Shuffle(len(all), func(a, b int) { all[a], all[b] = all[b], all[a] })
	var out []peer.AddrInfo
	s.states.mu.Lock()
	defer s.states.mu.Unlock()
	for _, b := range all {
		if connected[b.Peer] || len(b.Addrs) == 0 || !c.fullMesh && !c.isPartner[b.Peer] {
			continue
		}
		st := s.states.of(b.Peer)
		if st.dialAt.IsZero() && cmp.Less(b.Peer, s.cfg.Host.ID()) {
			st.dialAt = now.Add(dialYield)
		}
		if st.dialing || now.Before(st.dialAt) {
			continue
		}
		if len(out) == free || !s.dials.TryAcquire(1) {
			break
		}
		st.dialing = true
		out = append(out, b.Info())
	}
	return out
}

// dial connects to a peer and records the result.
func (s *scheduler) dial(ctx context.Context, info peer.AddrInfo) {
	dctx, cancel := context.WithTimeout(network.WithDialPeerTimeout(ctx, dialTimeout), dialTimeout)
	err := s.connect(dctx, info)
	cancel()
	now := time.Now()
	s.states.mu.Lock()
	st := s.states.of(info.ID)
	st.dialing = false
	if err == nil {
		st.dialFails, st.dialAt = 0, now.Add(redialConnected)
	} else {
		st.dialAt = now.Add(backoff.Jitter(backoff.Double(redialFirst, redialLast, st.dialFails)))
		st.dialFails++
	}
	failed := st.dialFails >= dropAfter
	s.states.mu.Unlock()
	switch {
	case err == nil:
		s.dir.Touch(info.ID) // the handshake has proven it
	case failed && (s.dir.Partial() || s.dir.Hearsay(info.ID)):
		s.dir.Drop(info.ID)
	}
	s.wake() // a dial slot is free, and there may be a new connection
	if err != nil && ctx.Err() == nil {
		s.log.Debug("failed to dial peer", "peer", info.ID, "err", err)
		s.checker.requestCheck(info.ID, false)
	}
}
