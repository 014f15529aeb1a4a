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

// reports records which peers were reported and heard.
type reports struct {
	mu           sync.Mutex
	peers, heard []peer.ID
}

func (d *reports) ReportUnreachable(p peer.ID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.peers = append(d.peers, p)
}

func (d *reports) Touch(p peer.ID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.heard = append(d.heard, p)
}

func (d *reports) count() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.peers)
}

// failingHost opens no streams.
type failingHost struct {
	host.Host
	after time.Duration
	err   error
}

func (f failingHost) NewStream(
	ctx context.Context, _ peer.ID, _ ...protocol.ID,
) (network.Stream, error) {
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(f.after):
		return nil, f.err
	}
}

// A peer that cannot be dialed is reported. A peer that refuses the stream, or was not dialed
// for a local reason, is not.
func TestMonitorHostReportsFailedDials(t *testing.T) {
	dial := func(cause error) error { return &swarm.DialError{Peer: "p", Cause: cause} }
	for name, c := range map[string]struct {
		err    error
		after  time.Duration
		limit  time.Duration // of the caller's context
		report bool
	}{
		"refused connection": {err: dial(swarm.ErrAllDialsFailed), report: true},
		"dialed just before": {err: dial(swarm.ErrDialBackoff), report: true},
		"dial timed out": {err: dial(context.DeadlineExceeded), after: 5 * time.Second,
			report: true},
		"caller has waited": {after: time.Hour, limit: 4 * time.Second, report: true},
		"caller in a hurry": {after: time.Hour, limit: time.Second},
		"caller gave up":    {after: time.Hour, limit: -1},
		"unknown protocol":  {err: errors.New("protocols not supported: [/x]")},
		"reset":             {err: network.ErrReset, after: time.Second},
		"address unknown":   {err: dial(swarm.ErrNoAddresses)},
		"too many streams":  {err: network.ErrResourceLimitExceeded},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var d reports
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if c.limit > 0 {
					ctx, cancel = context.WithTimeout(ctx, c.limit)
					defer cancel()
				} else if c.limit < 0 {
					time.AfterFunc(10*time.Second, cancel)
				}
				_, err := MonitorHost(failingHost{err: c.err, after: c.after}, &d).NewStream(ctx,
					"p", "/x")
				if err == nil || (d.count() > 0) != c.report {
					t.Errorf("error %v: %d reports, want any: %v", err, d.count(), c.report)
				}
			})
		})
	}
}

// slowStream returns err from Read after a delay.
type slowStream struct {
	network.Stream
	after time.Duration
	n     int
	err   error
}

type slowConn struct{ network.Conn }

func (slowConn) RemotePeer() peer.ID          { return "p" }
func (q slowStream) Conn() network.Conn       { return slowConn{} }
func (q slowStream) Read([]byte) (int, error) { time.Sleep(q.after); return q.n, q.err }

// streamHost returns the same stream always, and opens it to each handler.
type streamHost struct {
	host.Host
	s network.Stream
}

func (o streamHost) SetStreamHandler(_ protocol.ID, handle network.StreamHandler) { handle(o.s) }

func (o streamHost) NewStream(context.Context, peer.ID, ...protocol.ID) (network.Stream, error) {
	return o.s, nil
}

// A peer that does not respond is reported before the caller gives up. A peer that responds in
// any way is not.
func TestMonitorHostReportsSilence(t *testing.T) {
	for name, c := range map[string]struct {
		after time.Duration
		n     int
		err   error
		want  int
	}{
		"answer":  {responseTimeout / 2, 1, nil, 0},
		"refusal": {responseTimeout / 2, 0, network.ErrReset, 0},
		"end":     {0, 0, io.EOF, 0},
		"silent":  {30 * time.Second, 0, errors.New("deadline"), 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var d reports
				s, err := MonitorHost(streamHost{s: slowStream{after: c.after, n: c.n, err: c.err}},
					&d).NewStream(t.Context(), "p")
				if err != nil {
					t.Fatal(err)
				}
				go func() { _, _ = s.Read(nil) }()
				time.Sleep(responseTimeout + time.Second)
				if d.count() != c.want || len(d.heard) != c.n {
					t.Errorf("%d reports and heard %d times, want %d and %d", d.count(),
						len(d.heard), c.want, c.n)
				}
				time.Sleep(time.Minute)
			})
		})
	}
}

// A peer that opens a stream is heard when bytes come, and is not reported when none do.
func TestMonitorHostHearsWhoCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, n := range []int{0, 1} {
			var d reports
			h := MonitorHost(streamHost{s: slowStream{after: time.Minute, n: n}}, &d)
			h.SetStreamHandler("/x", func(s network.Stream) { _, _ = s.Read(nil) })
			if d.count() != 0 || len(d.heard) != n {
				t.Errorf("%d bytes: %d reports and heard %d times, want 0 and %d", n, d.count(),
					len(d.heard), n)
			}
		}
	})
}
