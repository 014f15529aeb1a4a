package peers_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	"go.uber.org/goleak"

	"peerd/coords"
	"peerd/overlay"
	"peerd/overlay/overlaytest"
	"peerd/overlay/peers"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const testNetwork = "test-net"

// eventually waits until cond holds, for limit or patience.
func eventually(t testing.TB, limit time.Duration, what string, cond func() bool) {
	t.Helper()
	overlaytest.Within(t, max(limit, patience), what, cond)
}

// member is a peer with a network on loopback and a running Service.
type member struct {
	net   *overlay.Net
	peers *peers.Service
	wait  atomic.Int64 // returned by Worker.Load, in nanoseconds
	saved atomic.Pointer[[]peer.AddrInfo]
}

// SavePeers implements peers.Saver.
func (m *member) SavePeers(infos []peer.AddrInfo) error {
	m.saved.Store(&infos)
	return nil
}

// info returns the ID and addresses of m.
func (m *member) info() peer.AddrInfo {
	return peer.AddrInfo{ID: m.net.Self(), Addrs: m.net.Host.Addrs()}
}

// options configure a member. All may be nil.
type options struct {
	boot    *member // to join the network through
	overlay func(*overlay.Config)
	peers   func(*peers.Config)
}

// fast makes peers measure and announce often.
func fast(c *peers.Config) {
	c.FastInterval, c.Gap = 50*time.Millisecond, 100*time.Millisecond
}

// start runs a member until stop is called or the test ends. Members with the same seed have
// the same ID.
func start(t *testing.T, seed int64, network string, o options) (m *member, stop func()) {
	t.Helper()
	key, _ := overlaytest.Identity(seed)
	var err error
	cfg := overlay.DefaultConfig()
	cfg.Key, cfg.Network = key, network
	cfg.Listen = []string{"/ip4/127.0.0.1/tcp/0"}
	if o.boot != nil {
		cfg.Bootstrap = []peer.AddrInfo{o.boot.info()}
	}
	if o.overlay != nil {
		o.overlay(&cfg)
	}
	m = &member{}
	if m.net, err = overlay.New(cfg); err != nil {
		t.Fatal(err)
	}
	ecfg := coords.DefaultConfig()
	ecfg.Rand = rand.New(rand.NewPCG(uint64(seed), 1))
	est := coords.NewEstimator(ecfg)
	pcfg := peers.DefaultConfig()
	pcfg.Host, pcfg.Key = m.net.Host, key
	pcfg.Topic, pcfg.Protocol = m.net.Names.Beacons(), m.net.Names.Coords()
	pcfg.HeartbeatProtocol = m.net.Names.Heartbeat()
	pcfg.Estimator, pcfg.Saver, pcfg.Version = est, m, "test"
	pcfg.Worker = worker{m}
	if o.peers != nil {
		o.peers(&pcfg)
	}
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
		cancel()
		if err := errors.Join(<-ended, <-ended, m.net.Close()); err != nil {
			t.Errorf("stop of member %d: %v", seed, err)
		}
	}
	t.Cleanup(stop)
	return m, stop
}

// connect connects a to b.
func connect(t *testing.T, a, b *member) {
	t.Helper()
	eventually(t, time.Minute, "members are connected", func() bool {
		return a.net.Host.Connect(t.Context(), b.info()) == nil
	})
}

// all returns a condition that is true if cond is true for all members.
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

// patience is the least limit of all waits: a busy machine may stand still for a minute, and the
// DHT asks a connected peer that did not answer within 3 s again after two minutes.
const patience = 5 * time.Minute

// complete returns a condition that is true if all members know all others and have them in
// their routing tables. A bucket of a routing table holds 12 peers, and half of all
// peers belong to the first.
func complete(members []*member) func() bool {
	least, acquainted := min(len(members)-1, 12), acquainted(members)
	return func() bool {
		return acquainted() && all(members, func(m *member) bool {
			return m.net.DHT.RoutingTable().Size() >= least
		})()
	}
}

// acquainted returns a condition that is true if all members know all others.
func acquainted(members []*member) func() bool {
	return all(members, func(m *member) bool {
		return m.peers.Directory().Len() == len(members)-1
	})
}

// worker tells the wait that a member's test has set.
type worker struct{ *member }

func (w worker) Load() (time.Duration, float64) { return time.Duration(w.wait.Load()), 2 }
