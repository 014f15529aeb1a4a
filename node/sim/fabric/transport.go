package fabric

import (
	"context"
	"fmt"
	"net"

	"github.com/libp2p/go-libp2p"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/transport"
	ma "github.com/multiformats/go-multiaddr"
	mafmt "github.com/multiformats/go-multiaddr-fmt"
	manet "github.com/multiformats/go-multiaddr/net"
)

// Options are the libp2p options that put a host onto machine h: this transport
// alone, the real multiplexer, and names that are told and not proved, since
// nobody here lies and encryption would be most of the work.
func Options(h *Host) []libp2p.Option {
	return []libp2p.Option{
		libp2p.NoSecurity,
		libp2p.Transport(func(up transport.Upgrader, limits network.ResourceManager) *Transport {
			return &Transport{host: h, upgrader: up, limits: limits}
		}),
	}
}

// Transport carries libp2p connections over a fabric, as if it were TCP.
type Transport struct {
	host     *Host
	upgrader transport.Upgrader
	limits   network.ResourceManager
}

var _ transport.Transport = (*Transport)(nil)

var dialable = mafmt.And(mafmt.IP, mafmt.Base(ma.P_TCP))

// CanDial reports whether a is an address of TCP.
func (t *Transport) CanDial(a ma.Multiaddr) bool { return dialable.Matches(a) }

// Protocols is TCP.
func (t *Transport) Protocols() []int { return []int{ma.P_TCP} }

// Proxy is false.
func (t *Transport) Proxy() bool { return false }

// Dial connects to p at a.
func (t *Transport) Dial(ctx context.Context, a ma.Multiaddr, p peer.ID) (transport.CapableConn, error) {
	scope, err := t.limits.OpenConnection(network.DirOutbound, true, a)
	if err != nil {
		return nil, err
	}
	c, err := t.dial(ctx, a, p, scope)
	if err != nil {
		scope.Done()
	}
	return c, err
}

func (t *Transport) dial(ctx context.Context, a ma.Multiaddr, p peer.ID, scope network.ConnManagementScope) (transport.CapableConn, error) {
	if err := scope.SetPeer(p); err != nil {
		return nil, err
	}
	proto, text, err := manet.DialArgs(a)
	if err != nil {
		return nil, err
	}
	raw, err := t.host.DialContext(ctx, proto, text)
	if err != nil {
		return nil, err
	}
	c, err := manet.WrapNetConn(raw)
	if err != nil {
		return nil, err
	}
	dir := network.DirOutbound
	if ok, isClient, _ := network.GetSimultaneousConnect(ctx); ok && !isClient {
		dir = network.DirInbound
	}
	return t.upgrader.Upgrade(ctx, t, c, dir, p, scope)
}

// Listen takes connections at a, an address of the machine.
func (t *Transport) Listen(a ma.Multiaddr) (transport.Listener, error) {
	addr, err := manet.ToNetAddr(a)
	if err != nil {
		return nil, err
	}
	tcp, ok := addr.(*net.TCPAddr)
	if !ok || tcp.AddrPort().Addr().Unmap() != t.host.addr {
		return nil, fmt.Errorf("fabric: %s is not at %s", t.host.addr, a)
	}
	ln, err := t.host.Listen(tcp.AddrPort().Port())
	if err != nil {
		return nil, err
	}
	wrapped, err := manet.WrapNetListener(ln)
	if err != nil {
		return nil, err
	}
	return t.upgrader.UpgradeGatedMaListener(t, t.upgrader.GateMaListener(wrapped)), nil
}
