package traffic

import (
	"context"
	"errors"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

const (
	// A packet carries about packetBytes; packetCost is what its headers and a share of the
	// acknowledgement in the other direction need, and connCost opening and closing a connection.
	packetBytes, packetCost = 1400, 80
	connCost                = 400
	// datagramCost is a question to a name server with its answer.
	datagramCost = 700
)

// onWire estimates how many bytes of IP packets carry n bytes.
func onWire(n int) int64 {
	return int64(n) + packetCost*int64((n+packetBytes-1)/packetBytes)
}

// Dialer dials connections of a class. Its method DialContext is that of a net.Dialer.
type Dialer struct {
	Limiter *Limiter
	Class   Class
}

// DialContext connects to addr. It returns ErrUsedUp if the volume is used up.
func (d Dialer) DialContext(ctx context.Context, network, addr string) (net.Conn, error) {
	if d.Limiter.UsedUp(d.Class) {
		return nil, ErrUsedUp
	}
	nd := net.Dialer{}
	if s := d.Limiter.sizes(); d.Class == Crawl && s.ahead > 0 {
		nd.Control = receiveBuffer(int(s.ahead))
	}
	c, err := nd.DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	return d.Limiter.Wrap(d.Class, c), nil
}

// Wrap limits what passes through c, which must be new. A connection for datagrams, which carries a
// question to a name server and the answer, is charged for these and returned as it is: its users
// need to see that it is one.
func (l *Limiter) Wrap(class Class, c net.Conn) net.Conn {
	if _, ok := c.(net.PacketConn); ok {
		l.charge(datagramCost)
		return c
	}
	l.charge(connCost)
	if tcp, ok := c.(interface {
		SetReadBuffer(bytes int) error
		SetWriteBuffer(bytes int) error
	}); ok && class == Control {
		if s := l.sizes(); s.buffer > 0 {
			_, _ = tcp.SetReadBuffer(s.buffer), tcp.SetWriteBuffer(s.buffer)
		}
	}
	return &conn{Conn: c, limiter: l, class: class, closed: make(chan struct{}),
		read: newDeadline(), write: newDeadline()}
}

// conn is a connection with limited traffic.
type conn struct {
	net.Conn
	limiter     *Limiter
	class       Class
	closed      chan struct{}
	once        sync.Once
	read, write *deadline

	mu     sync.Mutex
	credit int64 // bytes that may arrive and were taken before
}

// Read reads from the connection. It does not return more at once than a chunk.
func (c *conn) Read(p []byte) (int, error) {
	if !c.limiter.limited.Load() {
		return c.Conn.Read(p)
	}
	if c.limiter.UsedUp(c.class) {
		return 0, c.failed("read", ErrUsedUp)
	}
	s := c.limiter.sizes()
	stop := &stops{closed: c.closed, deadline: c.read.done()}
	if c.class == Crawl {
		if err := c.takeAhead(s.ahead, stop); err != nil {
			return 0, c.failed("read", err)
		}
	}
	n, err := c.Conn.Read(p[:min(int64(len(p)), s.chunk)])
	if n == 0 {
		return n, err
	}
	if debt := c.use(onWire(n)); debt > 0 {
		if err := c.limiter.take(c.class, debt, stop); err != nil {
			c.limiter.charge(debt) // it has arrived; the next operation fails
		}
	}
	return n, err
}

// failed returns err as the error of a connection: it says nothing about the other side.
func (c *conn) failed(op string, err error) error {
	return &net.OpError{Op: op, Net: c.RemoteAddr().Network(), Addr: c.RemoteAddr(), Err: err}
}

// takeAhead has the credit filled up to ahead if less than half of it is left.
func (c *conn) takeAhead(ahead int64, s *stops) error {
	c.mu.Lock()
	lack := ahead - c.credit
	c.mu.Unlock()
	if lack <= ahead/2 {
		return nil
	}
	if err := c.limiter.take(c.class, lack, s); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.credit += lack
	return nil
}

// use subtracts n from the credit and returns what is not covered by it.
func (c *conn) use(n int64) (debt int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.credit -= n
	debt = max(-c.credit, 0)
	c.credit += debt
	return debt
}

// Write writes p in chunks.
func (c *conn) Write(p []byte) (written int, err error) {
	if !c.limiter.limited.Load() {
		return c.Conn.Write(p)
	}
	stop := &stops{closed: c.closed, deadline: c.write.done()}
	for {
		part := p[:min(int64(len(p)), c.limiter.sizes().chunk)]
		if err := c.limiter.take(c.class, onWire(len(part)), stop); err != nil {
			return written, c.failed("write", err)
		}
		n, err := c.Conn.Write(part)
		written += n
		if p = p[n:]; err != nil || len(p) == 0 {
			return written, err
		}
	}
}

// Close closes the connection. It counts what has arrived and was not read, and returns what was
// taken for more.
func (c *conn) Close() error {
	c.once.Do(func() { close(c.closed) })
	c.mu.Lock()
	credit := c.credit
	c.credit = 0
	c.mu.Unlock()
	if c.limiter.limited.Load() {
		c.limiter.charge(onWire(unread(c.Conn)) - credit)
	}
	return c.Conn.Close()
}

// SetDeadline sets both deadlines.
func (c *conn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

// SetReadDeadline sets the deadline of reads, also of those that wait.
func (c *conn) SetReadDeadline(t time.Time) error {
	c.read.set(t)
	return c.Conn.SetReadDeadline(t)
}

// SetWriteDeadline sets the deadline of writes, also of those that wait.
func (c *conn) SetWriteDeadline(t time.Time) error {
	c.write.set(t)
	return c.Conn.SetWriteDeadline(t)
}

// SetLinger is that of net.TCPConn; other connections are left as they are.
func (c *conn) SetLinger(sec int) error {
	if s, ok := c.Conn.(interface{ SetLinger(sec int) error }); ok {
		return s.SetLinger(sec)
	}
	return nil
}

// SyscallConn returns the socket, or an error if there is none.
func (c *conn) SyscallConn() (syscall.RawConn, error) {
	if s, ok := c.Conn.(syscall.Conn); ok {
		return s.SyscallConn()
	}
	return nil, errors.ErrUnsupported
}

// stops are what ends a wait. The zero stops end none.
type stops struct {
	closed, deadline <-chan struct{}
}

// wait waits until it can send to turn, or until at fires.
func (s *stops) wait(turn chan<- struct{}, at <-chan time.Time) error {
	select {
	case turn <- struct{}{}:
	case <-at:
	case <-s.closed:
		return net.ErrClosed
	case <-s.deadline:
		return os.ErrDeadlineExceeded
	}
	return nil
}

// A deadline closes a channel at a time that can be changed.
type deadline struct {
	mu      sync.Mutex
	timer   *time.Timer
	expired chan struct{}
}

func newDeadline() *deadline { return &deadline{expired: make(chan struct{})} }

// done returns a channel that is closed at the deadline that is set now, or at a shorter one.
func (d *deadline) done() <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.expired
}

// set sets the deadline; the zero time is none. Operations that wait already see it only if it is
// not later than theirs.
func (d *deadline) set(t time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.timer != nil && !d.timer.Stop() || isClosed(d.expired) {
		d.expired = make(chan struct{})
	}
	d.timer = nil
	if t.IsZero() {
		return
	}
	expired := d.expired
	if wait := time.Until(t); wait > 0 {
		d.timer = time.AfterFunc(wait, func() { close(expired) })
		return
	}
	close(expired)
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
