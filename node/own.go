package node

import (
	"context"
	"net/netip"
	"time"

	ma "github.com/multiformats/go-multiaddr"

	"peerd/crawl/fetch"
	"peerd/crawl/network"
	"peerd/internal/backoff"
	nets "peerd/overlay/prefix"
)

// openGuard builds the guard of this peer's own networks. On a machine that
// peers of an emulation share there are none.
func (n *Node) openGuard() {
	n.guard = fetch.NewGuard(n.opts.Config.Crawl.AllowNet)
	if !n.opts.sharesMachine() {
		n.guard.Refuse(fetch.NewOwnNetworks(n.ownAddrs))
	}
}

// ownAddrs returns the gateways of this machine, and its addresses as other peers see them.
func (n *Node) ownAddrs() []netip.Addr {
	all := network.Gateways()
	for _, m := range n.net.Host.Addrs() {
		if _, err := m.ValueForProtocol(ma.P_CIRCUIT); err == nil {
			continue // the address of a relay
		}
		if a, ok := nets.Of(m); ok {
			all = append(all, a)
		}
	}
	return all
}

// The name that translators of IPv4 addresses answer for (RFC 7050), and how often it is looked up.
const (
	nat64Name  = "ipv4only.arpa"
	nat64Every = time.Hour
)

// runNAT64 finds the translators of this network until ctx ends.
func (n *Node) runNAT64(ctx context.Context) error {
	for n.opts.Emulation == nil {
		if addrs, err := n.names.Addrs(ctx, nat64Name); err == nil {
			n.guard.RefuseNAT64(fetch.NAT64Prefixes(addrs))
		} else {
			n.log.Debug("failed to look up the translators of the network", "err", err)
		}
		if backoff.Sleep(ctx, nat64Every) != nil {
			return nil //nolint:nilerr // the end of ctx is none
		}
	}
	return nil
}
