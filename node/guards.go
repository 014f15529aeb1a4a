package node

import (
	"context"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/overlay/shadow"
	"peerd/overlay/witness"
)

// openGuards makes what subnets outlive their owner by: witnesses and shadows. A
// network of one has none.
func (n *Node) openGuards() error {
	if n.opts.Alone {
		return nil
	}
	key, err := n.opts.Home.Key()
	if err != nil {
		return err
	}
	wc := witness.DefaultConfig()
	wc.Host, wc.Key, wc.Protocol = n.net.Host, key, n.net.Names.Witness()
	wc.Store, wc.Peers, wc.Logger = witness.OnDB(n.db), n.present, n.log
	wc.Revoked = func(ctx context.Context, rs []witness.Revocation) error { return n.manager.Revoked(ctx, rs) }
	wc.Doubt = func() { n.manager.Uncertain() }
	if n.witness, err = witness.New(wc); err != nil {
		return err
	}
	n.shadows, err = shadow.New(shadow.Config{
		Host: n.reaching(), Protocol: n.net.Names.Shadow(), Asking: n.net.Names.Copies(), DB: n.db, Check: n.check,
		Gather: n.opts.pace(200 * time.Millisecond), Redial: n.opts.pace(time.Second), Uptime: uptime, Logger: n.log,
	})
	return err
}

// present lists the peers that seem to be there.
func (n *Node) present() []peer.ID {
	all := n.peers.Directory().All()
	ids := make([]peer.ID, 0, len(all))
	for _, b := range all {
		ids = append(ids, b.Peer)
	}
	return ids
}

// heard returns when another peer was last heard, by this or by those who told
// of it, by the true clock; the zero time for never.
func (n *Node) heard(p peer.ID) time.Time {
	if !n.met.Load() { // not all is made yet, and the DHT asks already
		return time.Time{}
	}
	at, _ := n.peers.Directory().Heard(p)
	if n.witness != nil {
		if direct := n.witness.Heard(p); direct.After(at) {
			at = direct
		}
	}
	return at
}

// heardShown is heard by the clock that this peer shows to others.
func (n *Node) heardShown(p peer.ID) time.Time {
	at := n.heard(p)
	if !at.IsZero() {
		at = at.Add(n.off())
	}
	return at
}

// off is how far the clock that this peer shows is ahead of the true one.
func (n *Node) off() time.Duration {
	if clock := n.opts.clock(); clock != nil {
		return time.Until(clock())
	}
	return 0
}

// noRight is how long the frontier waits before it asks again whether this peer
// may act as an owner.
const noRight = 250 * time.Millisecond

// openIn says in how long pages may be fetched: not outside the hours, not beyond
// the limits, and not while others may take this peer for dead.
func (n *Node) openIn(now time.Time) time.Duration {
	if wait := n.quota.Wait(now); wait > 0 {
		return wait
	}
	if !n.manager.Right() {
		return noRight
	}
	return 0
}
