package node

import (
	"errors"
	"fmt"
	"net/netip"

	ma "github.com/multiformats/go-multiaddr"
	manet "github.com/multiformats/go-multiaddr/net"

	"peerd/coords/assign"
	"peerd/node/config"
	"peerd/node/geo"
	"peerd/node/registry"
	"peerd/node/strategy"
)

// ErrStrategy says that the strategy lacks the data that it needs.
var ErrStrategy = errors.New("node: the strategy lacks its data")

// openData opens what the strategy needs, and looks at what else is there.
func (n *Node) openData() (err error) {
	dir, name := n.opts.Home.RegistryDir(), n.opts.Config.Strategy
	if file := n.opts.Config.GeoDB; file != "" {
		if n.places, err = geo.Open(n.opts.Home.Path(file)); err != nil {
			return fmt.Errorf("geo_db: %w", err)
		}
		n.log.Info("places of addresses", "geo_db", n.opts.Home.Path(file), "kind", n.places.Kind())
	}
	if config.NeedsRegistry(name) {
		n.table, n.registries, err = registry.Open(dir)
		if n.table == nil {
			return fmt.Errorf("%w: strategy is %q, and there is %w", ErrStrategy, name, err)
		}
	} else {
		n.registries, err = registry.List(dir) // not read: nobody asks
	}
	if err != nil {
		n.log.Warn("some of the Internet registries' data cannot be used", "err", err)
	}
	for _, i := range n.registries {
		n.log.Info("holders of addresses", "registry", i.Registry, "day", i.Day, "blocks", i.Entries, "faults", i.Faulty, "read", n.table != nil)
	}
	return nil
}

// newStrategy returns the strategy that the configuration names.
func (n *Node) newStrategy() (assign.Strategy, error) {
	c := n.opts.Config
	m := strategy.Material{Self: string(n.net.Self()), Threshold: c.Threshold.Duration, Table: n.table}
	if n.places != nil {
		m.Locate = n.places.Locate
	}
	return strategy.New(c.Strategy, m)
}

// addrOf returns the address by which a peer is known to strategies: the first
// public one that it listens on, else the first private one, else the first at
// all; invalid if there is none.
func addrOf(multiaddrs []string) netip.Addr {
	var best netip.Addr
	least := 3
	for _, s := range multiaddrs {
		m, err := ma.NewMultiaddr(s)
		if err != nil {
			continue
		}
		ip, err := manet.ToIP(m)
		if err != nil {
			continue // a name, or a relay
		}
		a, ok := netip.AddrFromSlice(ip)
		if a = a.Unmap(); !ok || a.IsUnspecified() || a.IsMulticast() {
			continue
		}
		worse := 0
		switch {
		case a.IsLoopback() || a.IsLinkLocalUnicast():
			worse = 2
		case a.IsPrivate():
			worse = 1
		}
		if worse < least {
			best, least = a, worse
		}
	}
	return best
}
