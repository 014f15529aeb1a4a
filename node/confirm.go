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
	old := c.old(who, time.Now())
	if !old && !c.n.peers.Directory().Partial() {
		return owner.Strange
	}
	s, err := c.n.askOwner(ctx, who.String(), u)
	if err == nil || errors.Is(err, trace.ErrRefused) {
		c.mu.Lock()
		if _, ok := c.answered.Get(who); !ok {
			c.answered.Add(who, time.Now())
		}
		c.mu.Unlock()
	}
	switch {
	case !old:
		return owner.Young
	case err != nil:
		return owner.Silent
	case s.Owned:
		return owner.Confirms
	}
	return owner.Denies
}

// old reports whether a peer has been known for long. It is forgotten as met some time after it
// has disconnected, as most peers of a large network are.
func (c *confirmer) old(who peer.ID, now time.Time) bool {
	if c.n.knownForLong(who, now) {
		return true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	since, ok := c.answered.Get(who)
	return ok && now.Sub(since) >= wire.OldAfter
}
