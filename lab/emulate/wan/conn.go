package wan

import (
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

const (
	readBuffer = 16 << 10
	// lingerTime is how long after the due time a closed connection still tries to
	// deliver written data to a remote end that does not read.
	lingerTime = time.Second
)

// longAgo is a deadline that has passed.
var longAgo = time.Unix(1, 0)

// Conn is a connection with emulated latency and bandwidth. It is safe for concurrent
// use, as any net.Conn is. Data written before Close still arrives, unless the remote
// end does not read for a second; Close does not wait for that.
type Conn struct {
	raw     net.Conn
	in, out *line // from and to the remote end

	readMu, writeMu       sync.Mutex // one reader, one writer at a time
	readLimit, writeLimit deadline

	closing sync.Once
	closed  chan struct{}
	pumps   atomic.Int32 // still running
	done    func(*Conn)  // called when the last pump ends
}

var _ net.Conn = (*Conn)(nil)

// newConn returns a connection that applies l to raw and starts one goroutine for each
// direction. They return soon after Close, and at once after abort.
func newConn(raw net.Conn, l Link, rng *rand.Rand, done func(*Conn)) *Conn {
	c := &Conn{raw: raw, in: newLine(l, rng), closed: make(chan struct{}), done: done}
	c.out = newLine(l, rand.New(rand.NewPCG(rng.Uint64(), rng.Uint64())))
	c.pumps.Store(2)
	go c.pumpIn()
	go c.pumpOut()
	return c
}

// change sets the link for data that is sent from now on.
func (c *Conn) change(l Link) {
	c.in.change(l)
	c.out.change(l)
}

// pumpIn moves bytes from the remote end to the line as they arrive.
func (c *Conn) pumpIn() {
	defer c.pumpEnded()
	buf := make([]byte, readBuffer)
	for {
		n, err := c.raw.Read(buf)
		if n > 0 {
			if _, err := c.in.send(buf[:n], nil); err != nil {
				return
			}
		}
		if err != nil {
			c.in.finish(err)
			return
		}
	}
}

// pumpOut writes bytes to the remote end when they are due, then the end of the stream.
func (c *Conn) pumpOut() {
	defer c.pumpEnded()
	defer c.raw.Close()
	buf := make([]byte, readBuffer)
	for {
		n, err := c.out.recv(buf, nil)
		if err == nil {
			if _, err = c.raw.Write(buf[:n]); err != nil {
				c.out.fail(err) // the next Write returns it
			}
		}
		if errors.Is(err, io.EOF) {
			closeWrite(c.raw)
		}
		if err != nil {
			<-c.closed
			return
		}
	}
}

func (c *Conn) pumpEnded() {
	if c.pumps.Add(-1) == 0 {
		c.done(c)
	}
}

// closeWrite half-closes conn if it can.
func closeWrite(conn net.Conn) {
	if h, ok := conn.(interface{ CloseWrite() error }); ok {
		_ = h.CloseWrite() // reads report a broken connection
	}
}

// Read implements net.Conn.
func (c *Conn) Read(p []byte) (int, error) {
	c.readMu.Lock()
	defer c.readMu.Unlock()
	return c.in.recv(p, c.readLimit.passed())
}

// Write implements net.Conn. It returns when b is in flight and blocks while the link's
// buffer is full.
func (c *Conn) Write(b []byte) (int, error) {
	c.writeMu.Lock()
	defer c.writeMu.Unlock()
	return c.out.send(b, c.writeLimit.passed())
}

// CloseWrite closes the writing side: the remote end reads io.EOF one one-way latency
// later.
func (c *Conn) CloseWrite() error {
	c.out.finish(io.EOF)
	return nil
}

// Close implements net.Conn. The remote end sees it one one-way latency later.
func (c *Conn) Close() error {
	err := net.ErrClosed
	c.closing.Do(func() {
		err = nil
		c.in.fail(net.ErrClosed)
		_ = c.raw.SetReadDeadline(longAgo)
		_ = c.raw.SetWriteDeadline(c.out.finish(net.ErrClosed).Add(lingerTime))
		close(c.closed)
	})
	return err
}

// abort closes both ends at once and drops data in flight.
func (c *Conn) abort() {
	_ = c.Close()
	c.out.fail(net.ErrClosed)
	_ = c.raw.Close()
}

// LocalAddr implements net.Conn.
func (c *Conn) LocalAddr() net.Addr { return c.raw.LocalAddr() }

// RemoteAddr implements net.Conn.
func (c *Conn) RemoteAddr() net.Addr { return c.raw.RemoteAddr() }

// SetDeadline implements net.Conn.
func (c *Conn) SetDeadline(t time.Time) error {
	c.readLimit.set(t)
	c.writeLimit.set(t)
	return nil
}

// SetReadDeadline implements net.Conn.
func (c *Conn) SetReadDeadline(t time.Time) error {
	c.readLimit.set(t)
	return nil
}

// SetWriteDeadline implements net.Conn. It limits the wait for free buffer space, not
// the time to delivery.
func (c *Conn) SetWriteDeadline(t time.Time) error {
	c.writeLimit.set(t)
	return nil
}
