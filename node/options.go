package node

import (
	"context"
	"log/slog"
	"net"
	"net/netip"
	"time"

	libp2p "github.com/libp2p/go-libp2p/config"
	"github.com/libp2p/go-libp2p/p2p/transport/tcp"
	ma "github.com/multiformats/go-multiaddr"

	"peerd/coords/assign"
	"peerd/internal/clock"
	"peerd/node/config"
	"peerd/store/kv"
)

// Options configures a Node.
type Options struct {
	Home    config.Home
	Config  config.Config
	Profile config.Profile
	// UserAgent is sent to web servers.
	UserAgent string
	Logger    *slog.Logger

	// MaxPages ends the crawl when this peer has fetched this number of pages; 0: never.
	MaxPages int64
	// Alone makes a network of one peer: it listens on no address, dials no peer, and has no
	// admin API.
	Alone bool
	// Emulation replaces the network. Nil is the real network.
	Emulation *Emulation
}

// Emulation connects a peer to the emulated wide area of a testnet, or to the network of a
// simulation.
type Emulation struct {
	// DialWeb connects to web servers, DialPeer to other peers.
	DialWeb  func(ctx context.Context, network, addr string) (net.Conn, error)
	DialPeer func(raddr ma.Multiaddr) (tcp.ContextDialer, error)
	// Lookup replaces DNS.
	Lookup func(ctx context.Context, host string) ([]netip.Addr, error)
	// Transport replaces sockets to other peers; see overlay.Config. There is then no admin API,
	// which needs a socket, and DialPeer is not used.
	Transport []libp2p.Option
	// Disk replaces the home as the place of the store; nil: the home.
	Disk *kv.Disk
	// Now is the clock that this peer uses in leases, records and beacons, its own and those
	// that it receives; nil: the system clock.
	Now func() time.Time
	// Strategy replaces the strategy that Config names; nil: that one.
	Strategy assign.Strategy
	// IgnoreWaits shows the candidates to this peer as if nothing waited there, to find out what it
	// gains to balance.
	IgnoreWaits bool
	// TimeScale multiplies the waiting times that are meant for the Internet and are too long
	// for a run of a minute; 0 and 1 keep them.
	TimeScale float64
	// OwnMachine says that the peer has a machine or a container of its own, so that it uses files,
	// memory and connections as any peer does.
	OwnMachine bool
}

// sharesMachine reports whether other peers run on this machine in the same emulation.
func (o Options) sharesMachine() bool { return o.Emulation != nil && !o.Emulation.OwnMachine }

// hasAPI reports whether the peer has an admin API.
func (o Options) hasAPI() bool {
	return !o.Alone && (o.Emulation == nil || o.Emulation.Transport == nil)
}

// indexes reports whether the peer has a full-text index of what it archives.
func (o Options) indexes() bool { return o.Config.Search.Enabled && o.Config.Archive.Enabled }

// clock returns the clock that this peer uses with others.
func (o Options) clock() clock.Clock {
	if o.Emulation == nil {
		return clock.Clock{}
	}
	return clock.Of(o.Emulation.Now)
}

// scaled returns d multiplied by the time scale of the emulation.
func (o Options) scaled(d time.Duration) time.Duration {
	if o.Emulation == nil || o.Emulation.TimeScale <= 0 {
		return d
	}
	return time.Duration(float64(d) * o.Emulation.TimeScale)
}
