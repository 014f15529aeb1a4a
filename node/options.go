package node

import (
	"context"
	"log/slog"
	"net"
	"net/netip"
	"time"

	"github.com/libp2p/go-libp2p"
	"github.com/libp2p/go-libp2p/p2p/transport/tcp"
	ma "github.com/multiformats/go-multiaddr"

	"peerd/coords/assign"
	"peerd/node/config"
	"peerd/store/kv"
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

// Emulation is how a testnet puts a peer onto its emulated wide area, and a
// simulation onto a network that is not there.
type Emulation struct {
	// DialWeb connects to web servers, DialPeer to other peers.
	DialWeb  func(ctx context.Context, network, addr string) (net.Conn, error)
	DialPeer func(raddr ma.Multiaddr) (tcp.ContextDialer, error)
	// Lookup answers for DNS.
	Lookup func(ctx context.Context, host string) ([]netip.Addr, error)
	// Carrier is the network to other peers in the place of sockets; see
	// overlay.Config. There is no admin API then, which would need one. DialPeer
	// is not used.
	Carrier []libp2p.Option
	// Disk holds the store instead of the home; nil: the home does.
	Disk *kv.Disk
	// Now is the clock that this peer shows to others, in leases, records and
	// beacons, and holds theirs against; nil: the true one.
	Now func() time.Time
	// Strategy decides in the place of the one that Config names; nil: that one.
	Strategy assign.Strategy
	// Pace shortens the waits that fit the Internet and not a run of a minute;
	// 1 leaves them.
	Pace float64
}

// clock is what this peer shows to others; nil: the true time.
func (o Options) clock() func() time.Time {
	if o.Emulation == nil {
		return nil
	}
	return o.Emulation.Now
}

// pace returns d as the emulation wants it.
func (o Options) pace(d time.Duration) time.Duration {
	if o.Emulation == nil || o.Emulation.Pace <= 0 {
		return d
	}
	return time.Duration(float64(d) * o.Emulation.Pace)
}
