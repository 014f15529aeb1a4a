package peers

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/coords"
	"peerd/overlay/wire"
)

// rounds is how many round trips one exchange clocks. A single one may have
// met a busy processor on either side; the least of three seldom has.
const rounds = 3

// maxMessage bounds a message: maxOthers beacons, and a digest. Bytes.
const maxMessage = maxOthers*(maxSealed+32) + digestEntry*maxHave + maxSealed + 1024

// hello opens an exchange, or is all of it.
type hello struct {
	Beacon []byte `cbor:"1,keyasint"` // the sender's own, sealed
	// Wish says that both shall tell of third peers in this exchange, and what
	// the sender wants to hear.
	Wish *wish `cbor:"2,keyasint,omitempty"`
	// Word says that this is all: the beacon is news, and nothing is measured.
	Word bool `cbor:"3,keyasint,omitempty"`
	// Ask says that all that is wanted is a reply to it.
	Ask *ask `cbor:"4,keyasint,omitempty"`
}

// welcome answers it.
type welcome struct {
	Beacon []byte  `cbor:"1,keyasint"`
	Wish   *wish   `cbor:"2,keyasint,omitempty"`
	Others []Aged  `cbor:"3,keyasint,omitempty"` // what the other side lacks
	Doubts []doubt `cbor:"4,keyasint,omitempty"` // the sender's suspects
}

// ping asks for a pong at once.
type ping struct {
	Round int `cbor:"1,keyasint"`
}

// pong answers a ping.
type pong struct {
	At coords.Coordinate `cbor:"1,keyasint"` // the sender's, without load
}

// done closes an exchange.
type done struct {
	At     coords.Coordinate `cbor:"1,keyasint"`
	Others []Aged            `cbor:"2,keyasint,omitempty"`
	Doubts []doubt           `cbor:"3,keyasint,omitempty"`
}

func (s *Service) limits() wire.Limits {
	return wire.Limits{MaxMsg: maxMessage, Timeout: s.cfg.Timeout}
}

// exchange talks with a connected peer. most is how many beacons of third peers
// each side may tell; 0 is none, and no asking.
func (s *Service) exchange(ctx context.Context, p peer.ID, most int) (err error) {
	ctx, cancel := context.WithTimeout(network.WithNoDial(ctx, "exchange"), 3*s.cfg.Timeout)
	defer cancel()
	c, err := wire.Dial(ctx, s.cfg.Host, p, s.limits(), s.cfg.Protocol)
	if err != nil {
		return err
	}
	defer func() { c.End(err) }()

	hi := hello{Beacon: s.sealed()}
	if most > 0 {
		w := s.dir.wish(s.Coordinate(), most)
		hi.Wish = &w
	}
	if err := c.Send(hi); err != nil {
		return err
	}
	var back welcome
	if err := c.Recv(&back); err != nil {
		return err
	}
	bye := done{Doubts: s.dir.doubts()}
	if most > 0 && back.Wish != nil {
		if bye.Others, err = s.grant(*back.Wish, back.Beacon); err != nil {
			return err
		}
	}
	// Nothing but the messages happens between here and bye: both ends clock it.
	at, rtt, err := clock(c)
	if err != nil {
		return err
	}
	bye.At = s.Coordinate()
	if err := c.Send(bye); err != nil {
		return err
	}
	if err := s.conclude(p, at, rtt, back.Beacon, told{back.Others, back.Doubts}); err != nil {
		return err
	}
	if most > 0 {
		s.synced(p)
	}
	return nil
}

// grant is what a peer is told that has wished so; sealed is its beacon, which
// need not be true for this.
func (s *Service) grant(w wish, sealed []byte) ([]Aged, error) {
	if err := w.validate(); err != nil {
		return nil, err
	}
	claim, err := peek(sealed)
	if err != nil {
		return nil, err
	}
	if err := claim.At.Validate(s.dims); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrBeacon, err)
	}
	if w.Reach > 0 {
		s.mu.Lock()
		s.larger = time.Now()
		s.mu.Unlock()
	}
	return s.dir.tell(w, claim.At.Unloaded(claim.Wait)), nil
}

// synced notes that third peers were told both ways in this connection.
func (s *Service) synced(p peer.ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.link(p).synced = time.Now()
}

// clock sends the pings and returns the least round trip and what the other
// side said last.
func clock(c *wire.Conn) (at coords.Coordinate, least time.Duration, err error) {
	least = math.MaxInt64
	for i := range rounds {
		start := time.Now()
		if err := c.Send(ping{Round: i}); err != nil {
			return at, 0, err
		}
		var answer pong
		if err := c.Recv(&answer); err != nil {
			return at, 0, err
		}
		least = min(least, time.Since(start))
		at = answer.At
	}
	return at, least, nil
}

// answer is the other end of an exchange.
func (s *Service) answer(ctx context.Context, c *wire.Conn) error {
	var hi hello
	if err := c.Recv(&hi); err != nil {
		return err
	}
	if hi.Ask != nil {
		return s.reply(ctx, c, hi)
	}
	if hi.Word {
		if err := s.take(hi.Beacon, 0); err != nil && !errors.Is(err, ErrKnown) {
			return fmt.Errorf("peers: beacon of %s: %w", c.Peer(), err)
		}
		s.dir.Touch(c.Peer())
		return nil
	}
	back := welcome{Beacon: s.sealed(), Doubts: s.dir.doubts()}
	if hi.Wish != nil {
		var err error
		if back.Others, err = s.grant(*hi.Wish, hi.Beacon); err != nil {
			return err
		}
		w := s.dir.wish(s.Coordinate(), hi.Wish.Most)
		back.Wish = &w
	}
	if err := c.Send(back); err != nil {
		return err
	}
	var asked ping
	if err := c.Recv(&asked); err != nil {
		return err
	}
	least := time.Duration(math.MaxInt64)
	for i := range rounds {
		start := time.Now()
		if err := c.Send(pong{At: s.Coordinate()}); err != nil {
			return err
		}
		if i == rounds-1 {
			break
		}
		if err := c.Recv(&asked); err != nil {
			return err
		}
		least = min(least, time.Since(start))
	}
	// The last message may be long: it is not clocked.
	var bye done
	if err := c.Recv(&bye); err != nil {
		return err
	}
	if err := s.conclude(c.Peer(), bye.At, least, hi.Beacon, told{bye.Others, bye.Doubts}); err != nil {
		return err
	}
	if hi.Wish != nil {
		s.synced(c.Peer())
	}
	return nil
}

// told is what one side says of third peers.
type told struct {
	others []Aged
	doubts []doubt
}

// conclude takes in what an exchange with p has shown. The error is p's fault.
func (s *Service) conclude(p peer.ID, at coords.Coordinate, rtt time.Duration, beacon []byte, third told) error {
	if len(third.others) > maxOthers || len(third.doubts) > maxDoubts {
		return fmt.Errorf("%w: %d and %d doubts at once, at most %d and %d",
			ErrBeacon, len(third.others), len(third.doubts), maxOthers, maxDoubts)
	}
	if err := at.Validate(s.dims); err != nil {
		return fmt.Errorf("peers: coordinate of %s: %w", p, err)
	}
	if err := s.take(beacon, 0); err != nil && !errors.Is(err, ErrKnown) {
		return fmt.Errorf("peers: beacon of %s: %w", p, err)
	}
	s.dir.Touch(p)
	s.observe(p, at, rtt)
	for _, o := range third.others {
		if err := s.take(o.Sealed, o.age()); errors.Is(err, ErrBeacon) {
			return fmt.Errorf("peers: beacon passed on by %s: %w", p, err)
		}
	}
	s.hear(third.doubts)
	return nil
}

// observe feeds a measurement to the coordinate.
func (s *Service) observe(p peer.ID, at coords.Coordinate, rtt time.Duration) {
	s.mu.Lock()
	l := s.link(p)
	l.rtt, l.measured = rtt, time.Now()
	err := s.est.Observe(p.String(), at, rtt)
	s.mu.Unlock()
	if err != nil {
		s.log.Debug("round trip not used", "peer", p, "rtt", rtt, "err", err)
	}
}

// sealed is the own beacon.
func (s *Service) sealed() []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ownSealed
}
