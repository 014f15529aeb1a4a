package overlay

import (
	"context"
	"net"
	"sync"
	"testing"

	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/p2p/transport/tcp"
	ma "github.com/multiformats/go-multiaddr"
)

// silentDialer makes connections that it can silence: they stay open, and nothing passes.
type silentDialer struct {
	net.Dialer
	mu    sync.Mutex
	conns []*silentConn
}

func (d *silentDialer) DialContext(ctx context.Context, network, addr string) (net.Conn, error) {
	c, err := d.Dialer.DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	s := &silentConn{Conn: c, silent: make(chan struct{}), closed: make(chan struct{})}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.conns = append(d.conns, s)
	return s, nil
}

func (d *silentDialer) silence() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, c := range d.conns {
		c.once.Do(func() { close(c.silent) })
	}
}

type silentConn struct {
	net.Conn
	once, end      sync.Once
	silent, closed chan struct{}
}

func (c *silentConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	select {
	case <-c.silent:
		<-c.closed
		return 0, net.ErrClosed
	default:
		return n, err
	}
}

func (c *silentConn) Write(p []byte) (int, error) {
	select {
	case <-c.silent:
		return len(p), nil
	default:
		return c.Conn.Write(p)
	}
}

func (c *silentConn) Close() error {
	c.end.Do(func() { close(c.closed) })
	return c.Conn.Close()
}

// After an outage, a connection that stays open but carries nothing is replaced at once.
func TestReconnect(t *testing.T) {
	t.Parallel()
	first := newNet(t, 1, "test-net")
	cfg := testConfig(t, 2, "test-net")
	cfg.Bootstrap = []peer.AddrInfo{{ID: first.Self(), Addrs: first.Host.Addrs()}}
	dialer := &silentDialer{}
	cfg.TCPDialer = func(ma.Multiaddr) (tcp.ContextDialer, error) { return dialer, nil }
	second, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	runNet(t, second)
	eventually(t, "connected", func() bool { return connected(second, first) })
	conn := func() string {
		if all := second.Host.Network().ConnsToPeer(first.Self()); len(all) > 0 {
			return all[0].ID()
		}
		return ""
	}
	eventually(t, "member", func() bool { return second.member(first.Self()) })
	j := newJoiner(second)
	old := conn()
	j.afterOutage(t.Context())
	if conn() != old {
		t.Errorf("replaced a connection that answers")
	}
	dialer.silence()
	j.afterOutage(t.Context())
	if now := conn(); now == "" || now == old {
		t.Errorf("connection %q after the outage, want another one than %q", now, old)
	}
}

// Reconnect ends the attempts that began during the outage.
func TestReconnectEndsAttempts(t *testing.T) {
	n, err := New(testConfig(t, 1, "test-net"))
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	attempts, end := n.outages.begin(t.Context())
	defer end()
	n.Reconnect()
	n.Reconnect()
	if attempts.Err() == nil || len(n.outages.over) != 1 {
		t.Errorf("attempts %v, %d tokens, want them canceled and one", attempts.Err(),
			len(n.outages.over))
	}
}
