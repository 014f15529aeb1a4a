package overlay

import (
	"fmt"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	ma "github.com/multiformats/go-multiaddr"

	"peerd/overlay/overlaytest"
)

// Addresses that are not public are dialed only where the operator, or mDNS, has said that there
// is a network.
func TestGaterRanges(t *testing.T) {
	_, boot := overlaytest.Identity(2)
	const (
		loopback = "/ip4/127.0.0.1/tcp/1"
		ten      = "/ip4/10.20.3.4/tcp/1"
		home     = "/ip4/192.168.1.7/udp/1/quic-v1"
		link     = "/ip6/fe80::1/tcp/1"
		local6   = "/ip6/fd00::1/tcp/1"
		cloud    = "/ip4/169.254.169.254/tcp/80"
		public   = "/ip4/11.1.2.3/tcp/1"
		name     = "/dns4/example.com/tcp/1"
	)
	all := []string{loopback, ten, home, link, local6, cloud, public, name}
	tests := map[string]struct {
		listen, boot, found []string
		want                []string
	}{
		"everywhere": {listen: []string{"/ip4/0.0.0.0/tcp/0"}, want: []string{public}},
		"nowhere":    {want: []string{public}},
		"public":     {listen: []string{public}, want: []string{public}},
		"loopback": {listen: []string{"/ip4/127.0.0.1/tcp/0"},
			want: []string{loopback, public}},
		"a testnet": {listen: []string{"/ip4/10.99.0.1/tcp/0"}, want: []string{ten, public}},
		"bootstrap peer at home": {boot: []string{"/ip4/192.168.1.1/tcp/1"},
			want: []string{home, public}},
		"mDNS": {found: []string{home}, want: []string{home, public}},
		"mDNS found others": {found: []string{"/ip4/192.168.1.8/tcp/1"},
			want: []string{public}},
		"own IPv6": {listen: []string{"/ip6/fd12::1/tcp/0"}, want: []string{local6, public}},
	}
	for what, c := range tests {
		cfg := Config{Listen: c.listen}
		if len(c.boot) > 0 {
			cfg.Bootstrap = []peer.AddrInfo{{ID: boot, Addrs: multiaddrs(c.boot)}}
		}
		g := newGater(cfg)
		g.allowFound(multiaddrs(c.found))
		var got []string
		for _, a := range all {
			if g.InterceptAddrDial("p", ma.StringCast(a)) {
				got = append(got, a)
			}
		}
		if fmt.Sprint(got) != fmt.Sprint(c.want) {
			t.Errorf("%s: %v may be dialed, want %v", what, got, c.want)
		}
	}
}

// A bootstrap peer with a DNS name is dialed at private addresses too, and no other peer is.
func TestGaterNames(t *testing.T) {
	_, boot := overlaytest.Identity(2)
	g := newGater(Config{Bootstrap: []peer.AddrInfo{
		{ID: boot, Addrs: multiaddrs([]string{"/dns4/peer1/tcp/4101"})}}})
	for _, tt := range []struct {
		p    peer.ID
		addr string
		want bool
	}{
		{boot, "/ip4/172.18.0.2/tcp/4101", true}, {"p", "/ip4/172.18.0.2/tcp/4101", false},
		{boot, "/ip4/169.254.169.254/tcp/80", false}, {boot, "/ip4/127.0.0.1/tcp/1", false},
	} {
		if got := g.InterceptAddrDial(tt.p, ma.StringCast(tt.addr)); got != tt.want {
			t.Errorf("%v at %s may be dialed: %v, want %v", tt.p, tt.addr, got, tt.want)
		}
	}
}

func multiaddrs(texts []string) (all []ma.Multiaddr) {
	for _, a := range texts {
		all = append(all, ma.StringCast(a))
	}
	return all
}

// However many peers are said to be at an address, or in a network, these are dialed rarely.
func TestGaterBudget(t *testing.T) {
	_, boot := overlaytest.Identity(2)
	g := newGater(Config{Bootstrap: []peer.AddrInfo{{ID: boot}}})
	// count returns how many of n dials were allowed, without those for which time has passed.
	count := func(n int, pause time.Duration, addr func(i int) string) (allowed int) {
		begin := time.Now()
		defer func() { allowed -= int(time.Since(begin) / pause) }()
		for i := range n {
			if g.InterceptAddrDial(peer.ID(fmt.Sprint("p", i)), ma.StringCast(addr(i))) {
				allowed++
			}
		}
		return allowed
	}
	one := func(i int) string { return fmt.Sprintf("/ip4/11.0.0.1/tcp/%d", 1+i) }
	if n := count(1000, dialPause, one); n > dialBurst || n < 1 {
		t.Errorf("an address was dialed %d times at once, want %d at most", n, dialBurst)
	}
	near := func(i int) string { return fmt.Sprintf("/ip4/11.0.0.%d/tcp/1", 2+i%250) }
	if n := count(1000, dialPauseNear, near); n > dialBurstNear || n < 1 {
		t.Errorf("a /24 was dialed %d times at once, want %d at most", n, dialBurstNear)
	}
	near6 := func(i int) string { return fmt.Sprintf("/ip6/2a01:4f8:1:%x::1/tcp/1", i) }
	if n := count(1000, dialPauseNear, near6); n > dialBurstNear || n < 1 {
		t.Errorf("a /48 was dialed %d times at once, want %d at most", n, dialBurstNear)
	}
	for range 1000 {
		if !g.InterceptAddrDial(boot, ma.StringCast("/ip4/11.0.0.1/tcp/1")) {
			t.Fatal("a bootstrap peer was not dialed, want always")
		}
	}
}

// A peer that listens everywhere does not dial its own machine or network because another peer
// says that a peer is there.
func TestGaterOfNet(t *testing.T) {
	cfg := testConfig(t, 1, "test-net")
	cfg.Listen = []string{"/ip4/0.0.0.0/tcp/0"}
	n, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	runNet(t, n)
	other := newNet(t, 2, "test-net") // on loopback
	info := peer.AddrInfo{ID: other.Self(), Addrs: other.Host.Addrs()}
	if n.Host.Connect(t.Context(), info) == nil {
		t.Error("Connect to a loopback address = nil, want an error")
	}
	n.gate.allowFound(other.Host.Addrs())
	if err := n.Host.Connect(t.Context(), info); err != nil {
		t.Errorf("Connect after mDNS has found it = %v, want nil", err)
	}
}
