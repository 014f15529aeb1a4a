package peers

import (
	"context"
	"errors"
	"net"
	"time"

	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"
	"github.com/libp2p/go-libp2p/p2p/net/swarm"
)

// responseTimeout is how long a peer may take to respond before it is reported. Attempts that
// the caller gives up earlier are not reported.
const responseTimeout = 3 * time.Second

// A Listener is told which peers are heard and which do not answer; a Service is one. Its
// methods must not block and may be called often and concurrently.
type Listener interface {
	// Touch is called when bytes of p have come.
	Touch(p peer.ID)
	// ReportUnreachable is called when p cannot be dialed, or does not respond in time.
	ReportUnreachable(p peer.ID)
}

// MonitorHost returns h such that l is told what its streams say about the other peers. Whatever
// protocol a peer speaks, what comes from it is a sign of life.
func MonitorHost(h host.Host, l Listener) host.Host { return monitoredHost{h, l} }

type monitoredHost struct {
	host.Host
	to Listener
}

// SetStreamHandler implements host.Host. A peer may be silent on a stream that it has opened.
func (r monitoredHost) SetStreamHandler(proto protocol.ID, handle network.StreamHandler) {
	r.Host.SetStreamHandler(proto, func(s network.Stream) { handle(heardStream{s, r.to}) })
}

// NewStream implements host.Host.
func (r monitoredHost) NewStream(
	ctx context.Context, p peer.ID, protos ...protocol.ID,
) (network.Stream, error) {
	start := time.Now()
	s, err := r.Host.NewStream(ctx, p, protos...)
	if err != nil {
		if isUnreachable(ctx, err, time.Since(start)) {
			r.to.ReportUnreachable(p)
		}
		return nil, err
	}
	return monitoredStream{heardStream{s, r.to}}, nil
}

// isUnreachable reports whether err, returned after took, may mean that the peer is
// unreachable.
func isUnreachable(ctx context.Context, err error, took time.Duration) bool {
	var dial *swarm.DialError
	switch {
	case errors.Is(ctx.Err(), context.Canceled): // the caller gave up
		return false
	case errors.Is(err, swarm.ErrNoAddresses), errors.Is(err, swarm.ErrNoGoodAddresses),
		errors.Is(err, swarm.ErrDialToSelf),
		errors.Is(err, swarm.ErrGaterDisallowedConnection),
		errors.Is(err, network.ErrResourceLimitExceeded):
		return false // a local failure
	case timedOut(err):
		return took >= responseTimeout
	}
	return errors.As(err, &dial) || errors.Is(err, swarm.ErrDialBackoff)
}

func timedOut(err error) bool {
	var t net.Error
	return errors.Is(err, context.DeadlineExceeded) || errors.As(err, &t) && t.Timeout()
}

// heardStream tells that the remote peer is heard.
type heardStream struct {
	network.Stream
	to Listener
}

// Read implements network.Stream.
func (h heardStream) Read(b []byte) (int, error) {
	n, err := h.Stream.Read(b)
	if n > 0 {
		h.to.Touch(h.Conn().RemotePeer())
	}
	return n, err
}

// monitoredStream also reports the remote peer if it does not respond in time.
type monitoredStream struct{ heardStream }

// Read implements network.Stream.
func (m monitoredStream) Read(b []byte) (int, error) {
	defer m.startTimer()()
	return m.heardStream.Read(b)
}

// Write implements network.Stream. It blocks while the remote peer does not read.
func (m monitoredStream) Write(b []byte) (int, error) {
	defer m.startTimer()()
	return m.Stream.Write(b)
}

// startTimer reports the remote peer after responseTimeout unless done is called before.
func (m monitoredStream) startTimer() (done func()) {
	t := time.AfterFunc(responseTimeout, func() { m.to.ReportUnreachable(m.Conn().RemotePeer()) })
	return func() { t.Stop() }
}
