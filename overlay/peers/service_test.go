package peers_test

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"peerd/coords"
	"peerd/internal/clock"
	"peerd/overlay/peers"
)

func TestAllPeersLearnOfEachOther(t *testing.T) {
	t.Parallel()
	const n = 5
	var members []*member
	for i := range n {
		o := options{peers: fast}
		if i > 0 {
			o.boot = members[0]
		}
		m, _ := start(t, int64(i+1), testNetwork, o)
		members = append(members, m)
	}
	eventually(t, time.Minute, "all peers know all others", all(members, func(m *member) bool {
		return m.peers.Directory().Len() == n-1
	}))
	eventually(t, time.Minute, "all are connected to all", all(members, func(m *member) bool {
		return len(m.net.Host.Network().Peers()) == n-1
	}))
	// The quality of coordinates is tested by simulations: here all peers share a machine.
	eventually(t, time.Minute, "all have measured all others and have a coordinate",
		all(members, func(m *member) bool {
			for _, o := range members {
				if rtt, ok := m.peers.RTT(o.net.Self()); o != m && (!ok || rtt <= 0) {
					return false
				}
			}
			c := m.peers.Coordinate()
			return c.Validate(len(c.Vec)) == nil &&
				slices.ContainsFunc(c.Vec, func(x float64) bool { return x != 0 })
		}))

	// A change of load spreads, in the beacon and in the height of its coordinate.
	changed := members[1]
	changed.wait.Store(int64(7 * time.Second))
	traits := coords.Traits{Lag: coords.Normal{Mean: -0.5, Variance: 1},
		PerKB: coords.Normal{Mean: 0.25, Variance: 2}}
	if err := changed.peers.SetTraits(traits); err != nil {
		t.Fatal(err)
	}
	if err := changed.peers.SetTraits(coords.Traits{}); err == nil {
		t.Error("SetTraits of traits without a variance = nil, want an error")
	}
	eventually(t, time.Minute, "all know the new load", all(members, func(m *member) bool {
		if m == changed {
			return m.peers.Self().Wait == 7*time.Second
		}
		b, ok := m.peers.Directory().Get(changed.net.Self())
		return ok && b.Wait == 7*time.Second && b.At.Height >= 7000 && b.Capacity == 2 &&
			b.Version == "test" && b.Traits != nil && *b.Traits == traits
	}))
	if h := changed.peers.Coordinate().Height; h >= 7000 {
		t.Errorf("Coordinate().Height = %v, want it without the load of 7000", h)
	}
}

func TestLateJoinerAndSaver(t *testing.T) {
	first, stopFirst := start(t, 1, testNetwork, options{peers: fast})
	second, _ := start(t, 2, testNetwork, options{boot: first, peers: fast})
	eventually(t, time.Minute, "two peers know each other", func() bool {
		return first.peers.Directory().Len() == 1 && second.peers.Directory().Len() == 1
	})
	third, _ := start(t, 3, testNetwork, options{boot: second, peers: fast})
	eventually(t, time.Minute, "all peers know the late joiner, and it knows them",
		all([]*member{first, second, third}, func(m *member) bool {
			return m.peers.Directory().Len() == 2 && len(m.net.Host.Network().Peers()) == 2
		}))
	stopFirst()
	saved := first.saved.Load()
	if saved == nil || len(*saved) != 2 || len((*saved)[0].Addrs) == 0 {
		t.Errorf("saved %v, want both other peers with addresses", saved)
	}
}

// A peer with a wrong clock, and the peer that refuses its beacons, both notice.
func TestWrongClock(t *testing.T) {
	const off = 20 * time.Minute
	a, _ := start(t, 1, testNetwork, options{peers: fast})
	b, _ := start(t, 2, testNetwork, options{boot: a, peers: func(c *peers.Config) {
		fast(c)
		c.Clock = clock.Of(func() time.Time { return time.Now().Add(off) })
	}})
	for m, want := range map[*member]time.Duration{a: off, b: -off} {
		eventually(t, patience, "the clocks are compared", func() bool {
			ahead, n, wrong := m.peers.Clocks()
			return n == 1 && wrong && (ahead-want).Abs() < time.Minute
		})
		if n := m.peers.Directory().Len(); n != 0 {
			t.Errorf("%d peers known, want 0", n)
		}
	}
}

// Two processes with the same key both notice, through a third peer, and a peer does not get its
// own beacons back.
func TestTwins(t *testing.T) {
	often := func(c *peers.Config) {
		fast(c)
		c.SlowInterval, c.SyncInterval = 100*time.Millisecond, time.Millisecond
		c.Interval = time.Second
	}
	a, _ := start(t, 1, testNetwork, options{peers: often})
	b, _ := start(t, 2, testNetwork, options{boot: a, peers: often})
	eventually(t, patience, "they meet", func() bool {
		return a.peers.Directory().Len() == 1 && b.peers.Directory().Len() == 1
	})
	twin, _ := start(t, 2, testNetwork, options{boot: a, peers: often})
	eventually(t, patience, "both notice", func() bool {
		return b.peers.Twin() && twin.peers.Twin()
	})
	if a.peers.Twin() {
		t.Error("the third peer has a twin")
	}
}

func TestNetworksDoNotMix(t *testing.T) {
	a1, _ := start(t, 1, "net-a", options{peers: fast})
	a2, _ := start(t, 2, "net-a", options{boot: a1, peers: fast})
	b1, _ := start(t, 3, "net-b", options{boot: a1, peers: fast}) // a peer of the wrong network
	b2, _ := start(t, 4, "net-b", options{boot: b1, peers: fast})
	members := []*member{a1, a2, b1, b2}
	eventually(t, time.Minute, "each knows one peer", all(members, func(m *member) bool {
		return m.peers.Directory().Len() == 1
	}))
	for i, m := range members {
		other := members[i^1].net.Self()
		if b := m.peers.Directory().All(); len(b) != 1 || b[0].Peer != other {
			t.Errorf("member %d knows %v, want only %s", i, b, other)
		}
		for _, p := range m.net.DHT.RoutingTable().ListPeers() {
			if p != other {
				t.Errorf("routing table of member %d contains %s, want only %s", i, p, other)
			}
		}
	}
}

func TestConfigValidate(t *testing.T) {
	c := peers.Config{SettledError: math.NaN(), TTL: time.Second, Interval: time.Minute}
	err := c.Validate()
	if err == nil {
		t.Fatal("Validate() = nil, want an error")
	}
	for _, field := range []string{
		"Host", "Spacing", "Partners", "Key", "Topic", "Protocol", "Estimator", "Gap", "Skew",
		"FastInterval", "SlowInterval", "SyncInterval", "Timeout", "SaveEvery", "MaxPeers",
		"MaxConns", "SettledError", "less than the TTL",
	} {
		if !strings.Contains(err.Error(), field) {
			t.Errorf("Validate() = %v, want it to mention %s", err, field)
		}
	}
	if err := peers.DefaultConfig().Validate(); strings.Count(err.Error(), "\n") != 5 {
		t.Errorf("Validate() of DefaultConfig() = %v, want only six missing fields", err)
	}
}
