package peers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	ma "github.com/multiformats/go-multiaddr"
	manet "github.com/multiformats/go-multiaddr/net"

	"peerd/coords"
	"peerd/overlay/wire"
)

// lookEvery is how often the load is asked for.
const lookEvery = time.Second

// addrTTL is how long the addresses in a beacon are kept for dialing: a few
// beacons long, and renewed by each.
const addrTTL = 10 * time.Minute

// atOnce is how many peers are told a new beacon at once; the others hear of it
// in exchanges. Where they are all, everything is told; else atOnceFew of them
// are told what has changed.
const (
	atOnce    = 16
	atOnceFew = 6
)

// take puts a beacon into the directory and its addresses where dials find
// them.
func (s *Service) take(raw []byte, age time.Duration) error {
	b, err := s.dir.PutAged(raw, age)
	if err != nil {
		return err
	}
	s.cfg.Host.Peerstore().AddAddrs(b.Peer, b.Info().Addrs, addrTTL)
	if s.cfg.Host.Network().Connectedness(b.Peer) == network.Connected {
		return nil
	}
	s.hurry()
	return nil
}

// Check opens a beacon that somebody else has passed on, without taking it in.
// The errors wrap ErrBeacon, or ErrTime if its maker has been silent too long.
func (s *Service) Check(a Aged) (Beacon, error) {
	b, err := Open(a.Sealed, s.cfg.Topic, s.dims)
	if err != nil {
		return Beacon{}, err
	}
	if a.age() > s.dir.ttl(b) {
		return Beacon{}, fmt.Errorf("%w: heard %v ago", ErrTime, a.age())
	}
	return b, nil
}

// Learn takes in a beacon that somebody else has passed on, and keeps it for
// now even if the directory is partial and the peer far off. It returns the
// latest that is known of the peer. The errors wrap ErrBeacon, or ErrTime, also
// for a peer that is suspect here and stays so.
func (s *Service) Learn(a Aged) (Beacon, error) {
	b, err := s.Check(a)
	if err != nil {
		return Beacon{}, err
	}
	// It may have to leave again before it is pinned, when much is heard.
	for range learnTries {
		err = s.take(a.Sealed, a.age())
		if s.dir.Suspected(b.Peer) {
			return Beacon{}, fmt.Errorf("%w: %s is suspect", ErrTime, b.Peer)
		}
		if known, ok := s.dir.Get(b.Peer); ok && s.dir.Pin(b.Peer) {
			return known, nil
		}
		if err != nil && !errors.Is(err, ErrKnown) {
			return Beacon{}, err
		}
	}
	return Beacon{}, fmt.Errorf("%w: %s is not present", ErrTime, b.Peer) // or this peer itself
}

// learnTries is how often a beacon is put into the directory, to stay there.
const learnTries = 3

// hurry makes the loop look now, not at its next step.
func (s *Service) hurry() {
	select {
	case s.news <- struct{}{}:
	default:
	}
}

// every is how often this peer makes a beacon, changed or not: the more peers
// there are, the seldomer.
func (s *Service) every() time.Duration {
	n := time.Duration(s.dir.Len() + 1)
	return min(max(s.cfg.Interval, n*s.cfg.Spacing), maxEvery)
}

// announce looks at the load and makes a beacon when one is due or enough has
// changed. The nearest peers are told at once of a change; of the rest, and of
// all that is routine, everybody hears in exchanges.
func (s *Service) announce(ctx context.Context, now time.Time) {
	if now.Sub(s.looked) < lookEvery {
		return
	}
	s.looked = now
	every := s.every()
	wait, capacity := s.load()
	if now.Sub(s.sent) < max(s.cfg.Gap, gapOf(every, s.cfg.Interval)) {
		return
	}
	changed := s.changed(wait) || s.rumoured(now)
	early := changed && now.Before(s.due)
	if !changed && now.Before(s.due) || early && every > s.cfg.Interval && !s.early.take(now, 2*every) {
		return
	}
	s.sent, s.due = now, now.Add(spread(every))
	if err := s.renew(s.cfg.Now(), wait, capacity, every); err != nil {
		s.log.Error("sealing the own beacon failed", "err", err)
		return
	}
	switch near := s.nearest(); {
	case len(near) < atOnce:
		s.spreadWord(ctx, near)
	case changed:
		s.spreadWord(ctx, near[:atOnceFew])
	}
}

// earlyMost is how many beacons in a row may be early, because of a change, in a
// network in which they are seldom; one more each time that two are due. Where
// round trips are mostly noise coordinates never rest, and what everybody hears
// must not depend on it: it is half as much again at the most.
const earlyMost = 4

// budget counts what may be spent: a bucket of earlyMost, full at first.
type budget struct {
	spent float64
	at    time.Time
}

// take spends one if there is one; refill is how long one takes to come back.
func (b *budget) take(now time.Time, refill time.Duration) bool {
	b.spent = max(0, b.spent-float64(now.Sub(b.at))/float64(refill))
	b.at = now
	if b.spent > earlyMost-1 {
		return false
	}
	b.spent++
	return true
}

// gapOf is the least time between two beacons where they are made seldom.
func gapOf(every, usual time.Duration) time.Duration {
	if every <= usual {
		return 0
	}
	return every / 4
}

// nearest lists the connected peers that are told first.
func (s *Service) nearest() []peer.ID {
	all := s.speakers()
	here := s.Coordinate()
	far := make(map[peer.ID]float64, len(all))
	for _, p := range all {
		far[p] = s.distance(here, p)
	}
	slices.SortFunc(all, func(a, b peer.ID) int { return cmp.Or(cmp.Compare(far[a], far[b]), cmp.Compare(a, b)) })
	return all[:min(len(all), atOnce)]
}

// speakers lists the connected peers of this network.
func (s *Service) speakers() []peer.ID {
	return slices.DeleteFunc(s.cfg.Host.Network().Peers(), func(p peer.ID) bool {
		spoken, err := s.cfg.Host.Peerstore().SupportsProtocols(p, s.cfg.Protocol)
		return err != nil || len(spoken) == 0 // of another network, or not identified yet
	})
}

// distance is how far a peer is taken to be. Milliseconds.
func (s *Service) distance(here coords.Coordinate, p peer.ID) float64 {
	b, ok := s.dir.Get(p)
	if !ok {
		return math.Inf(1)
	}
	return here.Distance(b.At.Unloaded(b.Wait))
}

// spreadWord tells peers the own beacon, without waiting for an answer.
func (s *Service) spreadWord(ctx context.Context, to []peer.ID) {
	if ctx.Err() != nil || len(to) == 0 || !s.words.take() {
		return
	}
	s.start(s.words, func() {
		ctx, cancel := context.WithTimeout(network.WithNoDial(ctx, "beacon"), 2*s.cfg.Timeout)
		defer cancel()
		for _, p := range to {
			if err := s.word(ctx, p); err != nil && ctx.Err() == nil {
				s.log.Debug("a peer was not told the own beacon", "peer", p, "err", err)
			}
		}
	})
}

// word tells one peer.
func (s *Service) word(ctx context.Context, p peer.ID) (err error) {
	c, err := wire.Dial(ctx, s.cfg.Host, p, s.limits(), s.cfg.Protocol)
	if err != nil {
		return err
	}
	defer func() { c.End(err) }()
	return c.Send(hello{Beacon: s.sealed(), Word: true})
}

// load asks for the load and puts it within bounds.
func (s *Service) load() (time.Duration, float64) {
	wait, capacity := s.cfg.Load()
	wait = min(max(wait, 0), maxWait)
	if !(capacity >= 0) { // also NaN
		capacity = 0
	}
	return wait, min(capacity, maxCapacity)
}

// changed takes in the load and reports whether the coordinate, with it, is
// worth announcing.
func (s *Service) changed(wait time.Duration) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.est.SetLoad(wait)
	return s.announcer.Consider(s.est.Announced())
}

// rumoured reports whether this peer was taken for dead, which only a beacon
// refutes everywhere. To say so does not make it speak all the time.
func (s *Service) rumoured(now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	doubted := s.doubted && now.Sub(s.sent) >= s.cfg.Interval/3
	s.doubted = s.doubted && !doubted
	return doubted
}

// renew makes the own beacon.
func (s *Service) renew(now time.Time, wait time.Duration, capacity float64, every time.Duration) error {
	addrs := addresses(s.cfg.Host)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.est.SetLoad(wait)
	b := Beacon{
		Peer:     s.cfg.Host.ID(),
		At:       coarse(s.est.Announced()),
		Wait:     wait,
		Capacity: capacity,
		Version:  s.cfg.Version,
		// The time in it makes it grow over restarts. A clock that was set back
		// must not make two beacons look the same in a digest.
		Seq:    max(s.own.Seq+1<<classStep, uint64(max(now.UnixMilli(), 0))),
		Time:   now.Round(0),
		Addrs:  addrs,
		Traits: s.traits,
		Every:  every,
	}
	raw, err := Seal(s.cfg.Key, s.cfg.Topic, b)
	if err != nil {
		return err
	}
	s.own, s.ownSealed = b, raw
	return nil
}

// coarse rounds a coordinate to what matters, which halves its bytes.
func coarse(c coords.Coordinate) coords.Coordinate {
	c = c.Clone()
	for i, x := range c.Vec {
		c.Vec[i] = float64(float32(x))
	}
	c.Height, c.Error = float64(float32(c.Height)), float64(float32(c.Error))
	return c
}

// addresses are those to tell others: loopback ones only if there are no other,
// as they mean something else everywhere else.
func addresses(h host.Host) []string {
	addrs := slices.DeleteFunc(slices.Clone(h.Addrs()), func(a ma.Multiaddr) bool { return len(a.String()) > maxAddr })
	if slices.ContainsFunc(addrs, func(a ma.Multiaddr) bool { return !manet.IsIPLoopback(a) }) {
		addrs = slices.DeleteFunc(addrs, manet.IsIPLoopback)
	}
	texts := make([]string, 0, maxAddrs)
	for _, a := range addrs[:min(len(addrs), maxAddrs)] {
		texts = append(texts, a.String())
	}
	return texts
}
