package overlay

import (
	"context"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/p2p/protocol/ping"
	"golang.org/x/sync/errgroup"

	"peerd/internal/backoff"
)

const (
	// pingTimeout is how long a connected peer may take to answer after an outage before its
	// connection is closed. TCP itself repeats after up to twice the length of the outage.
	pingTimeout = 2 * time.Second
	// pingConcurrency is how many of them are asked at the same time.
	pingConcurrency = 64
)

// outages tells a joiner that the network of this peer is back. The zero value is not ready.
type outages struct {
	over backoff.Wake // holds a token

	mu     sync.Mutex
	cancel context.CancelFunc // of the attempts in progress
}

// begin returns the context of attempts that Reconnect ends.
func (o *outages) begin(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	o.mu.Lock()
	defer o.mu.Unlock()
	o.cancel = cancel
	return ctx, cancel
}

// Reconnect tells the Net that the network of this peer was down and is back. Run then closes the
// connections that do not answer and tries the bootstrap peers and the lost members at once. It
// returns at once.
func (n *Net) Reconnect() {
	n.outages.mu.Lock()
	if n.outages.cancel != nil {
		n.outages.cancel()
	}
	n.outages.mu.Unlock()
	n.outages.over.Signal()
}

// afterOutage connects again to the peers that were connected before.
func (j *joiner) afterOutage(ctx context.Context) {
	j.closeSilent(ctx)
	infos := mergeByID(append(j.net.bootstrap(), j.lost.list()...))
	if j.net.alone() {
		j.candidates = nil
		infos = mergeByID(append(infos, j.nextCandidates()...))
	}
	if j.try(ctx, infos[:min(len(infos), dialBatch)], reconnectInterval) {
		j.refresh()
	}
}

// closeSilent closes the connections of members that do not answer.
func (j *joiner) closeSilent(ctx context.Context) {
	var g errgroup.Group
	g.SetLimit(pingConcurrency)
	for _, p := range j.net.Host.Network().Peers() {
		g.Go(func() error {
			if !j.answers(ctx, p) && ctx.Err() == nil {
				_ = j.net.Host.Network().ClosePeer(p) // it is closed in any case
			}
			return nil
		})
	}
	_ = g.Wait() // the functions return no error
}

func (j *joiner) answers(ctx context.Context, p peer.ID) bool {
	ctx, cancel := context.WithTimeout(ctx, pingTimeout)
	defer cancel()
	select {
	case r := <-ping.Ping(ctx, j.net.Host, p):
		return r.Error == nil
	case <-ctx.Done():
		return false
	}
}
