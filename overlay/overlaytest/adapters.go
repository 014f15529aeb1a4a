package overlaytest

import (
	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/store"
)

// PeersFunc makes a wire.Peers of a function.
type PeersFunc func() []peer.AddrInfo

// Infos calls f.
func (f PeersFunc) Infos() []peer.AddrInfo { return f() }

// URLs makes a store.URLChecker of a function.
type URLs func(store.URL) error

// Check calls f.
func (f URLs) Check(u store.URL) error { return f(u) }
