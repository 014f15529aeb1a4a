package node

import (
	"context"
	"net"
	"net/netip"
	"sync"
	"syscall"
)

// webConns are the open connections to web servers. After an outage they are reset: TCP repeats
// what was lost only after up to twice the length of the outage, and would deliver requests that
// are given up then. Its methods are safe for concurrent use.
type webConns struct {
	dial func(ctx context.Context, network, addr string) (net.Conn, error)
	// connected is called after each successful connection.
	connected func(addr netip.AddrPort)

	mu   sync.Mutex
	open map[*webConn]struct{}
}

func newWebConns(
	dial func(ctx context.Context, network, addr string) (net.Conn, error),
	connected func(addr netip.AddrPort),
) *webConns {
	return &webConns{dial: dial, connected: connected, open: map[*webConn]struct{}{}}
}

// DialContext connects to addr. Connections without a socket, which an emulation has, are not
// remembered.
func (w *webConns) DialContext(ctx context.Context, network, addr string) (net.Conn, error) {
	c, err := w.dial(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	if at, err := netip.ParseAddrPort(addr); err == nil {
		w.connected(at)
	}
	s, ok := c.(socket)
	if !ok {
		return c, nil
	}
	wc := &webConn{socket: s, all: w}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.open[wc] = struct{}{}
	return wc, nil
}

// closeAll resets all open connections, those in use, too.
func (w *webConns) closeAll() {
	w.mu.Lock()
	all := make([]*webConn, 0, len(w.open))
	for c := range w.open {
		all = append(all, c)
	}
	w.mu.Unlock()
	for _, c := range all {
		_ = c.SetLinger(0) // fails if it is closed
		c.Close()
	}
}

// socket is a connection with a socket.
type socket interface {
	net.Conn
	syscall.Conn
	SetLinger(sec int) error
}

// webConn is a connection to a web server, or to the proxy.
type webConn struct {
	socket
	all *webConns
}

// Close closes the connection.
func (c *webConn) Close() error {
	c.all.mu.Lock()
	delete(c.all.open, c)
	c.all.mu.Unlock()
	return c.socket.Close()
}
