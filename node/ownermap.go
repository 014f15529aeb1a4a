package node

import (
	"maps"
	"slices"
	"time"

	"peerd/overlay/owner"
	"peerd/overlay/ownermap"
	"peerd/overlay/peers"
	"peerd/store"
)

// openOwnerMap builds the owner map, and the traits, which this peer learns from it.
func (n *Node) openOwnerMap() (err error) {
	c := ownermap.DefaultConfig()
	c.Self, c.PubSub, c.Topic, c.Logger = n.net.Self(), n.net.PubSub, n.net.Names.OwnerMap(), n.log
	c.Network = n.net.Names.Network()
	c.Node, c.Store = mapped{n.manager, n.peers.Directory()}, ownerMapStore{n.db}
	c.Step, c.Gap = n.opts.scaled(c.Step), n.opts.scaled(c.Gap)
	if n.ownerMap, err = ownermap.New(c); err != nil {
		return err
	}
	n.traits = newTraits(n.ownerMap.Known, n.peers.SetTraits, n.opts.scaled(10*time.Second), n.log)
	return nil
}

// mapped is the ownermap.Node of a Node.
type mapped struct {
	*owner.Manager // observes leases
	directory      *peers.Directory
}

func (m mapped) OtherPeers() int { return m.directory.Len() }

func (m mapped) OwnSubnets() []ownermap.OwnSubnet {
	all := m.Decided()
	own := make([]ownermap.OwnSubnet, len(all))
	for i, d := range all {
		own[i] = ownermap.OwnSubnet(d)
	}
	return own
}

// ownerMapStore keeps the owner map in the store of the peer. Its keys do not start with a
// slash, unlike those of the DHT records.
type ownerMapStore struct{ db *store.DB }

var _ ownermap.Store = ownerMapStore{}

const (
	ownerMapPrefix = "ownermap "
	ownerMapChunk  = 1000 // keys in one transaction
)

func (k ownerMapStore) Save(changes map[string][]byte) error {
	keys := slices.Sorted(maps.Keys(changes))
	for some := range slices.Chunk(keys, ownerMapChunk) {
		err := k.db.Update(func(tx *store.Tx) error {
			for _, key := range some {
				var err error
				if val := changes[key]; val == nil {
					err = tx.DeleteData(ownerMapPrefix + key)
				} else {
					err = tx.PutData(ownerMapPrefix+key, val)
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

func (k ownerMapStore) Each(fn func(key string, val []byte) error) error {
	return k.db.EachData(ownerMapPrefix, fn)
}
