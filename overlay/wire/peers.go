package wire

import "github.com/libp2p/go-libp2p/core/peer"

// Peers returns the other peers that are present. peers.Directory implements it.
type Peers interface{ Infos() []peer.AddrInfo }
