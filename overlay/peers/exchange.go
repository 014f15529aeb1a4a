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

// maxMessage bounds a message: maxOthers beacons, and the tags. Bytes.
const maxMessage = maxOthers*(maxSealed+32) + 16*maxHave

// hello opens an exchange.
type hello struct {
	Beacon []byte `cbor:"1,keyasint"` // the sender's own, sealed
	// Sync says that both shall tell of third peers in this exchange.
	Sync bool     `cbor:"2,keyasint,omitempty"`
	Have []uint64 `cbor:"3,keyasint,omitempty"` // tags of the beacons that the sender has
}

// welcome answers it.
type welcome struct {
	Beacon []byte   `cbor:"1,keyasint"`
	Have   []uint64 `cbor:"2,keyasint,omitempty"`
	Others []aged   `cbor:"3,keyasint,omitempty"` // what the other side lacks
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
	Others []aged            `cbor:"2,keyasint,omitempty"`
}

func (s *Service) limits() wire.Limits {
	return wire.Limits{MaxMsg: maxMessage, Timeout: s.cfg.Timeout}
}

// exchange talks with a connected peer; sync asks for third peers too.
func (s *Service) exchange(ctx context.Context, p peer.ID, sync bool) (err error) {
	ctx, cancel := context.WithTimeout(network.WithNoDial(ctx, "exchange"), 3*s.cfg.Timeout)
	defer cancel()
	c, err := wire.Dial(ctx, s.cfg.Host, p, s.limits(), s.cfg.Protocol)
	if err != nil {
		return err
	}
	defer func() { c.End(err) }()

	hi := hello{Beacon: s.sealed(), Sync: sync}
	if sync {
		hi.Have = s.dir.have()
	}
	if err := c.Send(hi); err != nil {
		return err
	}
	var back welcome
	if err := c.Recv(&back); err != nil {
		return err
	}
	bye := done{}
	if sync {
		bye.Others = s.dir.lacking(back.Have)
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
	if err := s.conclude(p, at, rtt, back.Beacon, back.Others); err != nil {
		return err
	}
	if sync {
		s.synced(p)
	}
	return nil
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
func (s *Service) answer(_ context.Context, c *wire.Conn) error {
	var hi hello
	if err := c.Recv(&hi); err != nil {
		return err
	}
	back := welcome{Beacon: s.sealed()}
	if hi.Sync {
		if len(hi.Have) > maxHave {
			return fmt.Errorf("%w: %d tags, at most %d", ErrBeacon, len(hi.Have), maxHave)
		}
		back.Have, back.Others = s.dir.have(), s.dir.lacking(hi.Have)
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
	if err := s.conclude(c.Peer(), bye.At, least, hi.Beacon, bye.Others); err != nil {
		return err
	}
	if hi.Sync {
		s.synced(c.Peer())
	}
	return nil
}

// conclude takes in what an exchange with p has shown. The error is p's fault.
func (s *Service) conclude(p peer.ID, at coords.Coordinate, rtt time.Duration, beacon []byte, others []aged) error {
	if len(others) > maxOthers {
		return fmt.Errorf("%w: %d at once, at most %d", ErrBeacon, len(others), maxOthers)
	}
	if err := at.Validate(s.dims); err != nil {
		return fmt.Errorf("peers: coordinate of %s: %w", p, err)
	}
	if err := s.take(beacon, 0); err != nil && !errors.Is(err, ErrKnown) {
		return fmt.Errorf("peers: beacon of %s: %w", p, err)
	}
	s.dir.Touch(p)
	s.observe(p, at, rtt)
	for _, o := range others {
		if err := s.take(o.Sealed, o.age()); errors.Is(err, ErrBeacon) {
			return fmt.Errorf("peers: beacon passed on by %s: %w", p, err)
		}
	}
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
