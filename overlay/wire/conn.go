package wire

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/peerstore"
	"github.com/libp2p/go-libp2p/core/protocol"
)

// Limits bound one conversation.
type Limits struct {
	// MaxMsg is the largest message that is received. Bytes.
	MaxMsg int
	// Timeout is how long a single send or receive may take. So a conversation of
	// n messages may take n times as long; a silent peer ends it after one.
	Timeout time.Duration
}

// Conn is one conversation with one peer: messages over a stream, each with a
// deadline. One goroutine at a time may send and one may receive.
// The caller of Dial must end it with Close or Reset. The memory of a message counts as in
// use until the next one is received, or the conversation is ended.
type Conn struct {
	stream  network.Stream
	limits  Limits
	met     peerstore.Peerstore // says who was introduced by Meet
	inbound bool                // the other peer has opened it
	ctx     context.Context     // ends the conversation
	stop    func() bool         // detaches the stream from ctx
	first   []byte              // a frame that was read before the Handler was called

	mu    sync.Mutex
	party party   // whom held was taken for
	free  int     // what may still be allocated for this message without being counted
	held  int     // bytes in use
	from  *shares // of which they were taken
}

// newConn ties the stream to ctx: at the end of ctx the stream is reset and all
// calls on it return.
func newConn(
	ctx context.Context, h host.Host, s network.Stream, l Limits, inbound bool,
) *Conn {
	return &Conn{
		stream:  s,
		limits:  l,
		met:     h.Peerstore(),
		inbound: inbound,
		ctx:     ctx,
		stop:    context.AfterFunc(ctx, func() { _ = s.Reset() }),
	}
}

// Dial opens a conversation with p over the first of protos that p speaks. It
// connects if need be, which may take as long as ctx. The end of ctx ends
// the conversation.
func Dial(
	ctx context.Context, h host.Host, p peer.ID, l Limits, protos ...protocol.ID,
) (*Conn, error) {
	s, err := h.NewStream(ctx, p, protos...)
	if err != nil {
		return nil, fmt.Errorf("wire: open stream: %w", err)
	}
	return newConn(ctx, h, s, l, false), nil
}

// Ask sends a message to p on a stream of its own, and receives the answer.
func Ask(
	ctx context.Context, h host.Host, p peer.ID, l Limits, proto protocol.ID, msg, answer any,
) (err error) {
	c, err := Dial(ctx, h, p, l, proto)
	if err != nil {
		return err
	}
	defer func() { c.End(err) }()
	if err := c.Send(msg); err != nil {
		return err
	}
	return c.Recv(answer)
}

// Peer returns the other peer, as proven by the connection's handshake.
func (c *Conn) Peer() peer.ID { return c.stream.Conn().RemotePeer() }

// Send writes one message.
func (c *Conn) Send(v any) error { return c.send(v, false) }

// SendZ writes one compressed message.
func (c *Conn) SendZ(v any) error { return c.send(v, true) }

// Recv reads one message into the pointer v. It returns io.EOF when the other side has
// closed the stream.
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
	body := c.first
	c.first = nil
	if body == nil {
		var err error
		if body, err = c.readFrame(c.limits.Timeout); err != nil {
			return err
		}
	}
	return decode(body, c.maxMsg(), v, packed, c)
}

// readFrame returns the body of the next frame, of which the first byte comes within wait. It
// ends the use of the last message.
func (c *Conn) readFrame(wait time.Duration) ([]byte, error) {
	c.release()
	if err := c.stream.SetReadDeadline(time.Now().Add(wait)); err != nil {
		return nil, fmt.Errorf("wire: set deadline: %w", err)
	}
	n, err := readLength(c.stream, c.maxMsg())
	if err != nil {
		return nil, err
	}
	if err := c.Use(n); err != nil {
		return nil, err
	}
	rest := min(c.limits.Timeout, frameSlack+time.Duration(n)*time.Second/minRate)
	if err := c.stream.SetReadDeadline(time.Now().Add(rest)); err != nil {
		return nil, fmt.Errorf("wire: set deadline: %w", err)
	}
	return readBody(c.stream, n)
}

// maxMsg returns how large a message may be now. Bytes.
func (c *Conn) maxMsg() int {
	if _, ok := Met(c.met, c.Peer()); c.inbound && !ok {
		return min(c.limits.MaxMsg, maxUnmet)
	}
	return c.limits.MaxMsg
}

// Use counts n bytes more as in use for the last message, before its receiver allocates them. It
// waits until there are so many, and returns ErrBusy if that takes too long.
func (c *Conn) Use(n int) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n <= c.free {
		c.free -= n
		return nil
	}
	if c.held == 0 {
		c.from, c.party = inFlight.Load(), partyOf(c.met, c.stream)
	}
	n = min(n, c.from.peer)
	// Only End, Close and Reset use mu as well, and may wait.
	if !c.from.takeWithin(c.ctx, c.party, n, c.held, maxWait) {
		return fmt.Errorf("%w: %d bytes for %s", ErrBusy, n, c.party.peer)
	}
	c.held += n
	return nil
}

// release ends the use of the last message.
func (c *Conn) release() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.free = freeBytes
	if c.held > 0 {
		c.from.release(c.party, c.held)
		c.held = 0
	}
}

// CloseWrite tells the other side that no more messages follow.
func (c *Conn) CloseWrite() error { return c.stream.CloseWrite() }

// Close ends the conversation. What was sent still arrives.
func (c *Conn) Close() error {
	c.stop()
	c.release()
	return c.stream.Close()
}

// Reset aborts the conversation. Call it after any error.
func (c *Conn) Reset() {
	c.stop()
	_ = c.stream.Reset()
	c.release()
}

// End closes after success and resets after an error, for use in a defer.
func (c *Conn) End(err error) {
	if err != nil {
		c.Reset()
		return
	}
	_ = c.Close()
}

// Connected reports whether h has a connection to p, directly or through a relay.
func Connected(h host.Host, p peer.ID) bool {
	c := h.Network().Connectedness(p)
	return c == network.Connected || c == network.Limited
}
