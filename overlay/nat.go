package overlay

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/libp2p/go-libp2p/config"
	"github.com/libp2p/go-libp2p/core/event"
	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"
	"github.com/libp2p/go-libp2p/p2p/host/autorelay"
	basichost "github.com/libp2p/go-libp2p/p2p/host/basic"
	"github.com/libp2p/go-libp2p/p2p/host/relaysvc"
	circuit "github.com/libp2p/go-libp2p/p2p/protocol/circuitv2/proto"
	"github.com/libp2p/go-libp2p/p2p/protocol/circuitv2/relay"
	ma "github.com/multiformats/go-multiaddr"
	manet "github.com/multiformats/go-multiaddr/net"

	"peerd/overlay/prefix"
)

const (
	// natInterval is the time between two looks at what AutoNAT has found out.
	natInterval = 5 * time.Second
	// natPatience is how long a peer waits for AutoNAT before it looks for relays: no other peer
	// may have an address of the same kind.
	natPatience = 5 * time.Minute
	// relaysWanted is through how many other peers a peer that cannot be reached is reached.
	relaysWanted = 2
	// relayRetry is the pause after a member has refused to relay.
	relayRetry = time.Minute
)

// relayResources bounds what this peer relays: connections to 32 members, of which each has at
// most 8, and all together relay some GB in an hour. A connection that has used up its share is
// opened again.
func relayResources() relay.Resources {
	return relay.Resources{
		Limit:                 &relay.RelayLimit{Duration: time.Hour, Data: 16 << 20},
		ReservationTTL:        time.Hour,
		MaxReservations:       32,
		MaxCircuits:           8,
		BufferSize:            4096,
		MaxReservationsPerIP:  8,
		MaxReservationsPerASN: 32,
	}
}

// Reachability says how other peers can connect to this one.
type Reachability int32

// The states of Reachability.
const (
	ReachUnknown Reachability = iota // not known yet, not looked for, or on a local network
	ReachDirect                      // other peers have connected to an address of this peer
	ReachRelayed                     // only through other members
	ReachNone                        // not at all
)

// String returns a word for r; "" for ReachUnknown.
func (r Reachability) String() string {
	switch r {
	case ReachDirect:
		return "direct"
	case ReachRelayed:
		return "relayed"
	case ReachNone:
		return "none"
	}
	return ""
}

// nat finds out whether other peers can connect to this one. If so, and permitted, it relays for
// other members; if not, it asks some of them to relay for this peer.
type nat struct {
	net   *Net
	since time.Time
	emit  event.Emitter // of what AutoNAT v2 has found out, for the parts that relay
	found network.Reachability
	state atomic.Int32 // a Reachability

	relays  *autorelay.AutoRelay
	relayed *relaysvc.RelayManager // nil: this peer does not relay
}

// configureNAT lets a host find out whether it can be reached.
func configureNAT(c *config.Config, cfg Config) {
	c.Relay, c.EnableAutoNATv2, c.EnableHolePunching = cfg.NAT, cfg.NAT, cfg.NAT
	if cfg.NAT && mapsPorts(cfg) {
		c.NATManager = basichost.NewNATManager
	}
}

// mapsPorts reports whether a router should be asked to forward the ports: not if this machine has
// a public address itself, or the network is a local one.
func mapsPorts(cfg Config) bool {
	if !slices.ContainsFunc(announce(cfg.Listen), func(a ma.Multiaddr) bool {
		return !manet.IsIPLoopback(a)
	}) {
		return false
	}
	addrs, err := manet.InterfaceMultiaddrs()
	if err != nil || slices.ContainsFunc(addrs, func(a ma.Multiaddr) bool {
		ip, ok := prefix.Public(a)
		return ok && ip.Is4()
	}) {
		return false
	}
	for _, b := range cfg.Bootstrap {
		if slices.ContainsFunc(b.Addrs, manet.IsPublicAddr) {
			return true
		}
	}
	return len(cfg.Bootstrap) == 0
}

// startNAT starts what relays; n.Host must be there.
func (n *Net) startNAT() error {
	if !n.cfg.NAT {
		return nil
	}
	emit, err := n.Host.EventBus().Emitter(&event.EvtLocalReachabilityChanged{})
	if err != nil {
		return fmt.Errorf("overlay: reachability: %w", err)
	}
	x := &nat{net: n, since: time.Now(), emit: emit}
	relayed := []autorelay.Option{autorelay.WithPeerSource(x.candidates),
		autorelay.WithBootDelay(0), autorelay.WithMinCandidates(1),
		autorelay.WithNumRelays(relaysWanted), autorelay.WithBackoff(relayRetry)}
	relaying := []relay.Option{relay.WithResources(relayResources()), relay.WithACL(members{n})}
	if reg := n.cfg.Metrics; reg != nil {
		relayed = append(relayed, autorelay.WithMetricsTracer(
			autorelay.NewMetricsTracer(autorelay.WithRegisterer(reg))))
		relaying = append(relaying, relay.WithMetricsTracer(
			relay.NewMetricsTracer(relay.WithRegisterer(reg))))
	}
	x.relays, err = autorelay.NewAutoRelay(n.Host, relayed...)
	if err != nil {
		return fmt.Errorf("overlay: relays: %w", err)
	}
	x.relays.Start()
	if n.cfg.Relay {
		x.relayed = relaysvc.NewRelayManager(n.Host, relaying...)
	}
	n.nat = x
	return nil
}

// members permits members to use this peer as a relay to members.
type members struct{ net *Net }

// AllowReserve implements relay.ACLFilter.
func (m members) AllowReserve(p peer.ID, _ ma.Multiaddr) bool { return m.net.member(p) }

// AllowConnect implements relay.ACLFilter.
func (m members) AllowConnect(from peer.ID, _ ma.Multiaddr, to peer.ID) bool {
	return m.net.member(from) && m.net.member(to)
}

// candidates sends members that may relay for this peer: those at public addresses that offer it.
func (x *nat) candidates(_ context.Context, most int) <-chan peer.AddrInfo {
	found := make(chan peer.AddrInfo, most)
	defer close(found)
	h := x.net.Host
	for _, p := range h.Network().Peers() {
		offer, err := h.Peerstore().SupportsProtocols(p, circuit.ProtoIDv2Hop)
		if err != nil || len(offer) == 0 || !x.net.member(p) || !x.net.public(p) {
			continue
		}
		select {
		case found <- peer.AddrInfo{ID: p}:
		default:
			return found
		}
	}
	return found
}

// ConnectedTo reports whether there is a connection to p, and whether all of them lead through
// other members.
func (n *Net) ConnectedTo(p peer.ID) (connected, relayed bool) {
	conns := n.Host.Network().ConnsToPeer(p)
	direct := slices.ContainsFunc(conns, func(c network.Conn) bool {
		return !IsRelayed(c.RemoteMultiaddr())
	})
	return len(conns) > 0, len(conns) > 0 && !direct
}

// public reports whether there is a connection to a public address of p.
func (n *Net) public(p peer.ID) bool {
	return slices.ContainsFunc(n.Host.Network().ConnsToPeer(p), func(c network.Conn) bool {
		return !IsRelayed(c.RemoteMultiaddr()) && manet.IsPublicAddr(c.RemoteMultiaddr())
	})
}

// run follows what AutoNAT finds out until ctx ends.
func (x *nat) run(ctx context.Context) error {
	sub, err := x.net.Host.EventBus().Subscribe(&event.EvtHostReachableAddrsChanged{})
	if err != nil {
		return fmt.Errorf("overlay: reachability: %w", err)
	}
	defer sub.Close()
	tick := time.NewTicker(natInterval)
	defer tick.Stop()
	var last event.EvtHostReachableAddrsChanged
	for {
		select {
		case <-ctx.Done():
			return nil
		case e, ok := <-sub.Out():
			if !ok {
				return nil
			}
			last = e.(event.EvtHostReachableAddrsChanged)
		case <-tick.C:
		}
		x.update(last)
	}
}

// update tells the parts that relay what has changed, and sets the state.
func (x *nat) update(e event.EvtHostReachableAddrsChanged) {
	found := x.judge(e)
	if found != x.found && found != network.ReachabilityUnknown {
		x.found = found
		x.net.log.Info("found out whether other peers can connect to this one directly",
			"can", found == network.ReachabilityPublic)
		if err := x.emit.Emit(event.EvtLocalReachabilityChanged{Reachability: found}); err != nil {
			x.net.log.Warn("failed to report reachability", "err", err)
		}
	}
	state := ReachUnknown
	switch {
	case x.found == network.ReachabilityPublic:
		state = ReachDirect
	case slices.ContainsFunc(x.net.Host.Addrs(), IsRelayed):
		state = ReachRelayed
	case x.found == network.ReachabilityPrivate:
		state = ReachNone
	}
	x.state.Store(int32(state))
}

// judge concludes from the results of AutoNAT whether this peer can be reached. Without an address
// that looks public, in a network with peers that have one, it cannot. What the operator announces
// is believed.
func (x *nat) judge(e event.EvtHostReachableAddrsChanged) network.Reachability {
	waited := time.Since(x.since) > natPatience
	switch {
	case len(e.Reachable) > 0:
		return network.ReachabilityPublic
	case len(x.net.cfg.Announce) > 0, !slices.ContainsFunc(x.net.Host.Network().Peers(),
		func(p peer.ID) bool { return x.net.member(p) && x.net.public(p) }):
		return network.ReachabilityUnknown
	case len(e.Unreachable) > 0, len(e.Unknown) == 0, waited:
		return network.ReachabilityPrivate
	}
	return network.ReachabilityUnknown
}

// close ends what startNAT has started.
func (x *nat) close() {
	_ = x.relays.Close() // it returns no error
	if x.relayed != nil {
		_ = x.relayed.Close() // nor does this
	}
	_ = x.emit.Close()
}

// Reachability returns how other peers can connect to this one.
func (n *Net) Reachability() Reachability {
	if n.nat == nil {
		return ReachUnknown
	}
	return Reachability(n.nat.state.Load())
}

// IsRelayed reports whether a leads through a relay.
func IsRelayed(a ma.Multiaddr) bool {
	_, err := a.ValueForProtocol(ma.P_CIRCUIT)
	return err == nil
}

// relayOf returns the peer through which a leads; "" if a does not name it.
func relayOf(a ma.Multiaddr) peer.ID {
	before, _ := ma.SplitFunc(a, func(c ma.Component) bool {
		return c.Protocol().Code == ma.P_CIRCUIT
	})
	_, id := peer.SplitAddr(before)
	return id
}

// relayHost is a host that also uses connections through relays, which libp2p would otherwise
// keep for the attempt to open a direct one.
type relayHost struct{ host.Host }

// NewStream implements host.Host.
func (h relayHost) NewStream(
	ctx context.Context, p peer.ID, protos ...protocol.ID,
) (network.Stream, error) {
	return h.Host.NewStream(relayed(ctx), p, protos...)
}

// Connect implements host.Host.
func (h relayHost) Connect(ctx context.Context, info peer.AddrInfo) error {
	return h.Host.Connect(relayed(ctx), info)
}

func relayed(ctx context.Context) context.Context {
	return network.WithAllowLimitedConn(ctx, "peerd")
}
