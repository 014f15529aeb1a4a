package node

import (
	"maps"
	"slices"
	"strings"
	"time"

	"peerd/coords"
	"peerd/node/admin"
	"peerd/overlay/atlas"
	"peerd/store"
)

// openAtlas makes what this peer knows of decided subnets, and what it learns
// from them of itself.
func (n *Node) openAtlas() (err error) {
	c := atlas.DefaultConfig()
	c.Self, c.PubSub, c.Topic, c.Logger = n.net.Self(), n.net.PubSub, n.net.Names.Atlas(), n.log
	c.Peers = func() int { return n.peers.Directory().Len() }
	c.Own, c.Heard, c.Keeper = n.decided, n.manager.Rumour, atlasKeeper{n.db}
	c.Step, c.Gap = n.opts.pace(c.Step), n.opts.pace(c.Gap)
	if n.atlas, err = atlas.New(c); err != nil {
		return err
	}
	n.traits, err = newTraits(n.net.Self().String(), n.db, n.atlas.Known, n.peers.SetTraits, n.opts.pace(10*time.Second), n.log)
	if err == nil {
		n.traits.peers = n.peersTraits
	}
	return err
}

// peersTraits is what the other peers publish of themselves.
func (n *Node) peersTraits() (all []coords.Traits) {
	for _, b := range n.peers.Directory().All() {
		if len(b.Traits) > 0 {
			all = append(all, b.Traits)
		}
	}
	return all
}

// decided shows the atlas our subnets.
func (n *Node) decided() []atlas.Own {
	all := n.manager.Decided()
	own := make([]atlas.Own, len(all))
	for i, d := range all {
		own[i] = atlas.Own(d)
	}
	return own
}

func (n *Node) atlasStatus() admin.Atlas {
	s := n.atlas.Stats()
	return admin.Atlas{Subnets: s.Subnets, Sent: s.Sent, Received: s.Received}
}

// atlasKeeper keeps the atlas in the peer's store. Its keys begin with no slash,
// as those of the DHT's records do.
type atlasKeeper struct{ db *store.DB }

var _ atlas.Keeper = atlasKeeper{}

const (
	atlasKey    = "atlas "
	atlasAtOnce = 1000 // in one transaction
)

func (k atlasKeeper) Save(changes map[string][]byte) error {
	keys := slices.Sorted(maps.Keys(changes))
	for some := range slices.Chunk(keys, atlasAtOnce) {
		err := k.db.Update(func(tx *store.Tx) error {
			for _, key := range some {
				var err error
				if val := changes[key]; val == nil {
					err = tx.DeleteData(atlasKey + key)
				} else {
					err = tx.PutData(atlasKey+key, val)
				}
				if err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (k atlasKeeper) Each(fn func(key string, val []byte) error) error {
	return k.db.View(func(tx *store.Tx) error {
		return tx.EachData(atlasKey, func(key string, val []byte) (bool, error) {
			return true, fn(strings.TrimPrefix(key, atlasKey), val)
		})
	})
}
