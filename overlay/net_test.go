package overlay

import (
	"context"
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	record "github.com/libp2p/go-libp2p-record"
	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/event"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/p2p/transport/tcp"
	ma "github.com/multiformats/go-multiaddr"
	"go.uber.org/goleak"

	"peerd/internal/waittest"
	"peerd/overlay/overlaytest"
	"peerd/overlay/wire"
)

func TestMain(m *testing.M) {
	waittest.Parallel()
	goleak.VerifyTestMain(m)
}

// testKey makes the same identity for the same seed.
func testKey(_ *testing.T, seed int64) crypto.PrivKey {
	key, _ := overlaytest.Identity(seed)
	return key
}

// testConfig is the configuration of a peer on loopback.
func testConfig(t *testing.T, seed int64, networkID string) Config {
	t.Helper()
	cfg := DefaultConfig()
	cfg.Key = testKey(t, seed)
	cfg.Network = networkID
	cfg.Listen = []string{"/ip4/127.0.0.1/tcp/0"}
	cfg.Validators = map[string]record.Validator{"test": newest{}}
	return cfg
}

// newNet starts a peer on loopback that joins through boot and runs until the test
// ends.
func newNet(t *testing.T, seed int64, networkID string, boot ...*Net) *Net {
	t.Helper()
	cfg := testConfig(t, seed, networkID)
	for _, b := range boot {
		cfg.Bootstrap = append(cfg.Bootstrap, infoOf(b))
	}
	n, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	runNet(t, n)
	return n
}

// runNet runs n until the test ends.
func runNet(t *testing.T, n *Net) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ran := make(chan error, 1)
	go func() { ran <- n.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := errors.Join(<-ran, n.Close(), n.Close()); err != nil {
			t.Errorf("Run and Close = %v, want nil", err)
		}
	})
}

var eventually = overlaytest.Until

func connected(a, b *Net) bool {
	return a.Host.Network().Connectedness(b.Self()) == network.Connected
}

func TestNetJoinsByOne(t *testing.T) {
	first := newNet(t, 1, "test-net")
	second := newNet(t, 2, "test-net", first)
	eventually(t, "routing tables know each other", func() bool {
		return first.DHT.RoutingTable().Size() == 1 && second.DHT.RoutingTable().Size() == 1
	})
	sent, received := second.ControlBytes()
	if sent == 0 || received == 0 {
		t.Errorf("ControlBytes() = %d, %d after joining, want more than 0", sent, received)
	}
}

func TestNetRejoinsWhenAlone(t *testing.T) {
	first := newNet(t, 1, "test-net")
	second := newNet(t, 2, "test-net", first)
	eventually(t, "connected", func() bool { return connected(second, first) })
	if err := second.Host.Network().ClosePeer(first.Self()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "connected again", func() bool { return connected(second, first) })
}

func TestNetworksDoNotMix(t *testing.T) {
	t.Parallel()
	ours := newNet(t, 1, "net-a")
	theirs := newNet(t, 2, "net-b", ours)
	// The other peer may find out first, and close the connection before it has said who it is.
	eventually(t, "connect returns ErrOtherNetwork", func() bool {
		err := theirs.connect(t.Context(),
			peer.AddrInfo{ID: ours.Self(), Addrs: ours.Host.Addrs()})
		return errors.Is(err, ErrOtherNetwork)
	})
	eventually(t, "disconnected", func() bool {
		return !connected(theirs, ours) && !connected(ours, theirs)
	})
	if a, b := ours.DHT.RoutingTable().Size(), theirs.DHT.RoutingTable().Size(); a+b != 0 {
		t.Errorf("routing tables have %d and %d entries, want none", a, b)
	}
}

// A peer that has identified itself before it has registered the network's protocol is not
// refused.
func TestStartingPeerIsMember(t *testing.T) {
	n := newNet(t, 1, "test-net")
	starting := overlaytest.Host(t)
	info := peer.AddrInfo{ID: starting.ID(), Addrs: starting.Addrs()}
	if err := n.Host.Connect(t.Context(), info); err != nil {
		t.Fatal(err)
	}
	result := make(chan error)
	go func() { result <- n.connect(t.Context(), info) }()
	starting.SetStreamHandler(n.Names.DHT(), func(s network.Stream) { _ = s.Reset() })
	if err := <-result; err != nil {
		t.Errorf("connect to a peer that registers its protocol = %v, want nil", err)
	}
	if at := n.refused.next(info.ID); !at.IsZero() {
		t.Errorf("the peer is refused until %v, want not at all", at)
	}
}

func TestHandle(t *testing.T) {
	a := newNet(t, 1, "test-net")
	b := newNet(t, 2, "test-net", a)
	eventually(t, "connected", func() bool { return connected(b, a) })
	limits := wire.Limits{MaxMsg: 256, Timeout: time.Minute}
	a.Handle(a.Names.Batch(), limits, func(_ context.Context, c *wire.Conn) error {
		var s string
		if err := c.Recv(&s); err != nil {
			return err
		}
		if s == "panic" {
			panic("on demand")
		}
		return c.Send(s + " from " + c.Peer().String())
	})
	ask := func(s string) (string, error) {
		c, err := wire.Dial(t.Context(), b.Host, a.Self(), limits, a.Names.Batch())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Reset()
		if err := c.Send(s); err != nil {
			return "", err
		}
		var answer string
		return answer, c.Recv(&answer)
	}
	if got, err := ask("hello"); err != nil || got != "hello from "+b.Self().String() {
		t.Errorf("answer = %q, %v, want a greeting from %s", got, err, b.Self())
	}
	if _, err := ask("panic"); err == nil || errors.Is(err, io.EOF) {
		t.Errorf("after a panic: %v, want a reset", err)
	}
	if got, err := ask("again"); err != nil {
		t.Errorf("after the panic: %q, %v, want an answer", got, err)
	}
}

// countingDialer dials over TCP and counts.
type countingDialer struct {
	net.Dialer
	dials atomic.Int64
}

func (d *countingDialer) DialContext(
	ctx context.Context, network, address string,
) (net.Conn, error) {
	d.dials.Add(1)
	return d.Dialer.DialContext(ctx, network, address)
}

func TestTCPDialer(t *testing.T) {
	first := newNet(t, 1, "test-net")
	cfg := testConfig(t, 2, "test-net")
	cfg.Bootstrap = []peer.AddrInfo{{ID: first.Self(), Addrs: first.Host.Addrs()}}
	dialer := &countingDialer{}
	cfg.TCPDialer = func(ma.Multiaddr) (tcp.ContextDialer, error) { return dialer, nil }
	second, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	runNet(t, second)
	eventually(t, "connected", func() bool { return connected(first, second) })
	if dialer.dials.Load() == 0 {
		t.Error("the dialer was not used, want all dials through it")
	}
	cfg.Listen = []string{"/ip4/127.0.0.1/udp/0/quic-v1"}
	if _, err := New(cfg); err == nil {
		t.Error("New() = nil for a QUIC address with a TCPDialer, want an error")
	}
}

func TestQUIC(t *testing.T) {
	start := func(seed int64, boot []peer.AddrInfo) *Net {
		cfg := DefaultConfig()
		cfg.Key, cfg.Network, cfg.Bootstrap = testKey(t, seed), "test-net", boot
		cfg.Listen = []string{"/ip4/127.0.0.1/udp/0/quic-v1"}
		n, err := New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		runNet(t, n)
		return n
	}
	first := start(1, nil)
	second := start(2, []peer.AddrInfo{{ID: first.Self(), Addrs: first.Host.Addrs()}})
	eventually(t, "connected", func() bool { return connected(first, second) })
}

func TestNewRejects(t *testing.T) {
	cfg := DefaultConfig()
	cfg.Key = testKey(t, 1)
	cfg.Network = "test-net"
	cfg.Listen = []string{
		"/ip4/127.0.0.1/tcp/0",
		"/ip4/203.0.113.1/tcp/1", // no address of this machine
	}
	if _, err := New(cfg); err == nil || !strings.Contains(err.Error(), "203.0.113.1") {
		t.Errorf("New() = %v, want an error about 203.0.113.1", err)
	}
	if _, err := New(Config{}); err == nil {
		t.Error("New(Config{}) = nil, want an error")
	}
}

// A peer with announced addresses tells others these, and listens on its own.
func TestAnnounce(t *testing.T) {
	first := newNet(t, 1, "test-net")
	cfg := testConfig(t, 2, "test-net")
	cfg.Announce, cfg.Bootstrap = []string{"/ip4/198.51.100.7/tcp/4101"},
		[]peer.AddrInfo{infoOf(first)}
	second, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	runNet(t, second)
	if got := second.Host.Addrs(); len(got) != 1 || got[0].String() != cfg.Announce[0] {
		t.Errorf("Addrs() = %v, want %v", got, cfg.Announce)
	}
	eventually(t, "the other peer was told", func() bool {
		addrs := first.Host.Peerstore().Addrs(second.Self())
		return slices.ContainsFunc(addrs, func(a ma.Multiaddr) bool {
			return a.String() == cfg.Announce[0]
		})
	})
}

// A Net closes although many peers identify themselves meanwhile, as they do when all stop at once.
func TestCloseWhilePeersIdentify(t *testing.T) {
	other := newNet(t, 1, "test-net")
	n, err := New(testConfig(t, 2, "test-net"))
	if err != nil {
		t.Fatal(err)
	}
	identified, err := n.Host.EventBus().Emitter(&event.EvtPeerIdentificationCompleted{})
	if err != nil {
		t.Fatal(err)
	}
	if err := n.Host.Connect(t.Context(), infoOf(other)); err != nil {
		t.Fatal(err)
	}
	n.Host.Network().Notify(&network.NotifyBundle{
		DisconnectedF: func(_ network.Network, c network.Conn) {
			for range 64 {
				e := event.EvtPeerIdentificationCompleted{Peer: c.RemotePeer(), Conn: c}
				if err := identified.Emit(e); err != nil {
					t.Error(err)
				}
			}
		},
	})
	closed := make(chan error, 1)
	go func() { closed <- n.Close() }()
	select {
	case err := <-closed:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(30 * time.Second):
		t.Fatal("not closed after 30 s")
	}
}
