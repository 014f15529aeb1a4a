package admission

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"

	"peerd/overlay/wire"
)

// ErrRefused is returned if another peer does not take this one for a member.
var ErrRefused = errors.New("admission: the peer refused this one's membership")

const (
	// showTimeout bounds one message of the exchange, and showTotal the exchange. A peer that is
	// not connected is dialed first.
	showTimeout = 5 * time.Second
	showTotal   = 10 * time.Second
	// maxShown bounds a message: a membership, or a reason. Bytes.
	maxShown = maxCertificate + 16 + 1024
	// maxAdmitted is how many peers are remembered as members, connected or not.
	maxAdmitted = 8192
)

// showRate is how often a peer may show its membership: once on each connection.
var showRate = wire.Rate{PerSecond: 2, Burst: 16, TotalFactor: 16}

// shown is both messages of the exchange of memberships.
type shown struct {
	Membership Membership `cbor:"1,keyasint,omitempty"`
	Refused    string     `cbor:"2,keyasint,omitempty"` // only in a response: why
}

// A Gate is a host that opens streams to members only, and serves members only. The embedded
// host does neither: protocols for strangers use it. Its methods are safe for concurrent use.
type Gate struct {
	host.Host
	rules Rules
	own   Membership
	proto protocol.ID

	limiter wire.Limiter
	ctx     context.Context // of exchanges; ends with Close
	stop    context.CancelFunc
	running sync.WaitGroup // exchanges

	mu sync.Mutex
	// admitted are the peers that have shown a valid membership, which lasts. The value says
	// that the peer has also accepted this one's, which lasts as long as the connections do.
	admitted map[peer.ID]bool
	showing  map[peer.ID]*showing // exchanges in progress
}

// showing is an exchange that this peer has begun.
type showing struct {
	done chan struct{}
	err  error // once done is closed
}

// NewGate returns the gate of a network on h. own is this peer's membership, and proto the
// protocol of the exchange. Serve must be called before other peers connect.
func NewGate(h host.Host, rules Rules, own Membership, proto protocol.ID) *Gate {
	ctx, stop := context.WithCancel(context.Background())
	return &Gate{Host: h, rules: rules, own: own, proto: proto, ctx: ctx, stop: stop,
		admitted: map[peer.ID]bool{}, showing: map[peer.ID]*showing{}}
}

// End ends the exchanges that this peer has begun, and waits for them. The host stays open.
func (g *Gate) End() {
	g.mu.Lock() // an exchange that Admit is about to begin is waited for
	g.stop()
	g.mu.Unlock()
	g.running.Wait()
}

// Serve answers other peers until the returned Server is closed. log may be nil.
func (g *Gate) Serve(log *slog.Logger) *wire.Server {
	g.Network().Notify(&network.NotifyBundle{DisconnectedF: g.disconnected})
	return wire.Serve(g.Host, g.proto, wire.Limits{MaxMsg: maxShown, Timeout: showTimeout}, log,
		g.handle)
}

// handle checks the membership of another peer, and shows this one's.
func (g *Gate) handle(_ context.Context, c *wire.Conn) error {
	if !g.limiter.Allow(showRate, c.Peer(), time.Now()) {
		return errors.New("admission: too many exchanges")
	}
	var in shown
	if err := c.Recv(&in); err != nil {
		return err
	}
	if err := g.rules.Check(c.Peer(), in.Membership); err != nil {
		return c.Send(shown{Refused: err.Error()}) // an error would reset the stream
	}
	g.mu.Lock()
	g.admit(c.Peer(), g.admitted[c.Peer()])
	g.mu.Unlock()
	return c.Send(shown{Membership: g.own})
}

// admit remembers a member. The caller holds mu.
func (g *Gate) admit(p peer.ID, accepted bool) {
	if _, known := g.admitted[p]; !known && len(g.admitted) >= maxAdmitted {
		for q := range g.admitted {
			if !wire.Connected(g.Host, q) {
				delete(g.admitted, q) // it shows its membership again when it connects
			}
		}
	}
	g.admitted[p] = accepted
}

// Admitted reports whether a peer has shown a valid membership since this peer started.
func (g *Gate) Admitted(p peer.ID) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	_, ok := g.admitted[p]
	return ok
}

// Admit exchanges memberships with a peer, unless that has been done on the present connection.
// The error matches ErrNoMember or ErrMembership if the peer is not a member, and ErrRefused if
// that says so of this one; others mean that the exchange failed.
func (g *Gate) Admit(ctx context.Context, p peer.ID) error {
	g.mu.Lock()
	if g.admitted[p] {
		g.mu.Unlock()
		return nil
	}
	s := g.showing[p]
	if s == nil && g.ctx.Err() != nil {
		g.mu.Unlock()
		return g.ctx.Err()
	}
	if s == nil {
		s = &showing{done: make(chan struct{})}
		g.showing[p] = s
		// The exchange is for all that wait for it, and outlives each of them.
		g.running.Go(func() { g.show(p, s) })
	}
	g.mu.Unlock()
	select {
	case <-s.done:
		return s.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// show does an exchange and ends s with its result.
func (g *Gate) show(p peer.ID, s *showing) {
	ctx, cancel := context.WithTimeout(g.ctx, showTotal)
	defer cancel()
	err := g.exchange(ctx, p)
	g.mu.Lock()
	defer g.mu.Unlock()
	if err == nil {
		g.admit(p, wire.Connected(g.Host, p))
	}
	delete(g.showing, p)
	s.err = err
	close(s.done)
}

func (g *Gate) exchange(ctx context.Context, p peer.ID) error {
	c, err := wire.Dial(ctx, g.Host, p, wire.Limits{MaxMsg: maxShown, Timeout: showTimeout},
		g.proto)
	if err != nil {
		return fmt.Errorf("show membership: %w", err)
	}
	defer c.Reset()
	var out shown
	if err := errors.Join(c.Send(shown{Membership: g.own}), c.CloseWrite()); err != nil {
		return fmt.Errorf("show membership: %w", err)
	}
	if err := c.Recv(&out); err != nil {
		return fmt.Errorf("show membership: %w", err)
	}
	if out.Refused != "" {
		return fmt.Errorf("%w: %.*q", ErrRefused, maxReason, out.Refused)
	}
	return g.rules.Check(p, out.Membership)
}

// disconnected notes that a peer may have forgotten this one.
func (g *Gate) disconnected(nw network.Network, c network.Conn) {
	p := c.RemotePeer()
	if len(nw.ConnsToPeer(p)) > 0 {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if _, ok := g.admitted[p]; ok {
		g.admitted[p] = false
	}
}

// SetStreamHandler implements host.Host.
func (g *Gate) SetStreamHandler(proto protocol.ID, handle network.StreamHandler) {
	g.Host.SetStreamHandler(proto, g.guarded(handle))
}

// SetStreamHandlerMatch implements host.Host.
func (g *Gate) SetStreamHandlerMatch(
	proto protocol.ID, match func(protocol.ID) bool, handle network.StreamHandler,
) {
	g.Host.SetStreamHandlerMatch(proto, match, g.guarded(handle))
}

func (g *Gate) guarded(handle network.StreamHandler) network.StreamHandler {
	return func(s network.Stream) {
		if !g.Admitted(s.Conn().RemotePeer()) {
			_ = s.ResetWithError(network.StreamGated)
			return
		}
		handle(s)
	}
}

// NewStream implements host.Host.
func (g *Gate) NewStream(
	ctx context.Context, p peer.ID, protos ...protocol.ID,
) (network.Stream, error) {
	if err := g.Admit(ctx, p); err != nil {
		return nil, err
	}
	return g.Host.NewStream(ctx, p, protos...)
}
