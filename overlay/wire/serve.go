package wire

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/protocol"
)

// Limits of one Server on conversations. Further ones are reset, so that the other side sees it
// at once and tries again later.
const (
	// maxConversations is how many run at a time, half of them with one peer: a peer may have
	// hundreds of batches for another. An eighth is reserved for peers met long ago.
	maxConversations = 256
	// maxSilent is how many streams may be open on which the first message has not come yet.
	// These cost a goroutine each.
	maxSilent = 512
	// firstByte is how long a stream may be open before its first byte comes: both are sent
	// together.
	firstByte = 2 * time.Second
)

// placeShares divides n places.
func placeShares(n int) *shares {
	return &shares{total: n, peer: n / 2, near: n / 2, young: n - n/8}
}

// A Handler answers one conversation, of which the first message has come. An error or a panic
// resets it; nil closes it. ctx ends with the Server. The Handler must not keep c.
type Handler func(ctx context.Context, c *Conn) error

// errNoPlace is returned if there are too many conversations.
var errNoPlace = errors.New("wire: too many conversations")

// errPanic wraps the value with which a Handler panicked.
var errPanic = errors.New("wire: handler panicked")

// A Server serves one protocol on one host until it is closed.
type Server struct {
	host    host.Host
	proto   protocol.ID
	limits  Limits
	handler Handler
	log     *slog.Logger

	ctx    context.Context // passed to handlers; ends with Close
	cancel context.CancelFunc

	silent *shares // streams without a message yet
	places *shares // conversations

	mu      sync.Mutex
	closed  bool
	running int
	idle    chan struct{} // closed when running falls to zero after Close
}

// Serve serves proto on h with fn. It starts no goroutine: libp2p calls fn in a
// goroutine for each stream. A nil log discards.
func Serve(h host.Host, proto protocol.ID, l Limits, log *slog.Logger, fn Handler) *Server {
	log = cmp.Or(log, slog.New(slog.DiscardHandler))
	ctx, cancel := context.WithCancel(context.Background())
	s := &Server{
		host: h, proto: proto, limits: l, handler: fn, log: log,
		ctx: ctx, cancel: cancel, idle: make(chan struct{}),
		silent: placeShares(maxSilent), places: placeShares(maxConversations),
	}
	h.SetStreamHandler(proto, s.accept)
	return s
}

// Close stops accepting conversations, resets those that run and waits for
// their handlers to return. It may be called more than once.
func (s *Server) Close() {
	s.host.RemoveStreamHandler(s.proto)
	s.cancel()
	s.mu.Lock()
	if !s.closed {
		s.closed = true
		if s.running == 0 {
			close(s.idle)
		}
	}
	s.mu.Unlock()
	<-s.idle
}

func (s *Server) accept(stream network.Stream) {
	if !s.enter() {
		_ = stream.ResetWithError(network.StreamRateLimited)
		return
	}
	defer s.leave()
	c := newConn(s.ctx, s.host, stream, s.limits, true)
	err := s.converse(c)
	if errors.Is(err, errNoPlace) {
		c.stop()
		_ = stream.ResetWithError(network.StreamRateLimited)
	}
	c.End(err)
	if err != nil && s.ctx.Err() == nil {
		level := slog.LevelDebug // errors of other peers are common
		if errors.Is(err, errPanic) {
			level = slog.LevelError
		}
		s.log.Log(s.ctx, level, "conversation failed",
			"protocol", s.proto, "peer", c.Peer(), "err", err)
	}
}

// converse waits for the first message and then takes a place and calls the handler: whoever is
// silent takes no place.
func (s *Server) converse(c *Conn) (err error) {
	who := partyOf(c.met, c.stream)
	if !s.silent.take(who, 1, 0) {
		return errNoPlace
	}
	c.first, err = c.readFrame(min(firstByte, s.limits.Timeout))
	s.silent.release(who, 1)
	if errors.Is(err, io.EOF) {
		return nil
	} else if err != nil {
		return err
	}
	if !s.places.take(who, 1, 0) {
		return errNoPlace
	}
	defer s.places.release(who, 1)
	return s.handle(c)
}

// handle calls the handler and recovers from panics, so that a message that triggers a
// bug does not end the process.
func (s *Server) handle(c *Conn) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: %v\n%s", errPanic, p, debug.Stack())
		}
	}()
	return s.handler(s.ctx, c)
}

func (s *Server) enter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.running++
	return true
}

func (s *Server) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running--
	if s.closed && s.running == 0 {
		close(s.idle)
	}
}
