package peers_test

import (
	"context"
	"errors"
	"math"
	mrand "math/rand"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/peer"
	"go.uber.org/goleak"

	"peerd/coords"
	"peerd/overlay"
	"peerd/overlay/peers"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

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
	key, _, err := crypto.GenerateEd25519Key(mrand.New(mrand.NewSource(seed)))
	if err != nil {
		t.Fatal(err)
	}
	cfg := overlay.DefaultConfig()
	cfg.Key, cfg.Network = key, network
	cfg.Listen = []string{"/ip4/127.0.0.1/tcp/0"}
	if boot != nil {
		cfg.Bootstrap = []peer.AddrInfo{{ID: boot.net.Self(), Addrs: boot.net.Host.Addrs()}}
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
	pcfg.Host, pcfg.PubSub, pcfg.Key = m.net.Host, m.net.PubSub, key
	pcfg.Topic, pcfg.Protocol = m.net.Names.Beacons(), m.net.Names.Coords()
	pcfg.Estimator, pcfg.Saver, pcfg.Version = est, m, "test"
	pcfg.Load = func() (time.Duration, float64) { return time.Duration(m.wait.Load()), 2 }
	pcfg.Fast, pcfg.Gap = 50*time.Millisecond, 100*time.Millisecond
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
		if took := time.Since(begin); took > 10*time.Second {
			t.Errorf("stopping took %v", took)
		}
	}
	t.Cleanup(stop)
	return m, stop
}

func eventually(t *testing.T, within time.Duration, what string, cond func() bool) {
	t.Helper()
	begin := time.Now()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !cond() {
		if time.Since(begin) > within {
			t.Fatalf("not within %v: %s", within, what)
		}
		<-tick.C
	}
	t.Logf("%s: after %v", what, time.Since(begin).Round(time.Millisecond))
}

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
	eventually(t, 30*time.Second, "all know all", all(members, func(m *member) bool {
		return m.peers.Directory().Len() == n-1
	}))
	eventually(t, 30*time.Second, "all are connected to all", all(members, func(m *member) bool {
		return len(m.net.Host.Network().Peers()) == n-1
	}))
	eventually(t, 30*time.Second, "all have measured all, and settled", all(members, func(m *member) bool {
		for _, o := range members {
			if rtt, ok := m.peers.RTT(o.net.Self()); o != m && (!ok || rtt <= 0 || rtt > time.Second) {
				return false
			}
		}
		c := m.peers.Coordinate()
		return c.Validate(len(c.Vec)) == nil && c.Error < 0.6
	}))

	// A change of load reaches the others, in the beacon and in its height.
	members[1].wait.Store(int64(7 * time.Second))
	eventually(t, 30*time.Second, "the load is known", all(members, func(m *member) bool {
		if m == members[1] {
			return m.peers.Self().Wait == 7*time.Second
		}
		b, ok := m.peers.Directory().Get(members[1].net.Self())
		return ok && b.Wait == 7*time.Second && b.At.Height >= 7000 && b.Capacity == 2 && b.Version == "test"
	}))
	if h := members[1].peers.Coordinate().Height; h >= 7000 {
		t.Errorf("the load moved the coordinate itself: height %v", h)
	}
}

func TestLateComerAndSaver(t *testing.T) {
	first, stopFirst := start(t, 1, "test-net", nil)
	second, _ := start(t, 2, "test-net", first)
	eventually(t, 30*time.Second, "the two know each other", func() bool {
		return first.peers.Directory().Len() == 1 && second.peers.Directory().Len() == 1
	})
	third, _ := start(t, 3, "test-net", second)
	eventually(t, 30*time.Second, "the late comer is known to all, and knows all", all([]*member{first, second, third}, func(m *member) bool {
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
	eventually(t, 30*time.Second, "each knows its own", all(members, func(m *member) bool {
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
		"Host", "PubSub", "Key", "Topic", "Protocol", "Estimator", "Gap", "Skew", "Fast", "Slow", "Sync",
		"Timeout", "SaveEvery", "MaxPeers", "MaxConns", "Settled", "less than the TTL",
	} {
		if !strings.Contains(err.Error(), field) {
			t.Errorf("nothing on %s in: %v", field, err)
		}
	}
	if err := peers.DefaultConfig().Validate(); strings.Count(err.Error(), "\n") != 5 {
		t.Errorf("the defaults lack more than the six required fields: %v", err)
	}
}
