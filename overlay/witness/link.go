package witness

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/overlay/wire"
)

// link carries requests to peers and theirs to this one.
type link interface {
	// call sends a request and returns the reply to it, to no other. It takes no
	// longer than a few seconds, and may be called by many at once.
	call(ctx context.Context, p peer.ID, r request) (reply, error)
	// serve has answers made to requests, many at once, until ctx ends and all of
	// them are done. An error gets no reply.
	serve(ctx context.Context, answer func(context.Context, peer.ID, request) (reply, error))
}

// streams is the link over a libp2p host. Heartbeats to one peer share a stream, as
// opening one costs several times the bytes that they have.
type streams struct {
	cfg Config

	mu    sync.Mutex
	beats map[peer.ID]*wire.Conn // idle ones
}

func newStreams(cfg Config) *streams {
	return &streams{cfg: cfg, beats: map[peer.ID]*wire.Conn{}}
}

func (l *streams) call(ctx context.Context, p peer.ID, r request) (reply, error) {
	if r.Beat == nil {
		c, err := l.dial(ctx, p)
		if err != nil {
			return reply{}, err
		}
		got, err := exchange(c, r)
		c.End(err)
		return got, err
	}
	c := l.take(p)
	if c != nil {
		if got, err := exchange(c, r); err == nil {
			l.put(p, c)
			return got, nil
		}
		c.Reset() // it may only have been too old
		if ctx.Err() != nil {
			return reply{}, context.Cause(ctx)
		}
	}
	c, err := l.dial(ctx, p)
	if err != nil {
		return reply{}, err
	}
	got, err := exchange(c, r)
	if err != nil {
		c.Reset()
		return reply{}, err
	}
	l.put(p, c)
	return got, nil
}

func exchange(c *wire.Conn, r request) (got reply, err error) {
	if err := c.Send(r); err != nil {
		return reply{}, err
	}
	err = c.Recv(&got)
	return got, err
}

// dial opens a stream that lives as long as ctx.
func (l *streams) dial(ctx context.Context, p peer.ID) (*wire.Conn, error) {
	ctx = network.WithDialPeerTimeout(ctx, l.cfg.Interval)
	return wire.Dial(ctx, l.cfg.Host, p, wire.Limits{MaxMsg: maxMsg, Timeout: l.cfg.Interval}, l.cfg.Protocol)
}

func (l *streams) take(p peer.ID) *wire.Conn {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.beats[p]
	delete(l.beats, p)
	return c
}

func (l *streams) put(p peer.ID, c *wire.Conn) {
	l.mu.Lock()
	old := l.beats[p]
	l.beats[p] = c
	l.mu.Unlock()
	if old != nil {
		_ = old.Close()
	}
}

func (l *streams) serve(ctx context.Context, answer func(context.Context, peer.ID, request) (reply, error)) {
	patience := max(4*l.cfg.Interval, 10*time.Second) // between two heartbeats
	limits := wire.Limits{MaxMsg: maxMsg, Timeout: patience}
	srv := wire.Serve(l.cfg.Host, l.cfg.Protocol, limits, l.cfg.Logger, func(ctx context.Context, c *wire.Conn) error {
		for {
			var r request
			if err := c.Recv(&r); err != nil {
				if errors.Is(err, io.EOF) {
					return nil
				}
				return err
			}
			got, err := answer(ctx, c.Peer(), r)
			if err != nil {
				return err
			}
			if err := c.Send(got); err != nil {
				return err
			}
		}
	})
	<-ctx.Done()
	srv.Close()
	l.mu.Lock()
	all := l.beats
	l.beats = map[peer.ID]*wire.Conn{}
	l.mu.Unlock()
	for _, c := range all {
		_ = c.Close()
	}
}
