package overlay

import (
	"fmt"
	"net"
	"sync/atomic"
	"testing"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	ma "github.com/multiformats/go-multiaddr"
)

// countingLimiter counts the bytes of connections.
type countingLimiter struct {
	bytes  atomic.Int64
	closed atomic.Bool
}

func (l *countingLimiter) Limit(c net.Conn) net.Conn { return countingConn{c, l} }
func (l *countingLimiter) Closed() bool              { return l.closed.Load() }

type countingConn struct {
	net.Conn
	l *countingLimiter
}

func (c countingConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.l.bytes.Add(int64(n))
	return n, err
}

func (c countingConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	c.l.bytes.Add(int64(n))
	return n, err
}

// A limiter sees all bytes of TCP connections, whichever side has dialed, and QUIC is used only if
// it is wanted.
func TestLimiter(t *testing.T) {
	var ls [2]countingLimiter
	var ns [2]*Net
	for i := range ns {
		cfg := testConfig(t, int64(900+i), "limited")
		cfg.Listen = append(cfg.Listen, "/ip4/127.0.0.1/udp/0/quic-v1")
		cfg.Limiter, cfg.NoQUIC = &ls[i], true
		n, err := New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		runNet(t, n)
		ns[i] = n
	}
	a, b := ns[0], ns[1]
	connect := func() error { return a.Host.Connect(t.Context(), infoOf(b)) }
	disconnect := func() {
		a.Disconnect()
		eventually(t, "both sides have closed", func() bool {
			return a.Host.Network().Connectedness(b.Self()) != network.Connected &&
				b.Host.Network().Connectedness(a.Self()) != network.Connected
		})
	}
	if err := connect(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "both limiters see the same bytes", func() bool {
		sent := a.traffic.GetBandwidthTotals()
		n, m := ls[0].bytes.Load(), ls[1].bytes.Load()
		return n == m && n > sent.TotalIn+sent.TotalOut && sent.TotalOut > 100
	})

	ls[1].closed.Store(true)
	disconnect()
	if connect() == nil {
		t.Error("a closed peer has accepted a connection")
	}
	if b.Host.Connect(t.Context(), infoOf(a)) == nil {
		t.Error("a closed peer has dialed")
	}
	ls[1].closed.Store(false)

	for _, n := range ns {
		if err := n.UseQUIC(true); err != nil {
			t.Fatal(err)
		}
	}
	disconnect()
	only := peer.AddrInfo{ID: b.Self(), Addrs: filterQUIC(b)}
	a.Host.Peerstore().ClearAddrs(b.Self())
	if err := a.Host.Connect(t.Context(), only); err != nil {
		t.Fatalf("connect to %v: %v", only, err)
	}
	if err := b.UseQUIC(false); err != nil {
		t.Fatal(err)
	}
	if left := filterQUIC(b); len(left) > 0 {
		t.Errorf("still listens on %v", left)
	}
	for _, c := range b.Host.Network().Conns() {
		if isQUIC(c.RemoteMultiaddr()) && !c.IsClosed() {
			t.Errorf("connected to %v", c.RemoteMultiaddr())
		}
	}
}

// If an address is in use, QUIC is not used, and is when it is free again.
func TestUseQUICAgain(t *testing.T) {
	other, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	cfg := testConfig(t, 902, "limited")
	cfg.NoQUIC = true
	cfg.Listen = append(cfg.Listen, "/ip4/127.0.0.1/udp/0/quic-v1", fmt.Sprintf(
		"/ip4/127.0.0.1/udp/%d/quic-v1", other.LocalAddr().(*net.UDPAddr).Port))
	n, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	runNet(t, n)
	if err := n.UseQUIC(true); err == nil || len(filterQUIC(n)) > 0 {
		t.Fatalf("UseQUIC() = %v with an address in use, listens on %v", err, filterQUIC(n))
	}
	other.Close()
	if err := n.UseQUIC(true); err != nil || len(filterQUIC(n)) != 2 {
		t.Errorf("UseQUIC() = %v after that, listens on %v", err, filterQUIC(n))
	}
}

// filterQUIC returns the QUIC addresses on which n listens.
func filterQUIC(n *Net) []ma.Multiaddr {
	return ma.FilterAddrs(n.Host.Network().ListenAddresses(), isQUIC)
}
