package node

import (
	"context"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	local "peerd/node/search"
	"peerd/overlay/mirror"
	"peerd/store"
)

const (
	// mirrorLook is how often the mirrors of this peer are chosen, the first time after
	// mirrorSettle. mirrorRetry is the first wait after a conversation has failed.
	mirrorLook, mirrorSettle, mirrorRetry = 5 * time.Second, 30 * time.Second, 2 * time.Second
	// mirrorPatience is how long a mirror is not reached before it is replaced.
	mirrorPatience = time.Hour
)

// openMirrors reads the copies of the archives of other peers, and prepares to send this one. Every
// peer serves the protocol: one that keeps no copies says so.
func (n *Node) openMirrors() error {
	c := n.opts.Config.Search
	n.keeper = &mirror.Keeper{Host: n.monitoredHost(), Protocol: n.net.Names.Mirror(),
		Network: n.net.Names.Network(), Dir: n.opts.Home.MirrorsDir(), Space: n.diskSpace(),
		Lives: n.peers.Directory(), Logger: n.log}
	if err := n.keeper.Open(); err != nil {
		return err
	}
	if !c.Enabled || n.archive == nil || n.opts.Alone {
		return nil
	}
	n.keeper.Bytes = int64(c.MirrorSpace)
	n.copies = &local.Copies{Keeper: n.keeper, Agent: robotsAgent, Space: n.diskSpace(),
		Logger: n.log}
	n.search.Local.Copies = n.copies
	n.parts = append(n.parts, n.copies.Run)
	if c.Mirrors == 0 || c.MirrorUpload == 0 || n.opts.Config.Collect.Enabled {
		return nil // what was collected is at others already
	}
	n.mirrors = &mirror.Sender{Host: n.monitoredHost(), Protocol: n.net.Names.Mirror(),
		Network: n.net.Names.Network(), Key: n.key, Archive: n.archive, Peers: n.peers.Directory(),
		Mirrors: c.Mirrors, Upload: int64(c.MirrorUpload), Choice: mirrorChoice{n.db},
		Look: n.opts.scaled(mirrorLook), Settle: n.opts.scaled(mirrorSettle),
		Retry: n.opts.scaled(mirrorRetry), Patience: n.opts.scaled(mirrorPatience), Logger: n.log}
	n.parts = append(n.parts, func(ctx context.Context) error {
		return n.whileVolume(ctx, n.mirrors.Run)
	})
	return nil
}

// metaMirrors names the peers that keep a copy of this peer's archive.
const metaMirrors = "mirrors"

// mirrorChoice is the mirror.Choice of a Node.
type mirrorChoice struct{ db *store.DB }

func (c mirrorChoice) Load() (all []peer.ID, err error) {
	err = c.db.Meta(metaMirrors, &all)
	return all, err
}

func (c mirrorChoice) Save(all []peer.ID) error { return c.db.PutMeta(metaMirrors, all) }
