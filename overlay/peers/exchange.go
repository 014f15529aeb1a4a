package peers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/coords"
	"peerd/overlay/wire"
)

// pingRounds is the number of round trips that an exchange measures. The minimum of three
// rarely includes a delay by a busy processor.
const pingRounds = 3

// maxMessage is the maximum size of a message in bytes: maxFirstSync beacons, a digest, and
// twice maxAbsent names.
const maxMessage = maxFirstSync*(maxSealed+32) + digestEntry*maxDigest + 2*(maxName+8)*maxAbsent +
	maxSealed + 1024

// hello opens a stream.
type hello struct {
	Beacon []byte `cbor:"1,keyasint"` // the sender's, signed
	// Sync, if not nil, asks both sides to relay beacons of third peers in this exchange.
	Sync *syncRequest `cbor:"2,keyasint,omitempty"`
	// Probe, if not nil, asks for a probeReply and nothing else.
	Probe *probeRequest `cbor:"3,keyasint,omitempty"`
	Joins bool          `cbor:"4,keyasint,omitempty"` // the sender asks which members are away
}

// welcome is the reply to hello.
type welcome struct {
	Beacon   []byte          `cbor:"1,keyasint"`
	Sync     *syncRequest    `cbor:"2,keyasint,omitempty"`
	Others   []RelayedBeacon `cbor:"3,keyasint,omitempty"` // beacons that the other side lacks
	Suspects []suspicion     `cbor:"4,keyasint,omitempty"` // peers that the sender suspects
	Joins    bool            `cbor:"5,keyasint,omitempty"`
	Absent   []absent        `cbor:"6,keyasint,omitempty"` // if hello asks for it
	Joined   []peer.ID       `cbor:"7,keyasint,omitempty"` // while members were away
}

// ping asks for a pong.
type ping struct {
	// Round is one more than in the ping before. That of the first is a random number, by which
	// logs of both sides are compared.
	Round int64 `cbor:"1,keyasint"`
}

// Exchange are the pings of one exchange, as one side saw them. The nth answer belongs to the nth
// question.
type Exchange struct {
	Peer  peer.ID
	ID    int64 // the same at both sides
	Asked bool  // this side asked
	// Sent and Received are the times of messages of this side and of the other one.
	Sent, Received []time.Time
	RTT            time.Duration // the least that this side measured
	At             coords.Coordinate
}

// pong is the reply to ping.
type pong struct {
	At coords.Coordinate `cbor:"1,keyasint"` // the sender's, without load
}

// done closes an exchange.
type done struct {
	At       coords.Coordinate `cbor:"1,keyasint"`
	Others   []RelayedBeacon   `cbor:"2,keyasint,omitempty"`
	Suspects []suspicion       `cbor:"3,keyasint,omitempty"`
	Absent   []absent          `cbor:"4,keyasint,omitempty"` // if welcome asks for it
	Joined   []peer.ID         `cbor:"5,keyasint,omitempty"` // while members were away
}

// helloRate limits the exchanges and the pushes that a peer begins. An honest peer begins one or
// two a second while its coordinate has not converged.
var helloRate = wire.Rate{PerSecond: 8, Burst: 64, TotalFactor: 32}

// exchanger exchanges beacons and heartbeats with other peers.
type exchanger struct {
	*env
	self    *self
	states  *peerStates
	intake  *intake
	checker *checker
	joining *newcomers

	measured   func(Exchange) // nil: none
	monitored  host.Host      // Config.Host, monitored by the Service
	heartbeats heartbeatStreams
	hellos     wire.Limiter // limits what other peers begin
	payloads   wire.Limiter // limits their heartbeats with a payload
}

// exchange runs an exchange with a connected peer. most is how many beacons of third peers each
// side may relay; 0 means no sync.
func (x *exchanger) exchange(ctx context.Context, p peer.ID, most int) (err error) {
	ctx, cancel := context.WithTimeout(network.WithNoDial(ctx, "exchange"), 3*x.cfg.Timeout)
	defer cancel()
	c, err := wire.Dial(ctx, x.cfg.Host, p, x.limits(), x.cfg.Protocol)
	if err != nil {
		return err
	}
	defer func() { c.End(err) }()

	first := hello{Beacon: x.self.sealed(), Joins: x.joining.joins()}
	if most > 0 {
		w := x.dir.syncRequest(x.self.coordinate(), most)
		first.Sync = &w
	}
	if err := c.Send(first); err != nil {
		return err
	}
	var reply welcome
	if err := c.Recv(&reply); err != nil {
		return err
	}
	last := done{Suspects: x.dir.suspicions(), Joined: x.joining.joinedHere()}
	if reply.Joins {
		last.Absent = x.joining.absentFor(p)
	}
	if most > 0 && reply.Sync != nil {
		if last.Others, err = x.beaconsFor(*reply.Sync, reply.Beacon); err != nil {
			return err
		}
	}
	last.Others = x.withNewer(last.Others, reply.Beacon)
	// Nothing but the pings may happen between here and sending last, because both sides
	// measure.
	seen, err := measure(c)
	if err != nil {
		return err
	}
	last.At = x.self.coordinate()
	if err := c.Send(last); err != nil {
		return err
	}
	seen.Peer = p
	if err := x.finishExchange(seen, reply.Beacon,
		thirdPeers{reply.Others, reply.Suspects, reply.Absent, reply.Joined}); err != nil {
		return err
	}
	if most > 0 {
		x.states.markSynced(p)
	}
	return nil
}

// beaconsFor returns the beacons to relay in answer to w. sealed is the requester's beacon,
// which need not be authentic for this.
func (x *exchanger) beaconsFor(w syncRequest, sealed []byte) ([]RelayedBeacon, error) {
	if err := w.validate(); err != nil {
		return nil, err
	}
	claim, err := peek(sealed)
	if err != nil {
		return nil, err
	}
	if err := claim.At.Validate(x.dims); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrBeacon, err)
	}
	if w.Radius > 0 {
		x.states.mu.Lock()
		x.states.otherPartialAt = time.Now()
		x.states.mu.Unlock()
	}
	return x.dir.beaconsFor(w, claim.At.Unloaded(claim.Wait)), nil
}

// measure sends the pings.
func measure(c *wire.Conn) (Exchange, error) {
	e := Exchange{Asked: true, ID: rand.Int64N(maxExchangeID), RTT: math.MaxInt64}
	for i := range int64(pingRounds) {
		start := time.Now()
		if err := c.Send(ping{Round: e.ID + i}); err != nil {
			return e, err
		}
		var answer pong
		if err := c.Recv(&answer); err != nil {
			return e, err
		}
		end := time.Now()
		e.Sent, e.Received = append(e.Sent, start), append(e.Received, end)
		e.RTT, e.At = min(e.RTT, end.Sub(start)), answer.At
	}
	return e, nil
}

// maxExchangeID bounds the random number of an exchange: a Round fits into 32 bits.
const maxExchangeID = 1 << 30

// withNewer adds to the beacons for a peer that of its own which is known here, if that is newer
// than the one that the peer shows: then another process with the same key has made it, or the peer
// has before its clock was set back.
func (x *exchanger) withNewer(others []RelayedBeacon, shown []byte) []RelayedBeacon {
	claim, err := peek(shown)
	if err != nil {
		return others
	}
	known, ok := x.dir.Relayed(claim.Peer)
	if b, err := peek(known.Sealed); !ok || err != nil || b.Seq <= claim.Seq {
		return others
	}
	return append([]RelayedBeacon{known}, others[:min(len(others), maxFirstSync-1)]...)
}

// handle serves a stream of another peer.
func (x *exchanger) handle(ctx context.Context, c *wire.Conn) error {
	var first hello
	if err := c.Recv(&first); err != nil {
		return err
	}
	if first.Probe != nil {
		return x.checker.answerProbe(ctx, c, first)
	}
	if !x.hellos.Allow(helloRate, c.Peer(), time.Now()) {
		return fmt.Errorf("peers: too many exchanges of %s", c.Peer())
	}
	reply := welcome{Beacon: x.self.sealed(), Suspects: x.dir.suspicions(),
		Joins: x.joining.joins(), Joined: x.joining.joinedHere()}
	if first.Joins {
		reply.Absent = x.joining.absentFor(c.Peer())
	}
	if first.Sync != nil {
		var err error
		if reply.Others, err = x.beaconsFor(*first.Sync, first.Beacon); err != nil {
			return err
		}
		w := x.dir.syncRequest(x.self.coordinate(), first.Sync.MaxBeacons)
		reply.Sync = &w
	}
	reply.Others = x.withNewer(reply.Others, first.Beacon)
	if err := c.Send(reply); err != nil {
		return err
	}
	seen, err := answerPings(c, x.self.coordinate)
	if err != nil {
		return err
	}
	// This message may be long and is not measured.
	var last done
	if err := c.Recv(&last); err != nil {
		return err
	}
	seen.At = last.At
	if err := x.finishExchange(seen, first.Beacon,
		thirdPeers{last.Others, last.Suspects, last.Absent, last.Joined}); err != nil {
		return err
	}
	if first.Sync != nil {
		x.states.markSynced(c.Peer())
	}
	return nil
}

// answerPings is the other side of clock. It measures from an answer to the next question.
func answerPings(c *wire.Conn, at func() coords.Coordinate) (Exchange, error) {
	e := Exchange{Peer: c.Peer(), RTT: math.MaxInt64}
	for i := range pingRounds {
		var asked ping
		if err := c.Recv(&asked); err != nil {
			return e, err
		}
		now := time.Now()
		if i == 0 {
			e.ID = asked.Round
		} else {
			e.RTT = min(e.RTT, now.Sub(e.Sent[i-1]))
		}
		start := time.Now()
		if err := c.Send(pong{At: at()}); err != nil {
			return e, err
		}
		e.Sent, e.Received = append(e.Sent, start), append(e.Received, now)
	}
	return e, nil
}

// thirdPeers is what one side sends about third peers.
type thirdPeers struct {
	beacons  []RelayedBeacon
	suspects []suspicion
	absent   []absent
	joined   []peer.ID
}

// finishExchange stores the results of an exchange. An error means that the other peer misbehaved.
func (x *exchanger) finishExchange(seen Exchange, beacon []byte, third thirdPeers) error {
	p := seen.Peer
	if len(third.beacons) > maxFirstSync || len(third.suspects) > maxSuspicions {
		return fmt.Errorf("%w: %d beacons and %d suspicions, want at most %d and %d",
			ErrBeacon, len(third.beacons), len(third.suspects), maxFirstSync, maxSuspicions)
	}
	if err := cmp.Or(checkAbsent(third.absent), checkJoined(third.joined)); err != nil {
		return err
	}
	if err := seen.At.Validate(x.dims); err != nil {
		return fmt.Errorf("peers: coordinate of %s: %w", p, err)
	}
	if err := x.intake.addOwnBeacon(p, beacon); err != nil {
		return err
	}
	x.dir.Touch(p)
	x.observe(p, seen.At, seen.RTT)
	if x.measured != nil {
		x.measured(seen)
	}
	for _, o := range third.beacons {
		if err := x.intake.addBeacon(p, o); errors.Is(err, ErrBeacon) {
			return fmt.Errorf("peers: beacon relayed by %s: %w", p, err)
		}
	}
	x.checker.receiveSuspicions(third.suspects)
	x.joining.told(p, third.absent)
	x.joining.toldJoined(p, third.joined)
	return nil
}

// observe passes a measurement to the estimator, with the place that others confirm.
func (x *exchanger) observe(p peer.ID, claim coords.Coordinate, rtt time.Duration) {
	at := observationsOf(x.self, x.dir).place(p, claim)
	x.states.mu.Lock()
	st := x.states.of(p)
	st.rtt, st.measuredAt = rtt, time.Now()
	err := x.self.observe(p, at, rtt)
	x.states.mu.Unlock()
	if err != nil {
		x.log.Debug("ignored round trip", "peer", p, "rtt", rtt, "err", err)
	}
}
