package overlay

import (
	"net"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	manet "github.com/multiformats/go-multiaddr/net"
)

// writeCounter counts what is written.
type writeCounter struct {
	net.Conn
	writes *atomic.Int64
}

func (c writeCounter) Write(b []byte) (int, error) {
	c.writes.Add(1)
	return c.Conn.Write(b)
}

// Of an idle connection one end pings.
func TestIdleConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var writes atomic.Int64
		a, b := net.Pipe()
		m := newMuxer()
		dialed, err := m.NewConn(writeCounter{a, &writes}, false, &network.NullScope{})
		if err != nil {
			t.Fatal(err)
		}
		accepted, err := m.NewConn(writeCounter{b, &writes}, true, &network.NullScope{})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second) // both ends have measured the round trip
		writes.Store(0)
		time.Sleep(45 * 100 * time.Second)
		synctest.Wait()
		if n := writes.Load(); n < 190 || n > 210 {
			t.Errorf("%d messages in 100 pauses of 45 s, want 100 pings and answers", n)
		}
		_, _ = dialed.Close(), accepted.Close()
	})
}

// TCP does not ping over a connection that the muxer pings over, with a limiter and without.
func TestNoKeepAlive(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	for _, limiter := range []Limiter{nil, &countingLimiter{}} {
		c, err := net.Dial("tcp", ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if !keepsAlive(t, c) {
			t.Fatal("connections are not kept alive by default")
		}
		under, err := manet.WrapNetConn(c)
		if err != nil {
			t.Fatal(err)
		}
		tcpUpgrader{limiter: limiter}.prepare(under)
		if keepsAlive(t, c) {
			t.Errorf("limiter %v: the connection is kept alive by TCP", limiter)
		}
	}
}

func keepsAlive(t *testing.T, c net.Conn) (on bool) {
	t.Helper()
	raw, err := c.(syscall.Conn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	_ = raw.Control(func(fd uintptr) {
		var n int
		n, err = syscall.GetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_KEEPALIVE)
		on = n != 0
	})
	if err != nil {
		t.Fatal(err)
	}
	return on
}
