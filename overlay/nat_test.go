package overlay

import (
	"testing"

	"github.com/libp2p/go-libp2p/core/event"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/peerstore"
	"github.com/libp2p/go-libp2p/p2p/protocol/circuitv2/client"
	ma "github.com/multiformats/go-multiaddr"

	"peerd/overlay/overlaytest"
)

// startNAT starts the peer with that seed in the network of rulesOf, with Config.NAT and Relay.
func startNAT(t *testing.T, seed int64, boot ...peer.AddrInfo) *Net {
	t.Helper()
	cfg := testConfig(t, seed, invited)
	cfg.Admission, cfg.Bootstrap, cfg.NAT, cfg.Relay = rulesOf(), boot, true, true
	if seed != 1 {
		cfg.Membership = membershipOf(t, seed)
	}
	n, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	runNet(t, n)
	return n
}

// Members reach each other through a third one, and protocols work as on a direct connection. A
// stranger can neither be reached through it nor reach others.
func TestRelay(t *testing.T) {
	relay := startNAT(t, 1)
	if err := relay.nat.emit.Emit(event.EvtLocalReachabilityChanged{
		Reachability: network.ReachabilityPublic}); err != nil {
		t.Fatal(err)
	}
	a := startNAT(t, 2, infoOf(relay))
	serveEcho(a)
	reserve := func() error {
		_, err := client.Reserve(t.Context(), a.Host, infoOf(relay))
		return err
	}
	eventually(t, "a member reserves", func() bool { return reserve() == nil })

	b := startNAT(t, 3, infoOf(relay))
	eventually(t, "b is admitted", func() bool { return relay.Member(b.Self()) })
	through := relay.Host.Addrs()[0].Encapsulate(ma.StringCast(
		"/p2p/" + relay.Self().String() + "/p2p-circuit"))
	info := peer.AddrInfo{ID: a.Self(), Addrs: []ma.Multiaddr{through}}
	eventually(t, "b reaches a through the relay", func() bool {
		b.Host.Peerstore().ClearAddrs(a.Self())
		_ = b.Host.Network().ClosePeer(a.Self())
		b.Host.Peerstore().AddAddrs(a.Self(), info.Addrs, peerstore.TempAddrTTL)
		if b.Host.Connect(t.Context(), info) != nil || echoed(t.Context(), b, a) != nil {
			return false
		}
		conns := b.Host.Network().ConnsToPeer(a.Self()) // no direct one was opened for the stream
		return len(conns) == 1 && conns[0].Stat().Limited
	})

	stranger := overlaytest.Host(t)
	overlaytest.DialThroughRelays(t, stranger)
	if _, err := client.Reserve(t.Context(), stranger, infoOf(relay)); err == nil {
		t.Error("a stranger has a reservation")
	}
	if err := stranger.Connect(t.Context(), info); err == nil {
		t.Error("a stranger reached a member through the relay")
	}
	acl := members{relay} // decides alone in an open network, which has no gate
	if !acl.AllowReserve(a.Self(), nil) || !acl.AllowConnect(b.Self(), nil, a.Self()) {
		t.Error("members are not relayed")
	}
	if s := stranger.ID(); acl.AllowReserve(s, nil) || acl.AllowConnect(s, nil, a.Self()) ||
		acl.AllowConnect(b.Self(), nil, s) {
		t.Error("strangers are relayed")
	}
}

// Without Config.NAT no protocol for it is served, and none for others without Config.Relay.
func TestNATOff(t *testing.T) {
	off := newNet(t, 1, "nat-off")
	cfg := testConfig(t, 2, "nat-off")
	cfg.NAT = true
	on, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	runNet(t, on)
	if on.nat.relayed != nil {
		t.Error("a peer that shall not relay waits to do so")
	}
	for _, n := range []*Net{off, on} {
		for _, p := range n.Strangers.Mux().Protocols() {
			switch p {
			case "/libp2p/autonat/2/dial-request", "/libp2p/circuit/relay/0.2.0/stop",
				"/libp2p/dcutr":
				if n == off {
					t.Errorf("a peer without NAT serves %s", p)
				}
			}
		}
	}
	if got := off.Reachability(); got != ReachUnknown {
		t.Errorf("Reachability() = %v", got)
	}
}

// A way through a relay is dialed if that is a member, or if the operator has named it.
func TestGaterRelays(t *testing.T) {
	_, relay := overlaytest.Identity(1)
	_, other := overlaytest.Identity(2)
	_, boot := overlaytest.Identity(3)
	g := newGater(Config{Bootstrap: []peer.AddrInfo{{ID: boot}}})
	way := func(p peer.ID) ma.Multiaddr {
		return ma.StringCast("/ip4/11.1.2.3/tcp/1/p2p/" + p.String() + "/p2p-circuit")
	}
	if g.InterceptAddrDial("p", way(relay)) {
		t.Error("dialed through a relay without any member")
	}
	g.relays = func(p peer.ID) bool { return p == relay }
	if !g.InterceptAddrDial("p", way(relay)) || g.InterceptAddrDial("p", way(other)) {
		t.Error("other relays than members are dialed")
	}
	if !g.InterceptAddrDial(boot, way(other)) {
		t.Error("the way to a bootstrap peer is not dialed")
	}
}

// What AutoNAT says decides; without an address to try, peers at public addresses do.
func TestNATJudge(t *testing.T) {
	n := newNet(t, 1, "nat-judge")
	x := &nat{net: n}
	some := []ma.Multiaddr{ma.StringCast("/ip4/11.1.2.3/tcp/1")}
	both := event.EvtHostReachableAddrsChanged{Reachable: some, Unreachable: some}
	if got := x.judge(both); got != network.ReachabilityPublic {
		t.Errorf("with a reachable address: %v", got)
	}
	if got := x.judge(event.EvtHostReachableAddrsChanged{Unreachable: some}); got !=
		network.ReachabilityUnknown {
		t.Errorf("on a local network: %v", got)
	}
}
