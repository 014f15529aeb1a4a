package node

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"sync"
	"syscall"

	"peerd/overlay/owner"
)

// webConns are the open connections to web servers. A request must not reach its server when
// another peer may have taken the subnet over. TCP repeats what was lost, after up to twice the
// length of the outage; so a connection is reset when data was not acknowledged for maxUnacked, and
// all are after an outage. And a process that was stopped goes on where it was; so it sends nothing
// when it has just woken up. The methods of webConns are safe for concurrent use.
type webConns struct {
	dial func(ctx context.Context, network, addr string) (net.Conn, error)
	// connected is called after each successful connection.
	connected func(addr netip.AddrPort)
	// woke reports whether this process was stopped and has just gone on.
	woke func() bool

	mu   sync.Mutex
	open map[*webConn]struct{}
}

func newWebConns(
	dial func(ctx context.Context, network, addr string) (net.Conn, error),
	connected func(addr netip.AddrPort), woke func() bool,
) *webConns {
	return &webConns{dial: dial, connected: connected, woke: woke, open: map[*webConn]struct{}{}}
}

// maxUnacked is the time from the end of a quorum lease, before which a request may be sent, until
// another peer may take over.
var maxUnacked = owner.DefaultTimes().Silence - owner.DefaultTimes().Hold

// errWoke is the error of a write in a process that was stopped.
var errWoke = errors.New("node: this process was stopped, or its machine slept")

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
	_ = limitUnacked(s, maxUnacked) // without it, it is as on systems that lack it
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

// Write sends nothing if this process was stopped and has just gone on: what it was about to send
// may be too late.
func (c *webConn) Write(b []byte) (int, error) {
	if c.all.woke() {
		return 0, errWoke
	}
	return c.socket.Write(b)
}

// Close closes the connection.
func (c *webConn) Close() error {
	c.all.mu.Lock()
	delete(c.all.open, c)
	c.all.mu.Unlock()
	return c.socket.Close()
}
