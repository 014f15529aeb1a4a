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

// impatience is how long an answer may be waited for before it is asked whether the
// other is there at all; what gave up sooner says nothing.
const impatience = 3 * time.Second

// Reaching is h for those who talk to peers for a reason of their own: whom they do
// not reach, or do not hear, is doubted (Service.Doubt) long before it would have
// been missed by itself. What a peer says, a refusal or a broken-off conversation
// included, shows that it is there. doubt must return at once and may be called often.
func Reaching(h host.Host, doubt func(peer.ID)) host.Host { return reaching{h, doubt} }

type reaching struct {
	host.Host
	doubt func(peer.ID)
}

// NewStream is that of the host.
func (r reaching) NewStream(ctx context.Context, p peer.ID, protos ...protocol.ID) (network.Stream, error) {
	begun := time.Now()
	s, err := r.Host.NewStream(ctx, p, protos...)
	if err != nil {
		if unreached(ctx, err, time.Since(begun)) {
			r.doubt(p)
		}
		return nil, err
	}
	return listener{s, r.doubt}, nil
}

// unreached says whether an error, which took so long, means that the other peer may
// not be there.
func unreached(ctx context.Context, err error, took time.Duration) bool {
	var dial *swarm.DialError
	switch {
	case errors.Is(ctx.Err(), context.Canceled): // who wanted it does not any more
		return false
	case errors.Is(err, swarm.ErrNoAddresses), errors.Is(err, swarm.ErrNoGoodAddresses), errors.Is(err, swarm.ErrDialToSelf),
		errors.Is(err, swarm.ErrGaterDisallowedConnection), errors.Is(err, network.ErrResourceLimitExceeded):
		return false // this is about ourselves
	case timedOut(err):
		return took >= impatience
	}
	return errors.As(err, &dial) || errors.Is(err, swarm.ErrDialBackoff)
}

func timedOut(err error) bool {
	var t net.Error
	return errors.Is(err, context.DeadlineExceeded) || errors.As(err, &t) && t.Timeout()
}

// listener is a stream whose other end is doubted when it is silent.
type listener struct {
	network.Stream
	doubt func(peer.ID)
}

// Read is that of the stream.
func (l listener) Read(b []byte) (int, error) {
	defer l.waiting()()
	return l.Stream.Read(b)
}

// Write is that of the stream; it waits when the other end takes nothing in.
func (l listener) Write(b []byte) (int, error) {
	defer l.waiting()()
	return l.Stream.Write(b)
}

// waiting doubts the other end after a while, unless done is called before.
func (l listener) waiting() (done func()) {
	t := time.AfterFunc(impatience, func() { l.doubt(l.Conn().RemotePeer()) })
	return func() { t.Stop() }
}
