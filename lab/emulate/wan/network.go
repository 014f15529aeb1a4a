package wan

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"sync"
	"time"
)

// ErrNoPlace is returned by a dial to an address without a place: there would be no
// delay, and measurements would be silently wrong.
var ErrNoPlace = errors.New("wan: address has no place")

// Network is a World with addresses at its places. All methods are safe for concurrent
// use. It starts two goroutines for each connection and no others.
type Network struct {
	mu     sync.Mutex
	world  *World
	places map[netip.Addr]int
	conns  map[*Conn]ends
	dials  uint64
	change chan struct{} // closed by the next Change or Close
	closed bool
	open   sync.WaitGroup // connections
}

// NewNetwork returns a network without addresses.
func NewNetwork(w *World) *Network {
	return &Network{world: w, places: make(map[netip.Addr]int), conns: make(map[*Conn]ends),
		change: make(chan struct{})}
}

// World returns the current world.
func (n *Network) World() *World {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.world
}

// Change replaces the world by one with the same places. This affects open connections,
// too, for data sent from now on. It panics if w has fewer places.
func (n *Network) Change(w *World) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if w.Len() < n.world.Len() {
		panic("wan: new world has fewer places")
	}
	n.world = w
	if !n.closed {
		close(n.change)
		n.change = make(chan struct{})
	}
	for c, ends := range n.conns {
		c.change(w.Link(ends.from, ends.to))
	}
}

// ends are the places of a connection.
type ends struct{ from, to int }

// Place sets the place of addr.
func (n *Network) Place(addr netip.Addr, place int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.places[addr.Unmap()] = place
}

// PlaceOf returns the place of addr.
func (n *Network) PlaceOf(addr netip.Addr) (place int, ok bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	place, ok = n.places[addr.Unmap()]
	return place, ok
}

// Dialer returns a dial function for a client at place from. It accepts the networks
// "tcp", "tcp4" and "tcp6" and literal addresses, and binds source if that is valid. It
// fails as a net.Dialer does, but one round trip later, and with ErrNoPlace for an
// address without a place.
func (n *Network) Dialer(
	from int, source netip.Addr,
) func(ctx context.Context, network, addr string) (net.Conn, error) {
	var d net.Dialer
	if source.IsValid() {
		d.LocalAddr = net.TCPAddrFromAddrPort(netip.AddrPortFrom(source, 0))
	}
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		ap, err := netip.ParseAddrPort(addr)
		if err != nil {
			return nil, fmt.Errorf("wan: dial %s: %w", addr, err)
		}
		to, ok := n.PlaceOf(ap.Addr())
		if !ok {
			return nil, fmt.Errorf("wan: dial %s: %w", addr, ErrNoPlace)
		}
		return n.dial(ctx, &d, ends{from, to}, network, addr)
	}
}

// dial connects after half a round trip and returns after the other half.
func (n *Network) dial(
	ctx context.Context, d *net.Dialer, e ends, network, addr string,
) (net.Conn, error) {
	l, err := n.whole(ctx, e)
	if err != nil {
		return nil, err
	}
	start := time.Now()
	rng, err := n.newRand()
	if err != nil {
		return nil, err
	}
	trip := l.RTT + time.Duration(rng.Float64()*float64(l.Jitter))
	if err := sleepUntil(ctx, start.Add(trip/2)); err != nil {
		return nil, err
	}
	raw, dialErr := d.DialContext(ctx, network, addr)
	err = sleepUntil(ctx, start.Add(trip))
	if dialErr != nil {
		return nil, dialErr
	}
	if err != nil {
		raw.Close()
		return nil, err
	}
	return n.adopt(raw, e, rng)
}

// whole returns the link between two places when it is not cut.
func (n *Network) whole(ctx context.Context, e ends) (Link, error) {
	for {
		n.mu.Lock()
		l, change, closed := n.world.Link(e.from, e.to), n.change, n.closed
		n.mu.Unlock()
		if closed {
			return l, net.ErrClosed
		}
		if !l.Cut {
			return l, nil
		}
		select {
		case <-change:
		case <-ctx.Done():
			return l, ctx.Err()
		}
	}
}

// newRand returns the source of jitter for the next connection.
func (n *Network) newRand() (*rand.Rand, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return nil, net.ErrClosed
	}
	n.dials++
	return rand.New(rand.NewPCG(n.world.seed, n.dials)), nil
}

// adopt returns a connection of the network over raw.
func (n *Network) adopt(raw net.Conn, e ends, rng *rand.Rand) (net.Conn, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		raw.Close()
		return nil, net.ErrClosed
	}
	n.open.Add(1)
	c := newConn(raw, n.world.Link(e.from, e.to), rng, n.forget)
	n.conns[c] = e
	return c, nil
}

// forget removes a connection that has ended.
func (n *Network) forget(c *Conn) {
	n.mu.Lock()
	delete(n.conns, c)
	n.mu.Unlock()
	n.open.Done()
}

// Close aborts all connections, makes further dials fail, and returns when all
// goroutines of connections have returned.
func (n *Network) Close() error {
	n.mu.Lock()
	if !n.closed {
		close(n.change)
	}
	n.closed = true
	conns := make([]*Conn, 0, len(n.conns))
	for c := range n.conns {
		conns = append(conns, c)
	}
	n.mu.Unlock()
	for _, c := range conns {
		c.abort()
	}
	n.open.Wait()
	return nil
}

// sleepUntil waits for t or the end of ctx.
func sleepUntil(ctx context.Context, t time.Time) error {
	timer := time.NewTimer(time.Until(t))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
