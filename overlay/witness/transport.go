package witness

import (
	"context"
	"net/netip"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	manet "github.com/multiformats/go-multiaddr/net"

	"peerd/overlay/wire"
	"peerd/store"
)

// transport sends requests to peers and receives theirs.
type transport interface {
	// call sends a request and returns the reply to it, never that to another. It takes
	// at most a few seconds. It is safe for concurrent use.
	call(ctx context.Context, p peer.ID, r request) (reply, error)
	// serve answers requests concurrently until ctx ends, and returns when all answers
	// are complete. After an error no reply is sent.
	serve(ctx context.Context, answer func(context.Context, peer.ID, request) (reply, error))
	// prefixOf returns the IPv4 /24 or IPv6 /48 from which a peer is connected; none if it is
	// not, or not over IP: bounds by prefix do not apply then.
	prefixOf(p peer.ID) netip.Prefix
}

// hostTransport is the transport over a libp2p host. Heartbeats travel with those of package
// peers, other requests over a stream each.
type hostTransport struct{ cfg Config }

func (l hostTransport) call(ctx context.Context, p peer.ID, r request) (got reply, err error) {
	if r.Heartbeat != nil {
		raw, err := wire.Marshal(r)
		if err != nil {
			return reply{}, err
		}
		if raw, err = l.cfg.Node.SendHeartbeat(ctx, p, raw); err != nil {
			return reply{}, err
		}
		return got, wire.Unmarshal(raw, &got)
	}
	ctx = network.WithDialPeerTimeout(ctx, l.cfg.Interval)
	c, err := wire.Dial(ctx, l.cfg.Host, p, wire.Limits{MaxMsg: maxMsg, Timeout: l.cfg.Interval},
		l.cfg.Protocol)
	if err != nil {
		return reply{}, err
	}
	defer func() { c.End(err) }()
	if err := c.Send(r); err != nil {
		return reply{}, err
	}
	return got, c.Recv(&got)
}

func (l hostTransport) serve(
	ctx context.Context, answer func(context.Context, peer.ID, request) (reply, error),
) {
	limits := wire.Limits{MaxMsg: maxMsg, Timeout: max(4*l.cfg.Interval, 10*time.Second)}
	srv := wire.Serve(l.cfg.Host, l.cfg.Protocol, limits, l.cfg.Logger,
		func(ctx context.Context, c *wire.Conn) error {
			var r request
			if err := c.Recv(&r); err != nil {
				return err
			}
			if r.Heartbeat != nil {
				return ErrMessage
			}
			got, err := answer(ctx, c.Peer(), r)
			if err != nil {
				return err
			}
			return c.Send(got)
		})
	<-ctx.Done()
	srv.Close()
}

func (l hostTransport) prefixOf(p peer.ID) netip.Prefix {
	for _, c := range l.cfg.Host.Network().ConnsToPeer(p) {
		ip, err := manet.ToIP(c.RemoteMultiaddr())
		if err != nil {
			continue
		}
		if addr, ok := netip.AddrFromSlice(ip); ok && !addr.IsLoopback() {
			return store.SubnetOf(addr.Unmap())
		}
	}
	return netip.Prefix{}
}

// AnswerHeartbeat answers the payload of an owner's heartbeat, for package peers. It may
// be called concurrently, and fails while Run does not run if it has to write to disk.
func (s *Service) AnswerHeartbeat(ctx context.Context, from peer.ID, raw []byte) ([]byte, error) {
	var r request
	if err := wire.Unmarshal(raw, &r); err != nil {
		return nil, err
	}
	if r.Heartbeat == nil {
		return nil, ErrMessage
	}
	got, err := s.handle(ctx, from, r)
	if err != nil {
		return nil, err
	}
	return wire.Marshal(got)
}
