package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/peer"
	"golang.org/x/sync/errgroup"

	rir "peerd/coords/registry"
	"peerd/crawl"
	"peerd/crawl/deny"
	"peerd/crawl/fetch"
	"peerd/crawl/frontier"
	"peerd/crawl/network"
	"peerd/crawl/quota"
	"peerd/crawl/resolve"
	"peerd/crawl/scope"
	"peerd/node/admin"
	"peerd/node/config"
	"peerd/node/events"
	"peerd/node/geo"
	"peerd/node/httpserver"
	"peerd/node/metrics"
	"peerd/node/otlp"
	"peerd/node/registry"
	local "peerd/node/search"
	"peerd/node/sitepage"
	"peerd/node/traffic"
	"peerd/overlay"
	"peerd/overlay/admission"
	"peerd/overlay/estimate"
	"peerd/overlay/feed"
	"peerd/overlay/handover"
	"peerd/overlay/home"
	"peerd/overlay/hosttransfer"
	"peerd/overlay/lease"
	"peerd/overlay/mirror"
	"peerd/overlay/nearest"
	"peerd/overlay/optout"
	"peerd/overlay/outbox"
	"peerd/overlay/owner"
	"peerd/overlay/ownermap"
	"peerd/overlay/peers"
	"peerd/overlay/replica"
	"peerd/overlay/search"
	"peerd/overlay/trace"
	"peerd/overlay/witness"
	"peerd/store"
	"peerd/store/index"
	"peerd/store/warc"
)

// Node is one peer. New builds it. Run runs it once and closes it.
type Node struct {
	opts    Options
	log     *slog.Logger
	started time.Time

	db            *store.DB
	key           crypto.PrivKey // the identity
	net           *overlay.Net
	door          *admission.Door
	judge         *lease.Judge
	acquainted    map[peer.ID]bool // met in earlier runs
	leases        *lease.Registry
	homes         *home.Registry
	peers         *peers.Service
	guard         *fetch.Guard
	deny          *deny.List
	names         *resolve.Cache
	nameClient    *resolve.Client // nil in an emulation
	fetcher       *fetch.Fetcher
	webConns      *webConns
	scope         *scope.Scope
	manager       *owner.Manager
	replicas      *replica.Service
	witness       *witness.Service // nil with Options.Alone
	peersReady    atomic.Bool      // peers is set
	frontier      *frontier.Frontier
	crawler       *crawl.Crawler
	network       *network.Monitor
	outbox        *outbox.Forwarder
	estimate      *estimate.Service
	nearest       *nearest.Service
	receiver      *handover.Receiver
	hostTransfer  *hosttransfer.Service
	ownerMap      *ownermap.Map
	optOuts       *optout.Service
	sitePage      *sitepage.Server // nil: none
	traits        *traits
	archive       *warc.Archive      // nil: none
	replay        *httpserver.Server // of archived pages; nil: none
	search        *search.Service
	trace         *trace.Service
	index         *index.Index  // nil: none
	recent        *local.Recent // nil: none
	keeper        *mirror.Keeper
	copies        *local.Copies  // of the archives of others; nil: none
	mirrors       *mirror.Sender // of this archive; nil: none
	feed          *feed.Server
	plugins       plugins
	quota         *quota.Quota
	traffic       *traffic.Limiter
	geoDB         *geo.DB    // nil: none
	registryTable *rir.Table // nil: the strategy does not need it

	registries []registry.Info // the files in the home
	disk       spaceCache
	api        *admin.Server
	registry   *metrics.Registry
	metrics    *metrics.Set   // nil without an admin API
	journal    *journal       // nil without an admin API
	spans      *otlp.Exporter // nil: no collector is configured
	events     *events.Log    // nil: none

	pause       *pause
	inbound     atomic.Bool                  // another machine has connected to this peer
	crawlConf   atomic.Pointer[config.Crawl] // with the limits that Reload changes
	trafficConf atomic.Pointer[config.Traffic]
	reloading   sync.Mutex    // held by Reload
	fileConf    config.Config // config.toml at the start, with what was reloaded

	parts    []func(context.Context) error // what the settings have Run run
	onClose  func() error                  // called after all work, before the store closes
	stopOnce sync.Once
	stop     chan struct{}
	leaving  *leaveState // see drain.go
}

// New builds a peer on its home. If it fails, it closes what it opened.
func New(o Options) (n *Node, err error) {
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	n = &Node{opts: o, log: o.Logger, started: time.Now(), stop: make(chan struct{}),
		leaving: newLeaveState(), registry: metrics.NewRegistry()}
	if o.hasAPI() {
		n.journal = newJournal()
		n.parts = append(n.parts, n.runJournal)
		if !o.sharesMachine() {
			n.journal.file = o.Home.JournalFile()
			if err := n.journal.load(n.journal.file, n.started); err != nil {
				n.log.Warn("failed to read the moves before this start", "err", err)
			}
		}
		n.log = slog.New(observingHandler{j: n.journal, next: o.Logger.Handler()})
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, n.Close())
			n = nil
		}
	}()
	for _, step := range []func() error{
		n.openSettings, n.openData, n.openStore, n.openEvents, n.openPause, n.openTraffic,
		n.openArchive, n.openNet, n.openSpans,
		n.openRegistries, n.openWeb,
		n.openNetwork, n.openFailover, n.openOwnership, n.openCrawler, n.openPeers, n.openOwnerMap,
		n.openOptOutGossip,
		n.openSearch, n.openMirrors, n.openTrace, n.openFeed, n.openPlugins,
		n.openLocalSites, n.openReplay,
		n.openAPI,
		n.retryPlanned,
	} {
		if err := step(); err != nil {
			return n, err
		}
	}
	return n, nil
}

// Run runs the peer until ctx ends, Stop is called, StopDrained has handed everything over, or
// an essential part fails. Then it closes everything. No goroutine remains.
func (n *Node) Run(ctx context.Context) error {
	servers := []interface{ Close() }{
		n.estimate.Serve(), n.outbox.Serve(), n.nearest.Serve(), n.hostTransfer.Serve(),
		n.search.Serve(), n.trace.Serve(), n.feed.Serve(), n.keeper.Serve(),
		n.plugins.service.Serve(),
		n.receiver.Serve(n.monitoredHost(), n.net.Names.Handover(), n.log),
		n.door.Serve(),
	}
	work, stopWork := context.WithCancel(ctx)
	defer stopWork()
	// stopped last, because clients see the end of the peer by it
	api, stopAPI := context.WithCancel(context.WithoutCancel(ctx))
	defer stopAPI()

	g, gctx := errgroup.WithContext(work)
	g.Go(func() error {
		select {
		case <-gctx.Done():
		case <-n.stop:
		case <-n.crawler.LimitReached():
		case <-n.leaving.starting.Done():
			n.runDrain(gctx)
		}
		n.leaving.finish()
		stopWork()
		return nil
	})
	runs := []func(context.Context) error{
		n.db.Run, n.net.Run, n.network.Run, n.peers.Run, n.ownerMap.Run, n.traits.Run,
		n.manager.Run, n.outbox.Run, n.crawler.Run, n.enqueueSeeds, n.runNAT64,
		n.runTraffic, n.optOuts.Run, n.keeper.Run, n.replicas.Run,
	}
	runs = append(runs, n.parts...)
	if !n.opts.Alone {
		runs = append(runs, n.witness.Run, n.refetchLost)
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
		n.log.Warn(
			"no contact URL is set, so owners of web sites cannot contact you; " +
				"set contact in config.toml")
	}
	n.log.Info("peer started", "peer", n.net.Self(),
		"network", n.opts.Profile.NetworkID(), "addrs", n.Addrs())
	err := g.Wait()
	n.finishIndex()
	for _, s := range servers {
		s.Close()
	}
	err = errors.Join(err, n.close())
	stopAPI()
	apiDone.Wait()
	return errors.Join(err, apiErr)
}

// Close closes a Node that was not run. Run closes the Node itself.
func (n *Node) Close() error {
	if n.api != nil {
		return errors.Join(n.api.Close(), n.close())
	}
	return n.close()
}

// gap is the minimum time between two requests to a server.
func (n *Node) gap() time.Duration {
	return max(n.opts.Config.Crawl.MinDelay.Duration, n.opts.Profile.Politeness.MinDelay.Duration)
}

// worker is the peers.Worker of a Node.
type worker struct{ n *Node }

// Load returns how long a new URL would wait here for a worker, and the capacity of this peer
// relative to others.
func (w worker) Load() (wait time.Duration, capacity float64) {
	return w.n.frontier.WorkerWait(), w.n.manager.Capacity()
}

// Stop requests a clean stop and returns at once.
func (n *Node) Stop() { n.stopOnce.Do(func() { close(n.stop) }) }

// ID returns the peer ID.
func (n *Node) ID() peer.ID { return n.net.Self() }

// Addrs returns the multiaddrs by which other peers can join this one.
func (n *Node) Addrs() []string {
	var all []string
	for _, a := range n.net.Host.Addrs() {
		all = append(all, a.String()+"/p2p/"+n.net.Self().String())
	}
	return all
}

// unlessFull returns err unless the disk is full, which it logs.
func (n *Node) unlessFull(err error) error {
	if store.IsNoSpace(err) || errors.Is(err, warc.ErrNoSpace) {
		n.log.Warn("closed without saving everything: no space left", "err", err)
		return nil
	}
	return err
}

// close closes what New opened, top-down.
func (n *Node) close() error {
	var errs []error
	if n.api != nil {
		n.api.Drain() // its requests read everything below
	}
	if n.fetcher != nil {
		n.fetcher.Close()
	}
	if n.nameClient != nil {
		n.nameClient.Close()
	}
	if n.net != nil {
		errs = append(errs, n.net.Close())
	}
	if n.traffic != nil {
		errs = append(errs, n.unlessFull(n.traffic.Close())) // the stored count is higher
	}
	if n.onClose != nil {
		errs = append(errs, n.onClose())
	}
	if n.index != nil {
		errs = append(errs, n.index.Close())
	}
	if n.copies != nil {
		errs = append(errs, n.copies.Close())
	}
	if n.replay != nil {
		n.replay.Close() // fails if it has run
	}
	if n.sitePage != nil {
		n.sitePage.Close() // fails if it has run
	}
	if n.archive != nil {
		errs = append(errs, n.unlessFull(n.archive.Close())) // the next Open repairs it
	}
	if n.geoDB != nil {
		errs = append(errs, n.geoDB.Close())
	}
	if n.db != nil {
		if err := n.db.Close(); err != nil {
			errs = append(errs, fmt.Errorf("close store: %w", err))
		}
	}
	if n.events != nil {
		errs = append(errs, n.events.Close())
	}
	return errors.Join(errs...)
}
