package node

import (
	"errors"
	"fmt"
	"slices"

	"github.com/libp2p/go-libp2p/core/peer"

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
	return db.Update(func(tx *store.Tx) error {
		var first string
		err := tx.Meta(metaNetwork, &first)
		switch {
		case errors.Is(err, store.ErrNotFound):
			return tx.PutMeta(metaNetwork, network)
		case err != nil:
			return err
		case first != network:
			return fmt.Errorf("%w: it was used for %s, but these rules are %s; "+
				"use another --home or the old rules", ErrOtherNetwork, first, network)
		}
		return nil
	})
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
