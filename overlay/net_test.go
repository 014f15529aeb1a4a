package overlay

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	record "github.com/libp2p/go-libp2p-record"
	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/p2p/transport/tcp"
	ma "github.com/multiformats/go-multiaddr"
	"go.uber.org/goleak"

	"peerd/overlay/overlaytest"
	"peerd/overlay/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// testKey makes the same identity for the same seed.
func testKey(_ *testing.T, seed int64) crypto.PrivKey {
	key, _ := overlaytest.Identity(seed)
	return key
}

// newNet starts a peer on loopback that joins by boot and runs until the test
// ends.
func newNet(t *testing.T, seed int64, networkID string, boot ...*Net) *Net {
	t.Helper()
	cfg := DefaultConfig()
	cfg.Key = testKey(t, seed)
	cfg.Network = networkID
	cfg.Listen = []string{"/ip4/127.0.0.1/tcp/0"}
	cfg.Validators = map[string]record.Validator{"test": newest{}}
	for _, b := range boot {
		cfg.Bootstrap = append(cfg.Bootstrap, peer.AddrInfo{ID: b.Self(), Addrs: b.Host.Addrs()})
	}
	n, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	runNet(t, n)
	return n
}

// runNet runs n until the test ends, and checks that it ends in time.
func runNet(t *testing.T, n *Net) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ran := make(chan error, 1)
	go func() { ran <- n.Run(ctx) }()
	t.Cleanup(func() {
		start := time.Now()
		cancel()
		if err := errors.Join(<-ran, n.Close(), n.Close()); err != nil {
			t.Errorf("stopping: %v", err)
		}
		if took := time.Since(start); took > time.Minute {
			t.Errorf("stopping took %v", took)
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
		t.Errorf("ControlBytes() = %d, %d after joining", sent, received)
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
	ours := newNet(t, 1, "net-a")
	theirs := newNet(t, 2, "net-b", ours)
	err := theirs.connect(t.Context(), peer.AddrInfo{ID: ours.Self(), Addrs: ours.Host.Addrs()})
	if !errors.Is(err, ErrOtherNetwork) {
		t.Fatalf("connect = %v, want ErrOtherNetwork", err)
	}
	eventually(t, "disconnected", func() bool { return !connected(theirs, ours) && !connected(ours, theirs) })
	if a, b := ours.DHT.RoutingTable().Size(), theirs.DHT.RoutingTable().Size(); a+b != 0 {
		t.Errorf("routing tables have %d and %d entries", a, b)
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
		c, err := b.Dial(t.Context(), a.Self(), a.Names.Batch(), limits)
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
		t.Errorf("answer = %q, %v", got, err)
	}
	if _, err := ask("panic"); err == nil || errors.Is(err, io.EOF) {
		t.Errorf("after a panic: %v, want a reset", err)
	}
	if got, err := ask("again"); err != nil {
		t.Errorf("after the panic: %q, %v", got, err)
	}
}

// countingDialer dials over TCP and counts.
type countingDialer struct {
	net.Dialer
	dials atomic.Int64
}

func (d *countingDialer) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	d.dials.Add(1)
	return d.Dialer.DialContext(ctx, network, address)
}

func TestTCPDialer(t *testing.T) {
	first := newNet(t, 1, "test-net")
	cfg := DefaultConfig()
	cfg.Key, cfg.Network = testKey(t, 2), "test-net"
	cfg.Listen = []string{"/ip4/127.0.0.1/tcp/0"}
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
		t.Error("connected without the dialer")
	}
	cfg.Listen = []string{"/ip4/127.0.0.1/udp/0/quic-v1"}
	if _, err := New(cfg); err == nil {
		t.Error("New listens on QUIC although all dialing is to be over TCP")
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
		t.Errorf("New = %v, want that it cannot listen on 203.0.113.1", err)
	}
	if _, err := New(Config{}); err == nil {
		t.Error("New takes an empty Config")
	}
}
