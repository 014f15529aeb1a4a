package node

import (
	"errors"
	"fmt"
	"net/netip"

	ma "github.com/multiformats/go-multiaddr"

	"peerd/coords/assign"
	"peerd/node/config"
	"peerd/node/geo"
	"peerd/node/registry"
	"peerd/node/strategy"
	nets "peerd/overlay/prefix"
)

// ErrStrategy means that the data that the strategy needs is missing.
var ErrStrategy = errors.New("node: the data of the strategy is missing")

// openData opens the data that the strategy needs.
func (n *Node) openData() (err error) {
	dir, name := n.opts.Home.RegistryDir(), n.opts.Config.Strategy
	if file := n.opts.Config.GeoDB; file != "" {
		if n.geoDB, err = geo.Open(n.opts.Home.Path(file)); err != nil {
			return fmt.Errorf("geo_db: %w", err)
		}
		n.log.Info("opened the geolocation database",
			"file", n.opts.Home.Path(file), "kind", n.geoDB.Kind())
	}
	if config.NeedsRegistry(name) {
		n.registryTable, n.registries, err = registry.Open(dir)
		if n.registryTable == nil {
			return fmt.Errorf("%w: strategy is %q, and there is %w", ErrStrategy, name, err)
		}
	}
	if err != nil {
		n.log.Warn("failed to read data of Internet registries", "err", err)
	}
	for _, i := range n.registries {
		n.log.Info("read data of an Internet registry", "registry", i.Registry, "day", i.Day,
			"blocks", i.Entries, "faults", i.Faulty)
	}
	return nil
}

func (n *Node) newStrategy() (assign.Strategy, error) {
	c := n.opts.Config
	m := strategy.Config{
		Self: string(n.net.Self()), Threshold: c.Threshold.Duration, Table: n.registryTable,
	}
	if n.geoDB != nil {
		m.Locate = n.geoDB.Locate
	}
	return strategy.New(c.Strategy, m)
}

// addrOf returns the address of a peer for strategies: the first public one that it listens on,
// else the first private one, else the first one; invalid if there is none.
func addrOf(multiaddrs []string) netip.Addr {
	var best netip.Addr
	least := 3
	for _, s := range multiaddrs {
		m, err := ma.NewMultiaddr(s)
		if err != nil {
			continue
		}
		a, ok := nets.Of(m)
		if !ok || a.IsUnspecified() || a.IsMulticast() { // not ok: a host name
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
