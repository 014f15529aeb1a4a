package peers

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/peer"
	ma "github.com/multiformats/go-multiaddr"
	manet "github.com/multiformats/go-multiaddr/net"

	"peerd/coords"
	"peerd/internal/order"
	"peerd/overlay/prefix"
)

// self is what this peer says about itself: its coordinate and its beacon.
type self struct {
	cfg       *Config
	suspected atomic.Bool // another peer suspects this one, until a beacon has refuted it
	twin      twin

	mu        sync.Mutex // never held during I/O
	est       *coords.Estimator
	announcer coords.Announcer
	own       Beacon
	ownSealed []byte
	traits    *coords.Traits // replaced, never modified: beacons share it
}

func (s *self) beacon() Beacon {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.own
}

func (s *self) sealed() []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ownSealed
}

// latest returns the signed beacon of this peer, and its Seq.
func (s *self) latest() ([]byte, uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ownSealed, s.own.Seq
}

func (s *self) coordinate() coords.Coordinate {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.est.Coordinate()
}

func (s *self) moved() float64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.est.Moved()
}

func (s *self) setTraits(t coords.Traits) error {
	if err := t.Validate(); err != nil {
		return fmt.Errorf("peers: set traits: %w", err)
	}
	s.mu.Lock()
	s.traits = &t
	s.mu.Unlock()
	return nil
}

// observe passes a measurement to the estimator.
func (s *self) observe(p peer.ID, at coords.Coordinate, rtt time.Duration) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.est.Observe(p.String(), at, rtt)
}

// judge has the estimator compare a place that a peer claims with what it and others have observed.
func (s *self) judge(
	p peer.ID, claim coords.Coordinate, observed []coords.Observation,
) (coords.Coordinate, coords.Standing) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.est.Judge(p.String(), claim, observed)
}

// forget has the estimator forget a peer.
func (s *self) forget(p peer.ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.est.Forget(p.String())
}

// load calls Config.Worker and clamps the result.
func (s *self) load() (time.Duration, float64) {
	if s.cfg.Worker == nil {
		return 0, 1
	}
	wait, capacity := s.cfg.Worker.Load()
	wait = min(max(wait, 0), maxWait)
	if !(capacity >= 0) { // also NaN
		capacity = 0
	}
	return wait, min(capacity, maxCapacity)
}

// changed stores the load and reports whether the coordinate, including it, has changed enough
// to be announced.
func (s *self) changed(wait time.Duration) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.est.SetLoad(wait)
	return s.announcer.Consider(s.est.Announced())
}

// outdone reports whether other peers know a newer beacon with the key of this peer.
func (s *self) outdone() bool { return s.twin.last() > s.beacon().Seq }

// makeBeacon makes and signs a new beacon of this peer.
func (s *self) makeBeacon(
	now time.Time, wait time.Duration, capacity float64, every time.Duration,
) error {
	addrs := advertisedAddrs(s.cfg.Host)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.est.SetLoad(wait)
	b := Beacon{
		Peer:     s.cfg.Host.ID(),
		At:       rounded(s.est.Announced()),
		Wait:     wait,
		Capacity: capacity,
		Version:  s.cfg.Version,
		// Based on the time, so that it grows across restarts. If the clock was set back, the
		// increment still changes the age class in digests.
		Seq: max(max(s.own.Seq, s.twin.last())+1<<classStep,
			uint64(max(now.UnixMilli(), 0))),
		Time:     now.Round(0),
		Addrs:    addrs,
		Traits:   s.traits,
		Trips:    tripsOf(s.est.Trips()),
		Interval: every,
	}
	raw, err := Seal(s.cfg.Key, s.cfg.Topic, b)
	if err != nil {
		return err
	}
	s.own, s.ownSealed = b, raw
	return nil
}

// rounded returns c in float32 precision, which halves its encoded size.
func rounded(c coords.Coordinate) coords.Coordinate {
	c = c.Clone()
	for i, x := range c.Vec {
		c.Vec[i] = float64(float32(x))
	}
	c.Height, c.Error = float64(float32(c.Height)), float64(float32(c.Error))
	return c
}

// advertisedAddrs returns the addresses to announce. Loopback addresses are included only if
// there are no others, because they are useless to other machines.
func advertisedAddrs(h host.Host) []string {
	relayed := map[string]int{}
	addrs := slices.DeleteFunc(slices.Clone(h.Addrs()), func(a ma.Multiaddr) bool {
		_, ok := prefix.Of(a)
		if id, err := a.ValueForProtocol(ma.P_P2P); err == nil {
			relayed[id]++ // the address of a relay: there should be room for another one
			ok = ok && relayed[id] <= maxAddrs/2
		}
		return !ok || len(a.String()) > maxAddr
	})
	order.SortStableFunc(addrs, func(a, b ma.Multiaddr) int {
		return cmp.Compare(addrRank(a), addrRank(b))
	})
	if slices.ContainsFunc(addrs, func(a ma.Multiaddr) bool { return !manet.IsIPLoopback(a) }) {
		addrs = slices.DeleteFunc(addrs, manet.IsIPLoopback)
	}
	texts := make([]string, 0, maxAddrs)
	for _, a := range addrs[:min(len(addrs), maxAddrs)] {
		texts = append(texts, a.String())
	}
	return texts
}

// addrRank is lower for addresses that more peers can reach.
func addrRank(a ma.Multiaddr) int {
	switch {
	case manet.IsPublicAddr(a):
		return 0
	case manet.IsPrivateAddr(a):
		return 1
	}
	return 2
}
