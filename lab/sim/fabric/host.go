package fabric

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"syscall"
	"time"
)

// backlog is the number of connections that may wait to be accepted.
const backlog = 128

// Death is how a machine dies.
type Death uint8

const (
	// Reset is the end of a process: its kernel resets the connections and refuses
	// new ones.
	Reset Death = iota
	// Silent is a power failure: the machine sends nothing any more.
	Silent
)

// Host is one incarnation of a machine. Its methods may be called concurrently.
type Host struct {
	f    *Fabric
	addr netip.Addr

	// Guarded by f.mu.
	dead      bool
	how       Death
	listeners map[uint16]*listener
	port      uint16 // of the latest dial
}

// Up starts a machine at an address. A previous machine at that address is killed with
// Silent unless it is dead already. Connections of others to it are reset when data was
// sent over them.
func (f *Fabric) Up(a netip.Addr) *Host {
	f.mu.Lock()
	old := f.hosts[a]
	f.mu.Unlock()
	if old != nil {
		old.Kill(Silent)
	}
	h := &Host{f: f, addr: a, listeners: make(map[uint16]*listener), port: 32768}
	f.change(func() {
		f.hosts[a] = h
		for l := range f.conns {
			for i := range l.hosts {
				if l.hosts[i] == old && l.lines[1-i].waiting() {
					l.reset(i)
				}
			}
		}
	})
	return h
}

// Addr returns the address of the machine.
func (h *Host) Addr() netip.Addr { return h.addr }

// Kill kills the machine: from now on it sends and receives nothing, whatever still
// runs on it. Killing it again has no effect.
func (h *Host) Kill(how Death) {
	h.f.change(func() {
		if h.dead {
			return
		}
		h.dead, h.how = true, how
		clear(h.listeners) // Accept keeps waiting
		for l := range h.f.conns {
			for i := range l.hosts {
				if l.hosts[i] == h {
					l.die(i, how)
				}
			}
		}
	})
}

// answers reports whether a machine, or its kernel, at the address of h answers packets.
func (f *Fabric) answers(h *Host) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.hosts[h.addr]
	return now != nil && (!now.dead || now.how == Reset)
}

// DialContext connects to IP:PORT. It takes one round trip; without an answer it waits
// until ctx ends.
func (h *Host) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	c, err := h.dial(ctx, address)
	if err != nil {
		return nil, &net.OpError{Op: "dial", Net: network, Err: err}
	}
	return c, nil
}

func (h *Host) dial(ctx context.Context, address string) (net.Conn, error) {
	to, err := netip.ParseAddrPort(address)
	if err != nil {
		return nil, fmt.Errorf("fabric: dial %q: %w", address, err)
	}
	asked := false
	for {
		h.f.mu.Lock()
		there, back := way{h.addr, to.Addr()}, way{to.Addr(), h.addr}
		c, err, silence := h.open(to, asked)
		changed, trip := h.f.changed, h.f.delay(there)+h.f.delay(back)
		h.f.mu.Unlock()
		if c != nil || err != nil {
			return c, err
		}
		var answer <-chan time.Time
		if !silence {
			t := time.NewTimer(trip)
			defer t.Stop()
			answer = t.C
		}
		asked = false
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-changed:
		case <-answer:
			asked = true
		}
	}
}

// open makes the connection if asked is true, that is after the round trip. silence
// reports that there is no answer while the state does not change. f.mu is held.
func (h *Host) open(to netip.AddrPort, asked bool) (c net.Conn, err error, silence bool) {
	f := h.f
	if h.dead {
		return nil, errDead, false
	}
	there, back := way{h.addr, to.Addr()}, way{to.Addr(), h.addr}
	peer := f.hosts[to.Addr()]
	if f.blocked(there) || f.blocked(back) || peer == nil || peer.dead && peer.how == Silent {
		return nil, nil, true
	}
	if !asked {
		return nil, nil, false
	}
	ln := peer.listeners[to.Port()]
	if ln == nil {
		return nil, syscall.ECONNREFUSED, false
	}
	h.port++
	l := &link{
		f: f, hosts: [2]*Host{h, peer}, ports: [2]uint16{h.port, to.Port()},
		lines: [2]*line{newLine(there, f.delay(there), f.lossy[there]),
			newLine(back, f.delay(back), f.lossy[back])},
	}
	select {
	case ln.queue <- conn{l, 1}:
	default:
		return nil, syscall.ECONNREFUSED, false
	}
	f.conns[l] = struct{}{}
	return conn{l, 0}, nil, false
}

// Listen listens for connections to a port of the machine.
func (h *Host) Listen(port uint16) (net.Listener, error) {
	h.f.mu.Lock()
	defer h.f.mu.Unlock()
	if h.dead {
		return nil, errDead
	}
	if h.listeners[port] != nil {
		return nil, fmt.Errorf("fabric: listen on port %d of %s: %w", port, h.addr,
			syscall.EADDRINUSE)
	}
	ln := &listener{h: h, port: port, queue: make(chan conn, backlog), done: make(chan struct{})}
	h.listeners[port] = ln
	return ln, nil
}

type listener struct {
	h     *Host
	port  uint16
	queue chan conn
	once  sync.Once
	done  chan struct{}
}

func (l *listener) shut() { l.once.Do(func() { close(l.done) }) }

func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.queue:
		return c, nil
	case <-l.done:
		return nil, &net.OpError{Op: "accept", Net: "tcp", Addr: l.Addr(), Err: net.ErrClosed}
	}
}

func (l *listener) Close() error {
	l.h.f.mu.Lock()
	if l.h.listeners[l.port] == l {
		delete(l.h.listeners, l.port)
	}
	l.h.f.mu.Unlock()
	l.shut()
	for {
		select {
		case c := <-l.queue:
			c.reset(1)
			_ = c.Close()
		default:
			return nil
		}
	}
}

func (l *listener) Addr() net.Addr { return tcpAddr(l.h.addr, l.port) }
