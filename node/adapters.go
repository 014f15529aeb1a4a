package node

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/coords"
	"peerd/coords/assign"
	rir "peerd/coords/registry"
	"peerd/crawl"
	"peerd/crawl/canon"
	"peerd/crawl/crawllet/page"
	"peerd/crawl/network"
	"peerd/crawl/resolve"
	"peerd/crawl/scope"
	"peerd/node/admin"
	"peerd/node/config"
	"peerd/overlay/estimate"
	"peerd/overlay/outbox"
	"peerd/overlay/owner"
	"peerd/overlay/peers"
	"peerd/store"
)

// delegate adapts owner.Placement to crawl.Delegate.
type delegate struct {
	n *Node
	p *owner.Placement
}

func (d delegate) Dispatch(p netip.Prefix) crawl.Dispatch {
	who, hold := d.p.Where(p)
	return crawl.Dispatch{Peer: who, Hold: hold, Connect: !hold && d.p.Connects(p)}
}

func (d delegate) RequestConnect(
	ctx context.Context, p netip.Prefix, who string, r store.FetchRequest,
) (store.FetchReport, error) {
	rep, err := d.p.Connect(ctx, p, who, r)
	return rep, notSent(err)
}

func (d delegate) RequestFetch(
	ctx context.Context, p netip.Prefix, who string, r store.FetchRequest,
) (store.FetchReport, error) {
	rep, err := d.p.Remote(ctx, p, who, r)
	return rep, notSent(err)
}

// notSent wraps estimate.ErrNotSent for the crawler.
func notSent(err error) error {
	if errors.Is(err, estimate.ErrNotSent) {
		return fmt.Errorf("%w: %w", crawl.ErrNotSent, err)
	}
	return err
}

func (d delegate) Observe(p netip.Prefix, who string, r store.FetchReport, err error) {
	if who == "" {
		if err == nil {
			d.n.countFetch(p, r)
		}
		d.n.traits.observe(p, r, err)
	} else {
		d.n.addSample(p, who, r, err)
	}
	if errors.Is(err, crawl.ErrNotSent) && !errors.Is(err, estimate.ErrNotSent) {
		err = fmt.Errorf("%w: %w", estimate.ErrNotSent, err) // it is no estimator for this subnet
	}
	d.p.Observe(p, who, r, err)
}

func (d delegate) PendingAdded(byHost map[string]int) { d.n.outbox.PendingAdded(byHost) }

func (d delegate) Fetched(p store.Page) {
	d.n.addPage(p)
	d.n.addFetchSpan(p)
}

func (d delegate) CheckSpace() error { return d.n.checkSpace() }

func (d delegate) Archived(a crawl.Archived) {
	if d.n.recent != nil {
		d.n.recent.Add(a)
	}
}

func (d delegate) File(u store.URL) (crawl.SiteFile, error) { return d.n.siteFile(u) }

func (d delegate) Plugins(p page.Page) []crawl.PluginResult { return d.n.plugins.process(p) }

// Resolve returns the addresses of a host that may be dialled.
func (d delegate) Resolve(ctx context.Context, host string) ([]netip.Addr, error) {
	addrs, err := d.n.names.Addrs(ctx, host)
	if err != nil {
		return nil, err
	}
	addrs = slices.DeleteFunc(addrs, func(a netip.Addr) bool { return d.n.guard.Check(a) != nil })
	if len(addrs) == 0 {
		return nil, fmt.Errorf("%s has no address that may be dialled", host)
	}
	return addrs, nil
}

func (d delegate) RecentlySent(u store.URL) bool { return d.n.outbox.Sent(u) }

func (d delegate) Unresponsive(host string, why store.Outcome) {
	d.n.manager.SuspectHost(host, why)
}

// frontierNode is the frontier.Node of a Node.
type frontierNode struct {
	*crawl.Gate // Admit
	n           *Node
}

func (f frontierNode) FetchWait(now time.Time) time.Duration { return f.n.fetchWait(now) }
func (f frontierNode) Left(host string)                      { f.n.fetcher.Leave(host) }

// remoteFetches executes remote fetches for other owners.
type remoteFetches struct{ urlChecker }

func (e remoteFetches) RemoteFetch(
	ctx context.Context, r store.FetchRequest, waits func() bool,
) (store.FetchReport, error) {
	rep, err := e.do(func() (store.FetchReport, error) {
		return e.n.crawler.RemoteFetch(ctx, r, waits)
	})
	if err == nil && !r.File {
		e.n.metrics.ObserveFetch(rep, 0)
		e.n.addFetch(store.SubnetOf(r.Addr), rep, 0, true)
		e.n.traits.observe(store.SubnetOf(r.Addr), rep, nil)
	}
	return rep, err
}

func (e remoteFetches) Connect(
	ctx context.Context, r store.FetchRequest,
) (store.FetchReport, error) {
	return e.do(func() (store.FetchReport, error) { return e.n.crawler.Connect(ctx, r) })
}

// do calls one of the crawler's methods, unless this peer is about to stop.
func (e remoteFetches) do(fetch func() (store.FetchReport, error)) (store.FetchReport, error) {
	done, ok := e.n.leaving.startRemoteFetch()
	if !ok {
		return store.FetchReport{}, fmt.Errorf("%w: %w", estimate.ErrNotSent, admin.ErrStopping)
	}
	defer done()
	rep, err := fetch()
	if errors.Is(err, crawl.ErrBusy) || errors.Is(err, crawl.ErrInvalidRequest) {
		err = fmt.Errorf("%w: %w", estimate.ErrNotSent, err)
	}
	return rep, err
}

// directory adapts the peer directory to owner.Directory.
type directory struct {
	n    *Node
	self string
}

func (n *Node) directory() directory { return directory{n, n.net.Self().String()} }

func (d directory) Candidates() []assign.Candidate {
	all := []assign.Candidate{candidate(d.n.net.Self(), d.n.peers.Self())}
	observed := d.n.peers.Observations()
	for _, b := range d.n.peers.Directory().All() {
		c := candidate(b.Peer, b)
		c.At, c.Place = observed.Judge(b.Peer, c.At)
		all = append(all, c)
	}
	if e := d.n.opts.Emulation; e != nil && e.IgnoreWaits {
		for i := range all {
			all[i].Wait = 0
		}
	}
	return all
}

func (d directory) Len() int { return d.n.peers.Directory().Len() }

func candidate(id peer.ID, b peers.Beacon) assign.Candidate {
	return assign.Candidate{
		ID: id.String(), At: b.At.Unloaded(b.Wait), Wait: b.Wait,
		Capacity: b.Capacity, Traits: b.Traits, Addr: addrOf(b.Addrs),
	}
}

func (d directory) At(who string) (coords.Coordinate, bool) {
	if who == d.self {
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

// monitoredHost returns the host for protocols between two peers: batches, estimations,
// witnesses, replicas, handovers. What they hear, and whom they cannot reach, decides which peers
// are believed to be alive.
func (n *Node) monitoredHost() host.Host { return peers.MonitorHost(n.net.Host, listener{n}) }

// listener passes on to peers.Service what is heard, once there is one.
type listener struct{ n *Node }

func (l listener) Touch(p peer.ID) {
	if l.n.peersReady.Load() {
		l.n.peers.Touch(p)
	}
}

func (l listener) ReportUnreachable(p peer.ID) {
	if l.n.peersReady.Load() {
		l.n.peers.ReportUnreachable(p)
	}
}

// nearestTimeout bounds one request for the peers nearest to a server. nearestPeers is how
// many of them are requested, which is how many a strategy measures.
const (
	nearestTimeout = 4 * time.Second
	nearestPeers   = 8
)

// findNearest adds the peers nearest to a server to the directory, if the directory is
// partial.
func (n *Node) findNearest(ctx context.Context, target coords.Proxy) error {
	if !n.peers.Directory().Partial() {
		return nil
	}
	_, _, err := n.nearest.Nearest(ctx, target, nearestPeers)
	return err
}

// resolver adapts a look-up of names to owner.Resolve, which has an error of its own.
func resolver(look func(ctx context.Context, host string) ([]netip.Addr, error)) owner.Resolve {
	return func(ctx context.Context, host string) ([]netip.Addr, error) {
		addrs, err := look(ctx, host)
		if failed, ok := errors.AsType[*resolve.Error](err); ok {
			err = &outbox.NameError{
				NotFound: errors.Is(err, resolve.ErrNotFound), Began: failed.Began, Err: err,
			}
		}
		return addrs, err
	}
}

// outboxNode is the outbox.Node of a Node.
type outboxNode struct {
	*crawl.Crawler   // Enqueue and Route
	*network.Monitor // Online
	*owner.Manager   // Safe
	urlChecker
}

var _ outbox.Observer = outboxNode{}

func (o outboxNode) Check(u store.URL, kind store.Kind) (err error) {
	if kind.Pinged() {
		if u, err = o.CheckNotice(u); err != nil {
			return err
		}
	}
	return o.urlChecker.Check(u)
}

func (o outboxNode) ObserveBatch(b outbox.Batch) {
	o.n.addBatch(b)
	o.n.addBatchSpan(b)
}

func (o outboxNode) SpeaksFor(p peer.ID, u store.URL) bool {
	return o.Crawler.SpeaksFor(p.String(), u)
}

// ownerNode is what the owner, which is built before most of it, needs of a Node: its Limiter,
// Contacts, OwnerMap, Reacher and Outbox.
type ownerNode struct{ n *Node }

func (o ownerNode) MayClaim() error                   { return o.n.mayClaim(time.Now()) }
func (o ownerNode) Online() bool                      { return o.n.network.Online() }
func (o ownerNode) CheckSpace() error                 { return o.n.checkSpace() }
func (o ownerNode) Limits(now time.Time) owner.Limits { return o.n.limits(now) }
func (o ownerNode) Heard(p peer.ID) time.Time         { return o.n.lastHeard(p) }
func (o ownerNode) Known() assign.Delegations         { return o.n.ownerMap.Known() }

func (o ownerNode) Reach(
	ctx context.Context, u store.URL, addrs []netip.Addr, recent time.Duration,
) (netip.Addr, bool) {
	return o.n.crawler.Reach(ctx, u, addrs, recent)
}

func (o ownerNode) ResolveAgain(p netip.Prefix)          { o.n.outbox.ResolveAgain(p) }
func (o ownerNode) Announced(p netip.Prefix, of peer.ID) { o.n.outbox.Announced(p, of) }
func (o ownerNode) PendingAdded(byHost map[string]int)   { o.n.outbox.PendingAdded(byHost) }
func (o ownerNode) Route(pending []store.Pending) error  { return o.n.crawler.Route(pending) }

// urlChecker rejects URLs that no correct peer of this network sends.
type urlChecker struct{ n *Node }

func (x urlChecker) Check(u store.URL) error {
	c, err := canon.Parse(string(u))
	if err != nil {
		return err
	}
	if c != u {
		return fmt.Errorf("url %q is not in canonical form", u)
	}
	return x.n.scope.Allows(u, 0)
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

// errHours prevents claims of subnets that this peer would not fetch from now.
var errHours = errors.New(
	"outside the hours of this peer (crawl.hours), or paused; no subnet is claimed")

// errSearching prevents claims of subnets while mDNS has had no time to find their owners.
var errSearching = errors.New(
	"searching the local network for peers (mdns); no subnet is claimed yet")

// mayClaim returns why this peer must not claim subnets now; nil if it may. If it knows
// other peers but is connected to none, it would claim what they own: owner.ErrAlone. The
// survivor of a network of two has taken that over. A peer that only mDNS can connect is
// given joinPatience to meet others.
func (n *Node) mayClaim(now time.Time) error {
	if !n.opts.Alone && n.untilOpen(now) > 0 {
		return errHours
	}
	if n.opts.Alone || len(n.net.Host.Network().Peers()) > 0 || n.witness.Alone() {
		return nil
	}
	boot, err := config.BootstrapPeers(n.opts.Config, n.opts.Profile)
	if err != nil {
		return err
	}
	known, err := savedPeers(n.db)
	switch {
	case err != nil:
		return err
	case len(boot)+len(known) > 0:
		return owner.ErrAlone
	case n.opts.Config.MDNS && now.Before(n.started.Add(joinPatience)):
		return errSearching
	}
	return nil
}

// registryHolders finds the holder of an address in the registries' data.
type registryHolders struct{ table *rir.Table }

func (h registryHolders) Holder(a netip.Addr) (string, bool) {
	e, ok := h.table.Lookup(a)
	return e.Holder, ok && e.Holder != ""
}
