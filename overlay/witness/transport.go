package witness

import (
	"context"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/overlay/wire"
)

// transport sends requests to peers and receives theirs.
type transport interface {
	// call sends a request and returns the reply to it, never that to another. It takes
	// at most a few seconds. It is safe for concurrent use.
	call(ctx context.Context, p peer.ID, r request) (reply, error)
	// serve answers requests concurrently until ctx ends, and returns when all answers
	// are complete. After an error no reply is sent.
	serve(ctx context.Context, answer func(context.Context, peer.ID, request) (reply, error))
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
