package wire

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"

	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/protocol"
)

// maxAtOnce is how many conversations one Server holds at a time. What comes
// on top is reset, which the other side sees at once and tries again later.
const maxAtOnce = 256

// A Handler answers one conversation. An error, or a panic, breaks it off;
// nil closes it. ctx ends with the Server. It must not keep c.
type Handler func(ctx context.Context, c *Conn) error

// errPanic wraps what a Handler panicked with.
var errPanic = errors.New("wire: handler panicked")

// A Server answers one protocol on one host until it is closed.
type Server struct {
	host    host.Host
	proto   protocol.ID
	limits  Limits
	handler Handler
	log     *slog.Logger

	ctx    context.Context // handed to handlers; ends with Close
	cancel context.CancelFunc

	mu      sync.Mutex
	closed  bool
	running int
	idle    chan struct{} // closed when running falls to zero after Close
}

// Serve lets fn answer proto on h. It starts no goroutine itself: libp2p calls
// fn from one goroutine a stream. A nil log discards.
func Serve(h host.Host, proto protocol.ID, l Limits, log *slog.Logger, fn Handler) *Server {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	ctx, cancel := context.WithCancel(context.Background())
	s := &Server{
		host: h, proto: proto, limits: l, handler: fn, log: log,
		ctx: ctx, cancel: cancel, idle: make(chan struct{}),
	}
	h.SetStreamHandler(proto, s.accept)
	return s
}

// Close takes no more conversations, breaks off those that run and waits for
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
	c := newConn(s.ctx, stream, s.limits)
	err := s.handle(c)
	c.End(err)
	if err != nil && s.ctx.Err() == nil {
		level := slog.LevelDebug // foreign faults are everyday
		if errors.Is(err, errPanic) {
			level = slog.LevelError
		}
		s.log.Log(s.ctx, level, "conversation failed",
			"protocol", s.proto, "peer", c.Peer(), "err", err)
	}
}

// handle calls the handler; foreign bytes that trip a bug there must not take
// the peer down with them.
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
	if s.closed || s.running >= maxAtOnce {
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
