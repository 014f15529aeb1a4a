package fabric

import (
	"errors"
	"io"
	"net"
	"net/netip"
	"sync/atomic"
	"syscall"
	"time"
)

// link is a connection with its two ends. End i writes to lines[i].
type link struct {
	f     *Fabric
	hosts [2]*Host
	ports [2]uint16
	lines [2]*line
	gone  [2]atomic.Bool // the end was closed, or its machine died
}

func (l *link) between(a, b netip.Addr) bool {
	x, y := l.hosts[0].addr, l.hosts[1].addr
	return x == a && y == b || x == b && y == a
}

// reset makes the end opposite to i read a reset after the data that i has sent.
func (l *link) reset(i int) { l.lines[i].end(rst, syscall.ECONNRESET) }

// die ends the link for end i, the machine of which is dead: end i reads and writes
// nothing any more, and data that it has not read is lost.
func (l *link) die(i int, how Death) {
	l.gone[i].Store(true)
	l.lines[1-i].fail(errDead, nil)
	l.lines[i].do(func() { l.lines[i].sendErr = errDead })
	if how == Reset {
		l.lines[i].end(rst, errDead)
	}
}

// forget removes a link that neither end uses.
func (l *link) forget() {
	if l.gone[0].Load() && l.gone[1].Load() {
		l.f.mu.Lock()
		delete(l.f.conns, l)
		l.f.mu.Unlock()
	}
}

// conn is one end of a link.
type conn struct {
	*link
	end int
}

var _ net.Conn = conn{}

func (c conn) Read(p []byte) (int, error) {
	n, err := c.lines[1-c.end].read(p)
	if errors.Is(err, syscall.ECONNRESET) { // writes fail from now on, too
		c.lines[c.end].fail(nil, syscall.ECONNRESET)
	}
	if err != nil && !errors.Is(err, io.EOF) {
		err = c.opError("read", err)
	}
	return n, err
}

func (c conn) Write(p []byte) (int, error) {
	n, err := c.lines[c.end].write(p)
	if err != nil {
		return n, c.opError("write", err)
	}
	// A closed end answers with a reset; a dead one does so when a machine is at its
	// address again.
	if other := 1 - c.end; c.gone[other].Load() && c.f.answers(c.hosts[other]) {
		c.reset(other)
	}
	return n, nil
}

// Close closes the connection; written data still arrives.
func (c conn) Close() error {
	if c.gone[c.end].Swap(true) {
		return nil
	}
	c.lines[1-c.end].fail(net.ErrClosed, nil)
	c.lines[c.end].end(fin, net.ErrClosed)
	c.forget()
	return nil
}

func (c conn) LocalAddr() net.Addr  { return tcpAddr(c.hosts[c.end].addr, c.ports[c.end]) }
func (c conn) RemoteAddr() net.Addr { return tcpAddr(c.hosts[1-c.end].addr, c.ports[1-c.end]) }

func (c conn) SetDeadline(t time.Time) error {
	_ = c.SetReadDeadline(t)
	return c.SetWriteDeadline(t)
}

func (c conn) SetReadDeadline(t time.Time) error {
	l := c.lines[1-c.end]
	l.do(func() { l.readBy = t })
	return nil
}

func (c conn) SetWriteDeadline(t time.Time) error {
	l := c.lines[c.end]
	l.do(func() { l.sendBy = t })
	return nil
}

func (c conn) opError(op string, err error) error {
	return &net.OpError{Op: op, Net: "tcp", Source: c.LocalAddr(), Addr: c.RemoteAddr(), Err: err}
}

func tcpAddr(a netip.Addr, port uint16) *net.TCPAddr {
	return net.TCPAddrFromAddrPort(netip.AddrPortFrom(a, port))
}
