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

// Options returns the libp2p options that run a libp2p host on machine h: only this
// transport, the real multiplexer, and identities that are stated but not proved, as
// encryption would take most of the CPU time.
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

// CanDial reports whether a is a TCP address.
func (t *Transport) CanDial(a ma.Multiaddr) bool { return dialable.Matches(a) }

// Protocols returns the protocol code of TCP.
func (t *Transport) Protocols() []int { return []int{ma.P_TCP} }

// Proxy returns false.
func (t *Transport) Proxy() bool { return false }

// Dial connects to p at a.
func (t *Transport) Dial(
	ctx context.Context, a ma.Multiaddr, p peer.ID,
) (transport.CapableConn, error) {
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

func (t *Transport) dial(
	ctx context.Context, a ma.Multiaddr, p peer.ID, scope network.ConnManagementScope,
) (transport.CapableConn, error) {
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

// Listen listens at a, which must be an address of the machine.
func (t *Transport) Listen(a ma.Multiaddr) (transport.Listener, error) {
	addr, err := manet.ToNetAddr(a)
	if err != nil {
		return nil, err
	}
	tcp, ok := addr.(*net.TCPAddr)
	if !ok || tcp.AddrPort().Addr().Unmap() != t.host.addr {
		return nil, fmt.Errorf("fabric: listen on %s: not an address of %s", a, t.host.addr)
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
