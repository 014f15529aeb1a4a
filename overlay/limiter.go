package overlay

import (
	"context"
	"errors"
	"fmt"
	"net"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/transport"
	ma "github.com/multiformats/go-multiaddr"
	manet "github.com/multiformats/go-multiaddr/net"
)

// A Limiter limits the traffic of TCP connections. Its methods are safe for concurrent use.
type Limiter interface {
	// Limit returns a connection that passes on what it reads and writes through c.
	Limit(c net.Conn) net.Conn
	// Closed reports whether no connection may be opened or accepted now.
	Closed() bool
}

// UseQUIC has connections use QUIC as well as TCP, or only TCP: then those over QUIC are closed,
// and so are the listeners. It returns an error, and TCP is used alone, if an address cannot be
// listened on. Calls must not overlap.
func (n *Net) UseQUIC(use bool) error {
	if n.gate.noQUIC.Load() == !use {
		return nil
	}
	if use {
		if err := listen(n.Host, quicOnly(n.cfg.Listen)); err != nil {
			n.endQUIC()
			return err
		}
	}
	n.gate.noQUIC.Store(!use)
	if !use {
		n.endQUIC()
	}
	return nil
}

// endQUIC closes the connections over QUIC, and the listeners.
func (n *Net) endQUIC() {
	net := n.Host.Network()
	if l, ok := net.(interface{ ListenClose(addrs ...ma.Multiaddr) }); ok {
		l.ListenClose(ma.FilterAddrs(net.ListenAddresses(), isQUIC)...)
	}
	for _, c := range net.Conns() {
		if isQUIC(c.RemoteMultiaddr()) {
			_ = c.Close()
		}
	}
}

// Disconnect closes all connections.
func (n *Net) Disconnect() {
	for _, c := range n.Host.Network().Conns() {
		_ = c.Close()
	}
}

func isQUIC(a ma.Multiaddr) bool {
	_, err := a.ValueForProtocol(ma.P_QUIC_V1)
	return err == nil
}

// quicOnly and withoutQUIC return the addresses of all, which are valid, with and without QUIC.
func quicOnly(all []string) []string    { return byQUIC(all, true) }
func withoutQUIC(all []string) []string { return byQUIC(all, false) }

func byQUIC(all []string, quic bool) (some []string) {
	for _, text := range all {
		if a, err := ma.NewMultiaddr(text); err == nil && isQUIC(a) == quic {
			some = append(some, text)
		}
	}
	return some
}

// tcpUpgrader prepares TCP connections before they are encrypted and shared by streams: TCP does
// not ping, because the muxer does, and all bytes count for the limiter.
type tcpUpgrader struct {
	transport.Upgrader
	limiter Limiter // nil: there is no limit
}

// errHandshake is the error of a TCP connection that was made, if its handshakes failed.
var errHandshake = errors.New("handshake failed")

// Upgrade upgrades a connection that was dialed. Its error matches errHandshake.
func (u tcpUpgrader) Upgrade(ctx context.Context, t transport.Transport, c manet.Conn,
	dir network.Direction, p peer.ID, scope network.ConnManagementScope,
) (transport.CapableConn, error) {
	conn, err := u.Upgrader.Upgrade(ctx, t, u.prepare(c), dir, p, scope)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errHandshake, err)
	}
	return conn, nil
}

// UpgradeGatedMaListener upgrades a listener.
func (u tcpUpgrader) UpgradeGatedMaListener(t transport.Transport,
	l transport.GatedMaListener) transport.Listener {
	return u.Upgrader.UpgradeGatedMaListener(t, preparedListener{l, u})
}

type preparedListener struct {
	transport.GatedMaListener
	upgrader tcpUpgrader
}

// Accept returns the next connection.
func (l preparedListener) Accept() (manet.Conn, network.ConnManagementScope, error) {
	c, scope, err := l.GatedMaListener.Accept()
	if err != nil {
		return nil, scope, err
	}
	return l.upgrader.prepare(c), scope, nil
}

func (u tcpUpgrader) prepare(c manet.Conn) manet.Conn {
	if k, ok := c.(interface{ SetKeepAlive(on bool) error }); ok {
		_ = k.SetKeepAlive(false) // without it only the muxer pings
	}
	if u.limiter == nil {
		return c
	}
	return limitedConn{u.limiter.Limit(c), c}
}

// limitedConn is a limited connection with the addresses of the one below it.
type limitedConn struct {
	net.Conn
	addrs interface {
		LocalMultiaddr() ma.Multiaddr
		RemoteMultiaddr() ma.Multiaddr
	}
}

// LocalMultiaddr is part of manet.Conn.
func (c limitedConn) LocalMultiaddr() ma.Multiaddr { return c.addrs.LocalMultiaddr() }

// RemoteMultiaddr is part of manet.Conn.
func (c limitedConn) RemoteMultiaddr() ma.Multiaddr { return c.addrs.RemoteMultiaddr() }
