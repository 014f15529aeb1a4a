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
	// lingerTime is how long after its due time a closed connection still tries
	// to hand over what was written, to a remote that does not read.
	lingerTime = time.Second
)

// longAgo is a deadline that has passed.
var longAgo = time.Unix(1, 0)

// Conn is a connection whose ends are far apart. It is safe for concurrent
// use, as any net.Conn is. What was written before Close still arrives, unless
// the remote does not read for a second; Close does not wait for that.
type Conn struct {
	raw     net.Conn
	in, out *line // towards us, towards the remote

	readMu, writeMu       sync.Mutex // one reader, one writer at a time
	readLimit, writeLimit deadline

	closing sync.Once
	closed  chan struct{}
	pumps   atomic.Int32 // still running
	done    func(*Conn)  // called when the last pump ends
}

var _ net.Conn = (*Conn)(nil)

// newConn puts l between the caller and raw and starts one goroutine for each
// direction. They end soon after Close, and at once after abort.
func newConn(raw net.Conn, l Link, rng *rand.Rand, done func(*Conn)) *Conn {
	c := &Conn{raw: raw, in: newLine(l, rng), closed: make(chan struct{}), done: done}
	c.out = newLine(l, rand.New(rand.NewPCG(rng.Uint64(), rng.Uint64())))
	c.pumps.Store(2)
	go c.pumpIn()
	go c.pumpOut()
	return c
}

// change gives the connection another link, for what is sent from now on.
func (c *Conn) change(l Link) {
	c.in.change(l)
	c.out.change(l)
}

// pumpIn takes bytes from the remote as they come and puts them on the line.
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

// pumpOut hands bytes to the remote when they are due, and then the end.
func (c *Conn) pumpOut() {
	defer c.pumpEnded()
	defer c.raw.Close()
	buf := make([]byte, readBuffer)
	for {
		n, err := c.out.recv(buf, nil)
		if err == nil {
			if _, err = c.raw.Write(buf[:n]); err != nil {
				c.out.fail(err) // the next Write learns it
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
		_ = h.CloseWrite() // a broken connection is told by its reads
	}
}

// Read implements net.Conn.
func (c *Conn) Read(p []byte) (int, error) {
	c.readMu.Lock()
	defer c.readMu.Unlock()
	return c.in.recv(p, c.readLimit.passed())
}

// Write implements net.Conn. It returns when b is on its way, and waits while
// the link holds as much as it can.
func (c *Conn) Write(b []byte) (int, error) {
	c.writeMu.Lock()
	defer c.writeMu.Unlock()
	return c.out.send(b, c.writeLimit.passed())
}

// CloseWrite ends our direction: the remote reads io.EOF one way later.
func (c *Conn) CloseWrite() error {
	c.out.finish(io.EOF)
	return nil
}

// Close implements net.Conn. The remote sees it one way later.
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

// abort closes both ends at once and drops what is on the way.
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

// SetWriteDeadline implements net.Conn. It bounds the wait for room on the
// link, not the way.
func (c *Conn) SetWriteDeadline(t time.Time) error {
	c.writeLimit.set(t)
	return nil
}
