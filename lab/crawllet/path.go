package crawllet

import (
	"context"
	"io"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"peerd/lab/emulate/wan"
)

// Path is a port on this machine that leads to a server over an emulated path. Its methods are
// safe for concurrent use.
type Path struct {
	URL  string // of the server, seen through the path; it ends with "/"
	Link wan.Link

	near    net.Listener
	network *wan.Network
	open    sync.WaitGroup
	there   atomic.Int64
	back    atomic.Int64
}

// NewPath opens a port at an address of this machine. The path has a round-trip time, and a
// bandwidth for each connection in bytes per second. It leads nowhere before Connect.
func NewPath(host string, rtt time.Duration, bps float64) (*Path, error) {
	near, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		return nil, err
	}
	world, err := wan.FromMatrix(nil, [][]time.Duration{{0, rtt}, {rtt, 0}}, 1)
	if err != nil {
		near.Close()
		return nil, err
	}
	world = world.WithBandwidth(bps, bps)
	network := wan.NewNetwork(world)
	network.Place(netip.MustParseAddr("127.0.0.1"), 1)
	return &Path{
		URL: "http://" + near.Addr().String() + "/", Link: world.Link(0, 1), near: near,
		network: network,
	}, nil
}

// Connect leads to a server at an address of 127.0.0.1. It is called once.
func (p *Path) Connect(server string) {
	dial := p.network.Dialer(0, netip.Addr{})
	p.open.Go(func() {
		for {
			c, err := p.near.Accept()
			if err != nil {
				return
			}
			p.open.Go(func() { p.forward(c, dial, server) })
		}
	})
}

// Close closes the port and all connections.
func (p *Path) Close() {
	p.near.Close()
	p.network.Close()
	p.open.Wait()
}

// Bytes returns how much was sent to the server and how much was received from it.
func (p *Path) Bytes() (there, back int64) { return p.there.Load(), p.back.Load() }

type dialFunc = func(ctx context.Context, network, addr string) (net.Conn, error)

// forward copies in both directions until one end closes.
func (p *Path) forward(c net.Conn, dial dialFunc, to string) {
	defer c.Close()
	s, err := dial(context.Background(), "tcp", to)
	if err != nil {
		return
	}
	defer s.Close()
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = io.Copy(s, io.TeeReader(c, counter{&p.there}))
		s.Close()
	}()
	_, _ = io.Copy(c, io.TeeReader(s, counter{&p.back}))
	c.Close()
	<-done
}

type counter struct{ n *atomic.Int64 }

func (c counter) Write(p []byte) (int, error) {
	c.n.Add(int64(len(p)))
	return len(p), nil
}
