package wire

import (
	"context"
	"fmt"
	"time"

	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"
)

// Limits bound one conversation.
type Limits struct {
	// MaxMsg is the largest message taken from the other side. Bytes.
	MaxMsg int
	// Timeout is how long a single send or receive may take. A conversation of
	// n messages may so last n times as long; a silent peer ends it after one.
	Timeout time.Duration
}

// Conn is one conversation with one peer: frames over a stream, each with a
// deadline. One goroutine at a time may send and one may receive.
// Whoever got it from Dial must end it with Close or Reset.
type Conn struct {
	stream network.Stream
	limits Limits
	stop   func() bool // detaches the stream from the context
}

// newConn ties the stream to ctx: when ctx ends, the stream is reset and every
// call on it returns.
func newConn(ctx context.Context, s network.Stream, l Limits) *Conn {
	return &Conn{
		stream: s,
		limits: l,
		stop:   context.AfterFunc(ctx, func() { _ = s.Reset() }),
	}
}

// Dial opens a conversation with p over the first of protos that p speaks. It
// connects when needed, which takes as long as ctx allows. The end of ctx ends
// the conversation at any time.
func Dial(ctx context.Context, h host.Host, p peer.ID, l Limits, protos ...protocol.ID) (*Conn, error) {
	s, err := h.NewStream(ctx, p, protos...)
	if err != nil {
		return nil, fmt.Errorf("wire: open stream: %w", err)
	}
	return newConn(ctx, s, l), nil
}

// Peer is the other side, as proven by the connection's handshake.
func (c *Conn) Peer() peer.ID { return c.stream.Conn().RemotePeer() }

// Stream is what lies beneath, for those who look at its addresses or counts.
func (c *Conn) Stream() network.Stream { return c.stream }

// Send writes one message.
func (c *Conn) Send(v any) error { return c.send(v, false) }

// SendZ writes one compressed message.
func (c *Conn) SendZ(v any) error { return c.send(v, true) }

// Recv reads one message into the pointer v. The other side's orderly end is
// io.EOF.
func (c *Conn) Recv(v any) error { return c.recv(v, false) }

// RecvZ reads one compressed message into the pointer v.
func (c *Conn) RecvZ(v any) error { return c.recv(v, true) }

func (c *Conn) send(v any, packed bool) error {
	if err := c.stream.SetWriteDeadline(time.Now().Add(c.limits.Timeout)); err != nil {
		return fmt.Errorf("wire: set deadline: %w", err)
	}
	if packed {
		return WriteMsgZ(c.stream, v)
	}
	return WriteMsg(c.stream, v)
}

func (c *Conn) recv(v any, packed bool) error {
	if err := c.stream.SetReadDeadline(time.Now().Add(c.limits.Timeout)); err != nil {
		return fmt.Errorf("wire: set deadline: %w", err)
	}
	if packed {
		return ReadMsgZ(c.stream, c.limits.MaxMsg, v)
	}
	return ReadMsg(c.stream, c.limits.MaxMsg, v)
}

// CloseWrite tells the other side that nothing more comes.
func (c *Conn) CloseWrite() error { return c.stream.CloseWrite() }

// Close ends the conversation in good order. What was sent still arrives.
func (c *Conn) Close() error {
	c.stop()
	return c.stream.Close()
}

// Reset breaks the conversation off: the right end after any error.
func (c *Conn) Reset() {
	c.stop()
	_ = c.stream.Reset()
}

// End closes after success and resets after an error, for use in a defer.
func (c *Conn) End(err error) {
	if err != nil {
		c.Reset()
		return
	}
	_ = c.Close()
}
