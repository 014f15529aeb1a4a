package peers_test

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/coords"
	"peerd/overlay"
	"peerd/overlay/overlaytest"
	"peerd/overlay/peers"
)

// member is a whole peer, as far as this package goes.
type member struct {
	net   *overlay.Net
	peers *peers.Service
	wait  atomic.Int64 // what Load says, ns
	saved atomic.Pointer[[]peer.AddrInfo]
}

func (m *member) SavePeers(infos []peer.AddrInfo) error {
	m.saved.Store(&infos)
	return nil
}

// start runs a peer on loopback that joins by boot, until stop or the test ends.
func start(t *testing.T, seed int64, network string, boot *member) (m *member, stop func()) {
	t.Helper()
	return startWith(t, seed, network, boot, func(c *peers.Config) {
		c.Fast, c.Gap = 50*time.Millisecond, 100*time.Millisecond
	})
}

// startWith is start with a change to the defaults.
func startWith(t *testing.T, seed int64, network string, boot *member, change func(*peers.Config)) (m *member, stop func()) {
	t.Helper()
	if boot == nil {
		return startOn(t, seed, network, nil, nil, change)
	}
	return startOn(t, seed, network, infos([]*member{boot}), nil, change)
}

// infos is how to reach members.
func infos(members []*member) (all []peer.AddrInfo) {
	for _, m := range members {
		all = append(all, peer.AddrInfo{ID: m.net.Self(), Addrs: m.net.Host.Addrs()})
	}
	return all
}

// startAt runs a peer that measures at the usual pace, on a changed network.
func startAt(t *testing.T, seed int64, network string, boot []peer.AddrInfo, wires func(*overlay.Config)) (m *member, stop func()) {
	t.Helper()
	return startOn(t, seed, network, boot, wires, func(*peers.Config) {})
}

// startOn is what all the others do.
func startOn(t *testing.T, seed int64, network string, boot []peer.AddrInfo, wires func(*overlay.Config), change func(*peers.Config)) (m *member, stop func()) {
	t.Helper()
	key := keyOf(t, seed)
	var err error
	cfg := overlay.DefaultConfig()
	cfg.Key, cfg.Network = key, network
	cfg.Listen = []string{"/ip4/127.0.0.1/tcp/0"}
	cfg.Bootstrap = boot
	if wires != nil {
		wires(&cfg)
	}
	m = &member{}
	if m.net, err = overlay.New(cfg); err != nil {
		t.Fatal(err)
	}
	ecfg := coords.DefaultConfig()
	ecfg.Rand = rand.New(rand.NewPCG(uint64(seed), 1))
	est, err := coords.NewEstimator(ecfg)
	if err != nil {
		t.Fatal(err)
	}
	pcfg := peers.DefaultConfig()
	pcfg.Host, pcfg.Key = m.net.Host, key
	pcfg.Topic, pcfg.Protocol = m.net.Names.Beacons(), m.net.Names.Coords()
	pcfg.Estimator, pcfg.Saver, pcfg.Version = est, m, "test"
	pcfg.Load = func() (time.Duration, float64) { return time.Duration(m.wait.Load()), 2 }
	change(&pcfg)
	if m.peers, err = peers.New(pcfg); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 2)
	go func() { ended <- m.net.Run(ctx) }()
	go func() { ended <- m.peers.Run(ctx) }()
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		begin := time.Now()
		cancel()
		if err := errors.Join(<-ended, <-ended, m.net.Close()); err != nil {
			t.Errorf("stopping: %v", err)
		}
		if took := time.Since(begin); took > time.Minute {
			t.Errorf("stopping took %v", took)
		}
	}
	t.Cleanup(stop)
	return m, stop
}

func keyOf(_ *testing.T, seed int64) crypto.PrivKey {
	key, _ := overlaytest.Identity(seed)
	return key
}

var eventually = overlaytest.Within

func all(members []*member, cond func(*member) bool) func() bool {
	return func() bool {
		for _, m := range members {
			if !cond(m) {
				return false
			}
		}
		return true
	}
}

func TestEverybodyLearnsOfEverybody(t *testing.T) {
	const n = 5
	first, _ := start(t, 1, "test-net", nil)
	members := []*member{first}
	for i := 1; i < n; i++ {
		m, _ := start(t, int64(i+1), "test-net", first)
		members = append(members, m)
	}
	eventually(t, time.Minute, "all know all", all(members, func(m *member) bool {
		return m.peers.Directory().Len() == n-1
	}))
	eventually(t, time.Minute, "all are connected to all", all(members, func(m *member) bool {
		return len(m.net.Host.Network().Peers()) == n-1
	}))
	// How good the coordinates are is for simulations to say: here all share a machine,
	// and with others.
	eventually(t, time.Minute, "all have measured all, and have a coordinate", all(members, func(m *member) bool {
		for _, o := range members {
			if rtt, ok := m.peers.RTT(o.net.Self()); o != m && (!ok || rtt <= 0) {
				return false
			}
		}
		c := m.peers.Coordinate()
		return c.Validate(len(c.Vec)) == nil && slices.ContainsFunc(c.Vec, func(x float64) bool { return x != 0 })
	}))

	// A change of load reaches the others, in the beacon and in its height.
	members[1].wait.Store(int64(7 * time.Second))
	if err := members[1].peers.SetTraits(coords.Traits{1, -0.5}); err != nil {
		t.Fatal(err)
	}
	if err := members[1].peers.SetTraits(coords.Traits{math.Inf(1)}); err == nil {
		t.Error("endless traits were taken")
	}
	eventually(t, time.Minute, "the load is known", all(members, func(m *member) bool {
		if m == members[1] {
			return m.peers.Self().Wait == 7*time.Second
		}
		b, ok := m.peers.Directory().Get(members[1].net.Self())
		return ok && b.Wait == 7*time.Second && b.At.Height >= 7000 && b.Capacity == 2 && b.Version == "test" &&
			slices.Equal(b.Traits, coords.Traits{1, -0.5})
	}))
	if h := members[1].peers.Coordinate().Height; h >= 7000 {
		t.Errorf("the load moved the coordinate itself: height %v", h)
	}
}

func TestLateComerAndSaver(t *testing.T) {
	first, stopFirst := start(t, 1, "test-net", nil)
	second, _ := start(t, 2, "test-net", first)
	eventually(t, time.Minute, "the two know each other", func() bool {
		return first.peers.Directory().Len() == 1 && second.peers.Directory().Len() == 1
	})
	third, _ := start(t, 3, "test-net", second)
	eventually(t, time.Minute, "the late comer is known to all, and knows all", all([]*member{first, second, third}, func(m *member) bool {
		return m.peers.Directory().Len() == 2 && len(m.net.Host.Network().Peers()) == 2
	}))
	stopFirst()
	saved := first.saved.Load()
	if saved == nil || len(*saved) != 2 || len((*saved)[0].Addrs) == 0 {
		t.Errorf("saved %v, want both others with addresses", saved)
	}
}

func TestNetworksDoNotMix(t *testing.T) {
	a1, _ := start(t, 1, "net-a", nil)
	a2, _ := start(t, 2, "net-a", a1)
	b1, _ := start(t, 3, "net-b", a1) // misled
	b2, _ := start(t, 4, "net-b", b1)
	members := []*member{a1, a2, b1, b2}
	eventually(t, time.Minute, "each knows its own", all(members, func(m *member) bool {
		return m.peers.Directory().Len() == 1
	}))
	for i, m := range members {
		friend := members[i^1].net.Self()
		if b := m.peers.Directory().All(); len(b) != 1 || b[0].Peer != friend {
			t.Errorf("%d knows %v, want %s alone", i, b, friend)
		}
		for _, p := range m.net.DHT.RoutingTable().ListPeers() {
			if p != friend {
				t.Errorf("%d has a stranger in its routing table", i)
			}
		}
	}
}

func TestConfigValidate(t *testing.T) {
	err := peers.Config{Settled: math.NaN(), TTL: time.Second, Interval: time.Minute}.Validate()
	if err == nil {
		t.Fatal("an empty Config is valid")
	}
	for _, field := range []string{
		"Host", "Spacing", "Partners", "Key", "Topic", "Protocol", "Estimator", "Gap", "Skew", "Fast", "Slow", "Sync",
		"Timeout", "SaveEvery", "MaxPeers", "MaxConns", "Settled", "less than the TTL",
	} {
		if !strings.Contains(err.Error(), field) {
			t.Errorf("nothing on %s in: %v", field, err)
		}
	}
	if err := peers.DefaultConfig().Validate(); strings.Count(err.Error(), "\n") != 4 {
		t.Errorf("the defaults lack more than the five required fields: %v", err)
	}
}
