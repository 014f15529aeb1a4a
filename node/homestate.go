package node

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"

	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/node/config"
	"peerd/overlay/peers"
	"peerd/store"
)

// ErrOtherNetwork is returned by New for a home that was used in a network with other rules,
// where its queues and subnets have no meaning.
var ErrOtherNetwork = errors.New("the home belongs to another network")

// Keys of the state of a node in its store.
const (
	metaNetwork = "network"
	metaPeers   = "peers"
	metaQuota   = "quota"
	metaRetries = "retries"
	metaPause   = "pause"
	metaTraffic = "traffic"
)

// bindNetwork binds a store to the network that it is first used in.
func bindNetwork(db *store.DB, network string) error {
	first, err := boundNetwork(db, network)
	if err == nil && first == "" {
		err = db.PutMeta(metaNetwork, network)
	}
	return err
}

// boundNetwork returns the network that a store was first used in, "" for a new one, and
// ErrOtherNetwork if that is not network.
func boundNetwork(db *store.DB, network string) (first string, err error) {
	if err = db.Meta(metaNetwork, &first); err == nil && first != "" && first != network {
		err = fmt.Errorf("%w: it was used for %s, but these rules are %s; "+
			"use another --home or the old rules", ErrOtherNetwork, first, network)
	}
	return first, err
}

// CheckNetwork returns ErrOtherNetwork for a home in which New would. No peer may run there: the
// error matches store.ErrLocked then.
func CheckNetwork(home config.Home, network string) error {
	if _, err := os.Stat(home.StoreDir()); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	db, err := store.Open(home.StoreDir(), store.Options{})
	if err != nil {
		return err
	}
	_, err = boundNetwork(db, network)
	return errors.Join(err, db.Close())
}

// maxSavedPeers bounds the peers that are saved for the next start.
const maxSavedPeers = 256

// savedPeers returns the peers that were met in earlier runs, the latest first.
func savedPeers(db *store.DB) ([]peer.AddrInfo, error) {
	var texts []string
	if err := db.Meta(metaPeers, &texts); err != nil {
		return nil, err
	}
	var saved []peer.AddrInfo
	for _, t := range texts {
		i, err := peer.AddrInfoFromString(t)
		if err != nil {
			continue // an invalid entry must not prevent the start
		}
		if n := len(saved); n > 0 && saved[n-1].ID == i.ID {
			saved[n-1].Addrs = append(saved[n-1].Addrs, i.Addrs...)
		} else {
			saved = append(saved, *i)
		}
	}
	return saved, nil
}

// peerSaver saves the peers for the next start. It is not safe for concurrent use.
type peerSaver struct{ db *store.DB }

var _ peers.Saver = peerSaver{}

// SavePeers saves infos and, up to maxSavedPeers, the peers saved before: a peer that has met
// one other peer after a restart must not forget the rest.
func (p peerSaver) SavePeers(infos []peer.AddrInfo) error {
	old, err := savedPeers(p.db)
	if err != nil {
		return err
	}
	met := make(map[peer.ID]bool, len(infos))
	for _, i := range infos {
		met[i.ID] = true
	}
	for _, i := range old {
		if !met[i.ID] {
			infos = append(slices.Clip(infos), i)
		}
	}
	var texts []string
	for _, i := range infos[:min(len(infos), maxSavedPeers)] {
		addrs, err := peer.AddrInfoToP2pAddrs(&i)
		if err != nil {
			return err
		}
		for _, a := range addrs {
			texts = append(texts, a.String())
		}
	}
	return p.db.PutMeta(metaPeers, texts)
}
