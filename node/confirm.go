package node

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/internal/lru"
	"peerd/overlay/owner"
	"peerd/overlay/trace"
	"peerd/overlay/wire"
	"peerd/store"
)

// maxAnswered bounds the peers of which it is remembered since when they have answered.
const maxAnswered = 1 << 14

// confirmer asks peers that have been known for long whether they crawl a host. Its methods are
// safe for concurrent use.
type confirmer struct {
	n *Node

	mu       sync.Mutex
	answered *lru.Simple[peer.ID, time.Time] // since when
}

var _ owner.Confirmer = (*confirmer)(nil)

func newConfirmer(n *Node) *confirmer {
	return &confirmer{n: n, answered: lru.NewSimple[peer.ID, time.Time](maxAnswered, nil)}
}

// Confirm implements owner.Confirmer.
func (c *confirmer) Confirm(ctx context.Context, who peer.ID, u store.URL) owner.Word {
	old, answers := c.knows(who, time.Now())
	switch {
	case !old && !c.n.peers.Directory().Partial(): // all peers know all others
		return owner.Strange
	case !old && answers:
		return owner.Young
	}
	s, err := c.n.askOwner(ctx, who.String(), u)
	switch {
	case !old && err != nil && !errors.Is(err, trace.ErrRefused):
		return owner.Strange
	case !old:
		c.mu.Lock()
		defer c.mu.Unlock()
		c.answered.Add(who, time.Now())
		return owner.Young
	case err != nil:
		return owner.Silent
	case s.Owned:
		return owner.Confirms
	}
	return owner.Denies
}

// knows reports whether a peer has been known for long, and whether it has answered once. It is
// forgotten as met some time after it has disconnected, as most peers of a large network are. One
// that was met in an earlier run need not be met again first: hosts are resolved from the start on.
func (c *confirmer) knows(who peer.ID, now time.Time) (old, answers bool) {
	if c.n.knownForLong(who, now) || c.n.acquainted[who] {
		return true, true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	since, ok := c.answered.Get(who)
	return ok && now.Sub(since) >= wire.OldAfter, ok
}
