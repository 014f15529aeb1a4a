package overlay

import (
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/libp2p/go-libp2p/core/connmgr"
	"github.com/libp2p/go-libp2p/core/control"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/x/rate"
	ma "github.com/multiformats/go-multiaddr"
	manet "github.com/multiformats/go-multiaddr/net"

	"peerd/overlay/prefix"
)

const (
	// dialBurst is how many times an address may be dialed at once, and dialPause the time
	// after which once more. Any peer may announce the addresses of a third party: this
	// bounds what that gets from here. The burst covers a site of a dozen peers with one address.
	dialBurst = 32
	dialPause = 4 * time.Second
	// dialBurstNear and dialPauseNear are the same for a /24 or /48.
	dialBurstNear = 128
	dialPauseNear = time.Second
	// maxFound is how many addresses found by mDNS are remembered.
	maxFound = 256
)

// gater decides which addresses are dialed, whoever has announced them. Addresses that are not
// public are dialed only in the ranges in which this peer itself listens or has a bootstrap peer,
// where mDNS has found a peer, and, if they are private, for a bootstrap peer with a DNS name: the
// operator, or the local network itself, has said that the network is there. All other addresses
// have a budget. Addresses that lead through a relay are dialed if that is a member. Its methods
// are safe for concurrent use.
type gater struct {
	ranges  []netip.Prefix   // that are not public, and may be dialed
	trusted map[peer.ID]bool // peers named by the operator: without a budget
	named   map[peer.ID]bool // of those, the ones with a DNS name, at any address
	budget  *rate.Limiter
	relays  func(peer.ID) bool // whether a peer may be used as a relay; nil: none
	limiter Limiter            // nil: connections may always be opened
	noQUIC  atomic.Bool        // addresses of QUIC are not dialed

	mu    sync.Mutex
	found []netip.Addr // by mDNS, oldest first
}

var _ connmgr.ConnectionGater = (*gater)(nil)

func newGater(cfg Config) *gater {
	limit := func(burst int, pause time.Duration) rate.Limit {
		return rate.Limit{RPS: 1 / pause.Seconds(), Burst: burst}
	}
	each, near := limit(dialBurst, dialPause), limit(dialBurstNear, dialPauseNear)
	g := &gater{
		limiter: cfg.Limiter,
		trusted: map[peer.ID]bool{},
		named:   map[peer.ID]bool{},
		budget: &rate.Limiter{SubnetRateLimiter: rate.SubnetLimiter{
			IPv4SubnetLimits: []rate.SubnetLimit{{PrefixLength: 32, Limit: each},
				{PrefixLength: 24, Limit: near}},
			IPv6SubnetLimits: []rate.SubnetLimit{{PrefixLength: 64, Limit: each},
				{PrefixLength: 48, Limit: near}},
			GracePeriod: time.Minute,
		}},
	}
	for _, text := range cfg.Listen {
		if a, err := ma.NewMultiaddr(text); err == nil {
			g.allowRange(a)
		}
	}
	for _, b := range cfg.Bootstrap {
		g.trusted[b.ID] = true
		for _, a := range b.Addrs {
			g.allowRange(a)
			g.named[b.ID] = g.named[b.ID] || len(a) > 0 && hasName(a)
		}
	}
	g.noQUIC.Store(cfg.NoQUIC)
	return g
}

// hasName reports whether a begins with a DNS name.
func hasName(a ma.Multiaddr) bool {
	switch a[0].Protocol().Code {
	case ma.P_DNS, ma.P_DNS4, ma.P_DNS6, ma.P_DNSADDR:
		return true
	}
	return false
}

// allowRange allows the range of a, if it has one that is not public.
func (g *gater) allowRange(a ma.Multiaddr) {
	addr, ok := prefix.Of(a)
	if !ok || addr.IsUnspecified() || manet.IsPublicAddr(a) {
		return
	}
	for _, r := range slices.Concat(manet.Private4, manet.Private6, manet.Unroutable4,
		manet.Unroutable6) {
		if p, ok := toPrefix(r); ok && p.Contains(addr) {
			g.ranges = append(g.ranges, p)
		}
	}
}

func toPrefix(n *net.IPNet) (netip.Prefix, bool) {
	addr, ok := netip.AddrFromSlice(n.IP)
	bits, _ := n.Mask.Size()
	return netip.PrefixFrom(addr, bits), ok
}

// allowFound allows the addresses of a peer that mDNS has found.
func (g *gater) allowFound(addrs []ma.Multiaddr) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, a := range addrs {
		if addr, ok := prefix.Of(a); ok && !slices.Contains(g.found, addr) {
			g.found = append(g.found, addr)
		}
	}
	g.found = g.found[max(0, len(g.found)-maxFound):]
}

// InterceptAddrDial implements connmgr.ConnectionGater.
func (g *gater) InterceptAddrDial(p peer.ID, a ma.Multiaddr) bool {
	addr, ok := prefix.Of(a)
	switch {
	case g.closed(), g.noQUIC.Load() && isQUIC(a):
		return false
	case !ok, IsRelayed(a) && !g.trusted[p] && (g.relays == nil || !g.relays(relayOf(a))):
		return false
	case manet.IsPublicAddr(a):
		return g.trusted[p] || g.budget.Allow(addr)
	case slices.ContainsFunc(g.ranges, func(r netip.Prefix) bool { return r.Contains(addr) }):
		return true
	case g.named[p] && addr.IsPrivate(): // a name of a local network, such as that of a container
		return true
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Contains(g.found, addr)
}

// closed reports whether no connection may be opened, by the limits on traffic.
func (g *gater) closed() bool { return g.limiter != nil && g.limiter.Closed() }

// InterceptAccept implements connmgr.ConnectionGater.
func (g *gater) InterceptAccept(network.ConnMultiaddrs) bool { return !g.closed() }

// The other methods of connmgr.ConnectionGater allow everything: the resource manager bounds
// what comes in.

// InterceptPeerDial implements connmgr.ConnectionGater.
func (g *gater) InterceptPeerDial(peer.ID) bool { return true }

// InterceptSecured implements connmgr.ConnectionGater.
func (g *gater) InterceptSecured(network.Direction, peer.ID, network.ConnMultiaddrs) bool {
	return true
}

// InterceptUpgraded implements connmgr.ConnectionGater.
func (g *gater) InterceptUpgraded(network.Conn) (bool, control.DisconnectReason) { return true, 0 }
