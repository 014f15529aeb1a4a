package peers

import (
	"context"
	"errors"
	"io"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"
	"github.com/libp2p/go-libp2p/p2p/net/swarm"
)

// doubts counts who was doubted.
type doubts struct {
	mu  sync.Mutex
	who []peer.ID
}

func (d *doubts) add(p peer.ID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.who = append(d.who, p)
}

func (d *doubts) count() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.who)
}

// failing is a host that opens no stream.
type failing struct {
	host.Host
	after time.Duration
	err   error
}

func (f failing) NewStream(ctx context.Context, _ peer.ID, _ ...protocol.ID) (network.Stream, error) {
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(f.after):
		return nil, f.err
	}
}

// Whom a dial does not reach is doubted; who refuses, and who was not dialled for
// reasons of our own, is not.
func TestReachingDoubtsWhomItDoesNotReach(t *testing.T) {
	dial := func(cause error) error { return &swarm.DialError{Peer: "p", Cause: cause} }
	for name, c := range map[string]struct {
		err   error
		after time.Duration
		limit time.Duration // of the caller
		doubt bool
	}{
		"refused connection":  {err: dial(swarm.ErrAllDialsFailed), doubt: true},
		"dialled just before": {err: dial(swarm.ErrDialBackoff), doubt: true},
		"dial timed out":      {err: dial(context.DeadlineExceeded), after: 5 * time.Second, doubt: true},
		"caller has waited":   {after: time.Hour, limit: 4 * time.Second, doubt: true},
		"caller in a hurry":   {after: time.Hour, limit: time.Second},
		"caller gave up":      {after: time.Hour, limit: -1},
		"unknown protocol":    {err: errors.New("protocols not supported: [/x]")},
		"reset":               {err: network.ErrReset, after: time.Second},
		"address unknown":     {err: dial(swarm.ErrNoAddresses)},
		"too many streams":    {err: network.ErrResourceLimitExceeded},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var d doubts
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if c.limit > 0 {
					ctx, cancel = context.WithTimeout(ctx, c.limit)
					defer cancel()
				} else if c.limit < 0 {
					time.AfterFunc(10*time.Second, cancel)
				}
				_, err := Reaching(failing{err: c.err, after: c.after}, d.add).NewStream(ctx, "p", "/x")
				if err == nil || (d.count() > 0) != c.doubt {
					t.Errorf("%v: doubted %d times, want any: %v", err, d.count(), c.doubt)
				}
			})
		})
	}
}

// quietStream answers after a while, with an error.
type quietStream struct {
	network.Stream
	after time.Duration
	err   error
}

type quietConn struct{ network.Conn }

func (quietConn) RemotePeer() peer.ID          { return "p" }
func (q quietStream) Conn() network.Conn       { return quietConn{} }
func (q quietStream) Read([]byte) (int, error) { time.Sleep(q.after); return 0, q.err }

// opening is a host that opens this one stream.
type opening struct {
	host.Host
	s network.Stream
}

func (o opening) NewStream(context.Context, peer.ID, ...protocol.ID) (network.Stream, error) {
	return o.s, nil
}

// Who is silent for a while is doubted before anybody gives up; who answers, with
// whatever, is not.
func TestReachingDoubtsTheSilent(t *testing.T) {
	for name, c := range map[string]struct {
		after time.Duration
		err   error
		want  int
	}{
		"answer":  {impatience / 2, nil, 0},
		"refusal": {impatience / 2, network.ErrReset, 0},
		"end":     {0, io.EOF, 0},
		"silent":  {30 * time.Second, errors.New("deadline"), 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var d doubts
				s, err := Reaching(opening{s: quietStream{after: c.after, err: c.err}}, d.add).NewStream(t.Context(), "p")
				if err != nil {
					t.Fatal(err)
				}
				go func() { _, _ = s.Read(nil) }()
				time.Sleep(impatience + time.Second)
				if d.count() != c.want {
					t.Errorf("doubted %d times, want %d", d.count(), c.want)
				}
				time.Sleep(time.Minute)
			})
		})
	}
}
