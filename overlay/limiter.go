package overlay

import (
	"context"
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
// and so are the listeners. It returns an error if an address cannot be listened on.
func (n *Net) UseQUIC(use bool) error {
	if n.gate.noQUIC.Swap(!use) == !use {
		return nil
	}
	net := n.Host.Network()
	if use {
		return listen(n.Host, quicOnly(n.cfg.Listen))
	}
	if l, ok := net.(interface{ ListenClose(addrs ...ma.Multiaddr) }); ok {
		l.ListenClose(ma.FilterAddrs(net.ListenAddresses(), isQUIC)...)
	}
	for _, c := range net.Conns() {
		if isQUIC(c.RemoteMultiaddr()) {
			_ = c.Close()
		}
	}
	return nil
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

// limitedUpgrader limits connections before they are encrypted and shared by streams, so that all
// bytes count.
type limitedUpgrader struct {
	transport.Upgrader
	limiter Limiter
}

// Upgrade upgrades a connection that was dialed.
func (u limitedUpgrader) Upgrade(ctx context.Context, t transport.Transport, c manet.Conn,
	dir network.Direction, p peer.ID, scope network.ConnManagementScope,
) (transport.CapableConn, error) {
	return u.Upgrader.Upgrade(ctx, t, limitedConn{u.limiter.Limit(c), c}, dir, p, scope)
}

// UpgradeGatedMaListener upgrades a listener.
func (u limitedUpgrader) UpgradeGatedMaListener(t transport.Transport,
	l transport.GatedMaListener) transport.Listener {
	return u.Upgrader.UpgradeGatedMaListener(t, limitedListener{l, u.limiter})
}

type limitedListener struct {
	transport.GatedMaListener
	limiter Limiter
}

// Accept returns the next connection.
func (l limitedListener) Accept() (manet.Conn, network.ConnManagementScope, error) {
	c, scope, err := l.GatedMaListener.Accept()
	if err != nil {
		return nil, scope, err
	}
	return limitedConn{l.limiter.Limit(c), c}, scope, nil
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
