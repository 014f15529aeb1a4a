package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	"golang.org/x/sync/errgroup"

	rir "peerd/coords/registry"
	"peerd/crawl"
	"peerd/crawl/fetch"
	"peerd/crawl/frontier"
	"peerd/crawl/quota"
	"peerd/crawl/resolve"
	"peerd/crawl/scope"
	"peerd/node/admin"
	"peerd/node/geo"
	"peerd/node/registry"
	"peerd/overlay"
	"peerd/overlay/atlas"
	"peerd/overlay/carry"
	"peerd/overlay/estimate"
	"peerd/overlay/forward"
	"peerd/overlay/handover"
	"peerd/overlay/home"
	"peerd/overlay/lease"
	"peerd/overlay/nearest"
	"peerd/overlay/owner"
	"peerd/overlay/peers"
	"peerd/overlay/shadow"
	"peerd/overlay/witness"
	"peerd/store"
	"peerd/store/warc"
)

// Node is one peer. New builds it, Run runs it once and closes it.
type Node struct {
	opts    Options
	log     *slog.Logger
	started time.Time

	db        *store.DB
	net       *overlay.Net
	leases    *lease.Registry
	homes     *home.Registry
	peers     *peers.Service
	guard     *fetch.Guard
	names     *resolve.Cache
	fetcher   *fetch.Fetcher
	scope     *scope.Scope
	manager   *owner.Manager
	shadows   *shadow.Service  // nil: alone
	witness   *witness.Service // nil: alone
	met       atomic.Bool      // peers and witness are there
	frontier  *frontier.Frontier
	crawler   *crawl.Crawler
	forwarder *forward.Forwarder
	estimate  *estimate.Service
	nearest   *nearest.Service
	receiver  *handover.Receiver
	carrier   *carry.Service
	atlas     *atlas.Atlas
	traits    *traits
	archive   *warc.Archive // nil: none
	quota     *quota.Quota
	places    *geo.DB    // nil: none
	table     *rir.Table // nil: no strategy needs it

	registries []registry.Info // what of them is in the home
	disk       diskWatch
	api        *admin.Server

	onClose  func() error // called before the store closes, when all work has ended
	stopOnce sync.Once
	stop     chan struct{}
	leave    *leaving // see drain.go
}

// New builds a peer on its home. What it opened is closed again when it fails.
func New(o Options) (n *Node, err error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	n = &Node{opts: o, log: o.Logger, started: time.Now(), stop: make(chan struct{}), leave: newLeaving()}
	defer func() {
		if err != nil {
			err = errors.Join(err, n.close())
			n = nil
		}
	}()
	for _, step := range []func() error{
		n.openData, n.openStore, n.openArchive, n.openNet, n.openRegistries, n.openWeb, n.openGuards, n.openOwnership, n.openCrawler, n.openPeers, n.openAtlas, n.openAPI,
	} {
		if err := step(); err != nil {
			return n, err
		}
	}
	return n, nil
}

// Run runs the peer until ctx ends, Stop is called, StopDrained has handed everything over, or something fails that it
// cannot go on without; then it closes everything. It leaves no goroutine.
func (n *Node) Run(ctx context.Context) error {
	servers := []interface{ Close() }{
		n.estimate.Serve(), n.forwarder.Serve(), n.nearest.Serve(), n.carrier.Serve(),
		n.receiver.Serve(n.net.Host, n.net.Names.Handover(), n.log),
	}
	work, stopWork := context.WithCancel(ctx)
	defer stopWork()
	api, stopAPI := context.WithCancel(context.WithoutCancel(ctx)) // last to go: it tells that we are gone
	defer stopAPI()

	g, gctx := errgroup.WithContext(work)
	g.Go(func() error {
		select {
		case <-gctx.Done():
		case <-n.stop:
		case <-n.crawler.Full():
		case <-n.leave.begun:
			n.drainAll(gctx)
		}
		n.leave.finish()
		stopWork()
		return nil
	})
	runs := []func(context.Context) error{
		n.db.Run, n.net.Run, n.peers.Run, n.atlas.Run, n.traits.Run, n.manager.Run, n.forwarder.Run, n.crawler.Run, n.plantSeeds,
	}
	if !n.opts.Alone {
		runs = append(runs, n.witness.Run, n.shadows.Run)
	}
	for _, run := range runs {
		g.Go(func() error { return run(gctx) })
	}
	var apiDone sync.WaitGroup
	var apiErr error
	if n.api != nil {
		apiDone.Go(func() {
			if apiErr = n.api.Run(api); apiErr != nil {
				stopWork()
			}
		})
	}
	if n.opts.Config.Contact == "" && n.opts.Emulation == nil && !n.opts.Alone {
		n.log.Warn("no contact URL is set: owners of web sites cannot tell who crawls them; set contact in config.toml")
	}
	n.log.Info("peer started", "peer", n.net.Self(), "network", n.opts.Profile.NetworkID(), "addrs", n.net.Host.Addrs())
	err := g.Wait()
	for _, s := range servers {
		s.Close()
	}
	err = errors.Join(err, n.close())
	stopAPI()
	apiDone.Wait()
	return errors.Join(err, apiErr)
}

// Close closes a Node that never ran. Run closes what it ran.
func (n *Node) Close() error {
	if n.api != nil {
		return errors.Join(n.api.Close(), n.close())
	}
	return n.close()
}

// gap is the least time between two requests to a server.
func (n *Node) gap() time.Duration {
	return max(n.opts.Config.Crawl.MinDelay.Duration, n.opts.Profile.Politeness.MinDelay.Duration)
}

// load says how long a new URL would wait here for a worker, and how much this
// peer can take on compared to others.
func (n *Node) load() (wait time.Duration, capacity float64) {
	return n.frontier.Wait(), n.manager.Room()
}

// Stop asks for a clean stop and returns at once.
func (n *Node) Stop() { n.stopOnce.Do(func() { close(n.stop) }) }

// ID is this peer's name.
func (n *Node) ID() peer.ID { return n.net.Self() }

// Addrs returns the multiaddrs by which others may join this peer.
func (n *Node) Addrs() []string {
	var all []string
	for _, a := range n.net.Host.Addrs() {
		all = append(all, a.String()+"/p2p/"+n.net.Self().String())
	}
	return all
}

// close closes what New opened, top-down.
func (n *Node) close() error {
	var errs []error
	if n.fetcher != nil {
		n.fetcher.Close()
	}
	if n.net != nil {
		errs = append(errs, n.net.Close())
	}
	if n.onClose != nil {
		errs = append(errs, n.onClose())
	}
	if n.archive != nil {
		errs = append(errs, n.archive.Close())
	}
	if n.places != nil {
		errs = append(errs, n.places.Close())
	}
	if n.db != nil {
		if err := n.db.Close(); err != nil {
			errs = append(errs, fmt.Errorf("close store: %w", err))
		}
	}
	return errors.Join(errs...)
}

// Run is New and Run in one.
func Run(ctx context.Context, o Options) error {
	n, err := New(o)
	if err != nil {
		return err
	}
	return n.Run(ctx)
}
