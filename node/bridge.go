package node

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/coords"
	"peerd/coords/assign"
	rir "peerd/coords/registry"
	"peerd/crawl"
	"peerd/crawl/canon"
	"peerd/crawl/resolve"
	"peerd/crawl/scope"
	"peerd/node/admin"
	"peerd/node/config"
	"peerd/overlay/estimate"
	"peerd/overlay/forward"
	"peerd/overlay/owner"
	"peerd/overlay/peers"
	"peerd/store"
)

type prefix = netip.Prefix

// delegate lets the crawler ask the Manager.
type delegate struct {
	n *Node
	m *owner.Manager
}

func (d delegate) Where(p netip.Prefix) crawl.Place {
	who, hold := d.m.Where(p)
	return crawl.Place{Peer: who, Hold: hold, Connect: !hold && d.m.Connects(p)}
}

func (d delegate) Connect(ctx context.Context, p netip.Prefix, who string, r store.FetchRequest) (store.FetchReport, error) {
	rep, err := d.m.Connect(ctx, p, who, r)
	if errors.Is(err, estimate.ErrNotSent) {
		err = fmt.Errorf("%w: %w", crawl.ErrNotSent, err)
	}
	return rep, err
}

func (d delegate) Remote(ctx context.Context, p netip.Prefix, who string, r store.FetchRequest) (store.FetchReport, error) {
	rep, err := d.m.Remote(ctx, p, who, r)
	if errors.Is(err, estimate.ErrNotSent) {
		err = fmt.Errorf("%w: %w", crawl.ErrNotSent, err)
	}
	return rep, err
}

func (d delegate) Observe(p netip.Prefix, who string, r store.FetchReport, err error) {
	if who == "" {
		d.n.traits.observe(p, r, err)
	}
	d.m.Observe(p, who, r, err)
}

// errands lets other owners have URLs fetched here.
type errands struct{ n *Node }

func (e errands) Errand(ctx context.Context, r store.FetchRequest) (store.FetchReport, error) {
	done, ok := e.n.leave.errand()
	if !ok {
		return store.FetchReport{}, fmt.Errorf("%w: %w", estimate.ErrNotSent, admin.ErrStopping)
	}
	defer done()
	rep, err := e.n.crawler.Errand(ctx, r)
	if err == nil {
		e.n.traits.observe(store.SubnetOf(r.Addr), rep, nil)
	}
	if errors.Is(err, crawl.ErrBusy) || errors.Is(err, crawl.ErrErrand) {
		err = fmt.Errorf("%w: %w", estimate.ErrNotSent, err)
	}
	return rep, err
}

func (e errands) Connect(ctx context.Context, r store.FetchRequest) (store.FetchReport, error) {
	done, ok := e.n.leave.errand()
	if !ok {
		return store.FetchReport{}, fmt.Errorf("%w: %w", estimate.ErrNotSent, admin.ErrStopping)
	}
	defer done()
	rep, err := e.n.crawler.Connect(ctx, r)
	if errors.Is(err, crawl.ErrBusy) || errors.Is(err, crawl.ErrErrand) {
		err = fmt.Errorf("%w: %w", estimate.ErrNotSent, err)
	}
	return rep, err
}

// directory shows the Manager the peers.
type directory struct{ n *Node }

func (d directory) Candidates() []assign.Candidate {
	self := d.n.peers.Self()
	all := []assign.Candidate{{ID: d.n.net.Self().String(), At: self.At.Unloaded(self.Wait), Wait: self.Wait, Capacity: self.Capacity, Traits: self.Traits, Addr: addrOf(self.Addrs)}}
	for _, b := range d.n.peers.Directory().All() {
		all = append(all, assign.Candidate{ID: b.Peer.String(), At: b.At.Unloaded(b.Wait), Wait: b.Wait, Capacity: b.Capacity, Traits: b.Traits, Addr: addrOf(b.Addrs)})
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

// reaching is the host for those who deal with single peers: batches, estimations,
// shadows, handovers. Whom they do not reach is doubted.
func (n *Node) reaching() host.Host {
	return peers.Reaching(n.net.Host, func(p peer.ID) {
		if n.met.Load() {
			n.peers.Doubt(p)
		}
	})
}

// nearestTimeout bounds asking one peer who is near a server, and nearestPeers is
// how many are looked for: as many as a strategy measures.
const (
	nearestTimeout = 4 * time.Second
	nearestPeers   = 8
)

// seek makes the directory learn of the peers nearest to a server, if it does
// not hold everybody.
func (n *Node) seek(ctx context.Context, target coords.Proxy) error {
	if !n.peers.Directory().Partial() {
		return nil
	}
	_, _, err := n.nearest.Nearest(ctx, target, nearestPeers)
	return err
}

// resolver lets the Manager ask for addresses in its own words.
func resolver(look func(ctx context.Context, host string) ([]netip.Addr, error)) owner.Resolve {
	return func(ctx context.Context, host string) ([]netip.Addr, error) {
		addrs, err := look(ctx, host)
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

// errHours keeps a peer from claiming what it would not fetch from: others do.
var errHours = errors.New("outside the hours of this peer (crawl.hours); nothing is claimed")

// mayClaim says why claims make no sense now; nil if they do. A peer that knows of
// others and hears none would claim what they own: owner.ErrAlone.
func (n *Node) mayClaim(now time.Time) error {
	if !n.opts.Alone && n.opts.Config.Crawl.Hours.Wait(now) > 0 {
		return errHours
	}
	if n.opts.Alone || len(n.net.Host.Network().Peers()) > 0 {
		return nil
	}
	boot, err := config.BootstrapPeers(n.opts.Config, n.opts.Profile)
	if err != nil {
		return err
	}
	known, err := savedPeers(n.db)
	if err == nil && len(boot)+len(known) > 0 {
		err = owner.ErrAlone
	}
	return err
}

// holders tells from the registries' data who holds an address.
type holders struct{ table *rir.Table }

func (h holders) Holder(a netip.Addr) (string, bool) {
	e, ok := h.table.Lookup(a)
	return e.Holder, ok && e.Holder != ""
}
