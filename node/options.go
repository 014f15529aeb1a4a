package node

import (
	"context"
	"log/slog"
	"net"
	"net/netip"
	"time"

	"github.com/libp2p/go-libp2p/p2p/transport/tcp"
	ma "github.com/multiformats/go-multiaddr"

	"peerd/node/config"
)

// Options say what a peer is made of.
type Options struct {
	Home    config.Home
	Config  config.Config
	Profile config.Profile
	// UserAgent is sent to web servers.
	UserAgent string
	Logger    *slog.Logger

	// MaxPages ends the crawl after so many pages of this peer; 0 means never.
	MaxPages int64
	// Alone makes a network of one: nothing listens, nobody is dialled, and
	// there is no admin API.
	Alone bool
	// Emulation replaces the ways out to the network. Nil is the real one.
	Emulation *Emulation
}

// Emulation is how a testnet puts a peer onto its emulated wide area.
type Emulation struct {
	// DialWeb connects to web servers, DialPeer to other peers.
	DialWeb  func(ctx context.Context, network, addr string) (net.Conn, error)
	DialPeer func(raddr ma.Multiaddr) (tcp.ContextDialer, error)
	// Lookup answers for DNS.
	Lookup func(ctx context.Context, host string) ([]netip.Addr, error)
	// Pace shortens the waits that fit the Internet and not a run of a minute;
	// 1 leaves them.
	Pace float64
}

// pace returns d as the emulation wants it.
func (o Options) pace(d time.Duration) time.Duration {
	if o.Emulation == nil || o.Emulation.Pace <= 0 {
		return d
	}
	return time.Duration(float64(d) * o.Emulation.Pace)
}
