package peers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/overlay/wire"
)

const (
	// MaxPayload is the maximum size of the payload of a heartbeat and of its answer. Bytes.
	MaxPayload = 64 << 10
	// maxHeartbeat is the maximum size of a heartbeat. Bytes.
	maxHeartbeat = MaxPayload + maxSealed + maxSuspicions*128 + 64
	// streamTTL is how long a peer may be silent on a stream for heartbeats: longer than the
	// interval of beacons in a network in which they are pushed to all.
	streamTTL = 30 * time.Second
	// heartbeatTTL is how long after a heartbeat with a payload the next one is expected, which
	// brings a new beacon. It is longer than IdleInterval of package witness.
	heartbeatTTL = 12 * time.Second
)

// heartbeat is a message of a stream for heartbeats. Each one is answered by one.
type heartbeat struct {
	// Payload is of the caller of SendHeartbeat, or its answer. A push of a beacon, and the
	// answer to it, have none.
	Payload []byte `cbor:"1,keyasint,omitempty"`
	// Beacon is the sender's, if it is newer than the last one that it sent in heartbeats.
	Beacon   []byte      `cbor:"2,keyasint,omitempty"`
	Suspects []suspicion `cbor:"3,keyasint,omitempty"` // peers that the sender suspects
}

// heartbeatStreams are the idle streams to other peers. Heartbeats to one peer share a stream,
// because opening one costs several times the bytes of a heartbeat. The zero value is ready.
type heartbeatStreams struct {
	mu   sync.Mutex
	idle map[peer.ID]*wire.Conn
}

func (h *heartbeatStreams) take(p peer.ID) *wire.Conn {
	h.mu.Lock()
	defer h.mu.Unlock()
	c := h.idle[p]
	delete(h.idle, p)
	return c
}

func (h *heartbeatStreams) put(p peer.ID, c *wire.Conn) {
	h.mu.Lock()
	old := h.idle[p]
	if h.idle == nil {
		h.idle = make(map[peer.ID]*wire.Conn)
	}
	h.idle[p] = c
	h.mu.Unlock()
	if old != nil {
		_ = old.Close()
	}
}

// drop ends the idle stream to a peer that has disconnected.
func (h *heartbeatStreams) drop(p peer.ID) {
	if c := h.take(p); c != nil {
		c.Reset()
	}
}

func (h *heartbeatStreams) close() {
	h.mu.Lock()
	all := h.idle
	h.idle = nil
	h.mu.Unlock()
	for _, c := range all {
		_ = c.Close()
	}
}

// SendHeartbeat sends p a heartbeat with a payload, and returns the payload of its answer. Without
// a payload p is not asked for one. Both heartbeats carry new beacons and suspicions, and show that
// the sender is alive. The stream is kept for the next heartbeat until ctx ends. A failure is
// reported as ReportUnreachable does.
func (x *exchanger) SendHeartbeat(
	ctx context.Context, p peer.ID, payload []byte,
) (answer []byte, err error) {
	if c := x.heartbeats.take(p); c != nil {
		if answer, err = x.exchangeHeartbeats(c, p, payload); err == nil {
			return answer, nil
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		// The stream may only have timed out.
	}
	dialCtx := network.WithDialPeerTimeout(ctx, x.cfg.Timeout)
	conn, err := wire.Dial(dialCtx, x.monitored, p,
		wire.Limits{MaxMsg: maxHeartbeat, Timeout: x.cfg.Timeout}, x.cfg.HeartbeatProtocol)
	if err != nil {
		return nil, err
	}
	return x.exchangeHeartbeats(conn, p, payload)
}

// exchangeHeartbeats sends a heartbeat and waits for the answer. After an error the stream is of
// no more use.
func (x *exchanger) exchangeHeartbeats(
	c *wire.Conn, p peer.ID, payload []byte,
) (answer []byte, err error) {
	defer func() {
		if err != nil {
			x.states.setSent(p, 0)
			c.Reset()
		} else {
			x.heartbeats.put(p, c)
		}
	}()
	if err := c.Send(x.heartbeat(p, payload)); err != nil {
		return nil, err
	}
	var h heartbeat
	if err := c.Recv(&h); err != nil {
		return nil, err
	}
	return h.Payload, x.receiveHeartbeat(p, h)
}

// serveHeartbeats answers the heartbeats of a peer.
func (x *exchanger) serveHeartbeats(ctx context.Context, c *wire.Conn) (err error) {
	p := c.Peer()
	for {
		var h heartbeat
		if err := c.Recv(&h); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if err := x.allow(p, h); err != nil {
			return err
		}
		if err := x.receiveHeartbeat(p, h); err != nil {
			return err
		}
		var answer []byte
		if x.cfg.Answerer != nil && len(h.Payload) > 0 {
			if answer, err = x.cfg.Answerer.AnswerHeartbeat(ctx, p, h.Payload); err != nil {
				return err
			}
		}
		if err := c.Send(x.heartbeat(p, answer)); err != nil {
			x.states.setSent(p, 0)
			return err
		}
	}
}

// payloadRate limits the heartbeats with a payload of a peer. An honest peer sends one every few
// seconds, and up to 257 in a row if there is much to acknowledge (package witness).
var payloadRate = wire.Rate{PerSecond: 2, Burst: 300, TotalFactor: 1024}

// allow returns an error if a peer sends too many heartbeats.
func (x *exchanger) allow(p peer.ID, h heartbeat) error {
	switch now := time.Now(); {
	case len(h.Payload) == 0 && !x.hellos.Allow(helloRate, p, now):
		return fmt.Errorf("peers: too many pushes of %s", p)
	case len(h.Payload) > 0 && !x.payloads.Allow(payloadRate, p, now):
		return fmt.Errorf("peers: too many heartbeats of %s", p)
	}
	return nil
}

// heartbeat returns the next heartbeat to send to p.
func (x *exchanger) heartbeat(p peer.ID, payload []byte) heartbeat {
	sealed, seq := x.self.latest()
	h := heartbeat{Payload: payload, Suspects: x.dir.suspicions()}
	if x.states.setSent(p, seq) < seq {
		h.Beacon = sealed
	}
	return h
}

// receiveHeartbeat handles what a heartbeat says about its sender and other peers. An error
// means that the sender misbehaved; a clock that is wrong does not end heartbeats.
func (x *exchanger) receiveHeartbeat(p peer.ID, h heartbeat) error {
	if len(h.Payload) > MaxPayload || len(h.Suspects) > maxSuspicions {
		return fmt.Errorf("%w: a heartbeat of %d bytes with %d suspicions", ErrBeacon,
			len(h.Payload), len(h.Suspects))
	}
	if len(h.Beacon) > 0 {
		if err := x.intake.addOwnBeacon(p, h.Beacon); errors.Is(err, ErrBeacon) {
			return err
		}
	}
	x.checker.receiveSuspicions(h.Suspects)
	if len(h.Payload) == 0 {
		return nil
	}
	x.states.mu.Lock()
	defer x.states.mu.Unlock()
	x.states.of(p).heartbeatAt = time.Now()
	return nil
}
