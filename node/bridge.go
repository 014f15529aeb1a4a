package node

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/coords"
	"peerd/coords/assign"
	"peerd/crawl"
	"peerd/crawl/canon"
	"peerd/crawl/resolve"
	"peerd/crawl/scope"
	"peerd/node/config"
	"peerd/overlay/estimate"
	"peerd/overlay/forward"
	"peerd/overlay/owner"
	"peerd/store"
)

type prefix = netip.Prefix

// delegate lets the crawler ask the Manager.
type delegate struct{ m *owner.Manager }

func (d delegate) Where(p netip.Prefix) crawl.Place {
	who, hold := d.m.Where(p)
	return crawl.Place{Peer: who, Hold: hold}
}

func (d delegate) Remote(ctx context.Context, p netip.Prefix, who string, r store.FetchRequest) (store.FetchReport, error) {
	rep, err := d.m.Remote(ctx, p, who, r)
	if errors.Is(err, estimate.ErrNotSent) {
		err = fmt.Errorf("%w: %w", crawl.ErrNotSent, err)
	}
	return rep, err
}

func (d delegate) Observe(p netip.Prefix, who string, r store.FetchReport, err error) {
	d.m.Observe(p, who, r, err)
}

// errands lets other owners have URLs fetched here.
type errands struct{ n *Node }

func (e errands) Errand(ctx context.Context, r store.FetchRequest) (store.FetchReport, error) {
	rep, err := e.n.crawler.Errand(ctx, r)
	if errors.Is(err, crawl.ErrBusy) || errors.Is(err, crawl.ErrErrand) {
		err = fmt.Errorf("%w: %w", estimate.ErrNotSent, err)
	}
	return rep, err
}

// directory shows the Manager the peers.
type directory struct{ n *Node }

func (d directory) Candidates() []assign.Candidate {
	self := d.n.peers.Self()
	all := []assign.Candidate{{ID: d.n.net.Self().String(), At: self.At.Unloaded(self.Wait), Wait: self.Wait, Capacity: self.Capacity}}
	for _, b := range d.n.peers.Directory().All() {
		all = append(all, assign.Candidate{ID: b.Peer.String(), At: b.At.Unloaded(b.Wait), Wait: b.Wait, Capacity: b.Capacity})
	}
	return all
}

func (d directory) At(who string) (coords.Coordinate, bool) {
	if who == d.n.net.Self().String() {
		b := d.n.peers.Self()
		return b.At.Unloaded(b.Wait), true
	}
	id, err := peer.Decode(who)
	if err != nil {
		return coords.Coordinate{}, false
	}
	b, ok := d.n.peers.Directory().Get(id)
	return b.At.Unloaded(b.Wait), ok
}

// resolver lets the Manager ask for addresses in its own words.
func resolver(c *resolve.Cache) owner.Resolve {
	return func(ctx context.Context, host string) ([]netip.Addr, error) {
		addrs, err := c.Addrs(ctx, host)
		switch {
		case errors.Is(err, resolve.ErrNotFound):
			err = fmt.Errorf("%w: %w", owner.ErrNoHost, err)
		case errors.Is(err, resolve.ErrTemporary):
			err = fmt.Errorf("%w: %w", forward.ErrUnresolved, err)
		}
		return addrs, err
	}
}

// resolveOne returns an address of a host that may be dialled.
func (n *Node) resolveOne(ctx context.Context, host string) (netip.Addr, error) {
	addrs, err := n.names.Addrs(ctx, host)
	if err != nil {
		return netip.Addr{}, err
	}
	for _, a := range addrs {
		if n.guard.Check(a) == nil {
			return a, nil
		}
	}
	return netip.Addr{}, fmt.Errorf("%s has no address that may be dialled", host)
}

// sink is where the Forwarder leaves URLs that are ours to crawl.
type sink struct{ n *Node }

func (s sink) Route(found []store.Pending) error { return s.n.crawler.Route(found) }

func (s sink) Enqueue(host string) (moved int, more bool, err error) {
	return s.n.crawler.Enqueue(host)
}

// check rejects URLs that no peer of this network would send.
func (n *Node) check(u store.URL) error {
	c, err := canon.Parse(string(u))
	if err != nil {
		return err
	}
	if c != u {
		return fmt.Errorf("url %q is not in canonical form", u)
	}
	return n.scope.Allows(u, 0)
}

// compileScope turns a profile's rules into a Scope.
func compileScope(p config.Profile) (*scope.Scope, error) {
	var seeds []store.URL
	for _, s := range p.Seeds {
		u, err := canon.Parse(s)
		if err != nil {
			return nil, fmt.Errorf("profile: seed %q: %w", s, err)
		}
		seeds = append(seeds, u)
	}
	return scope.Compile(scope.Rules{
		Mode: p.Scope.Mode, Hosts: p.Scope.Hosts, Domains: p.Scope.Domains,
		Include: p.Scope.Include, Exclude: p.Scope.Exclude,
		MaxURLLength: p.Limits.MaxURLLength, MaxDepth: p.Limits.MaxDepth,
	}, seeds)
}

// mayClaim says whether claims make sense now: a peer that knows of others and
// hears none would claim what they own.
func (n *Node) mayClaim() bool {
	if n.opts.Alone || len(n.net.Host.Network().Peers()) > 0 {
		return true
	}
	boot, err := config.BootstrapPeers(n.opts.Config, n.opts.Profile)
	if err != nil || len(boot) > 0 {
		return false
	}
	known, err := savedPeers(n.db)
	return err == nil && len(known) == 0
}
