package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	record "github.com/libp2p/go-libp2p-record"
	"github.com/libp2p/go-libp2p/core/peer"
	"golang.org/x/sync/errgroup"

	"peerd/coords"
	"peerd/crawl"
	"peerd/crawl/fetch"
	"peerd/crawl/frontier"
	"peerd/crawl/pace"
	"peerd/crawl/resolve"
	"peerd/crawl/revisit"
	"peerd/crawl/scope"
	"peerd/crawl/trap"
	"peerd/node/admin"
	"peerd/node/config"
	"peerd/overlay"
	"peerd/overlay/estimate"
	"peerd/overlay/forward"
	"peerd/overlay/handover"
	"peerd/overlay/home"
	"peerd/overlay/lease"
	"peerd/overlay/owner"
	"peerd/overlay/peers"
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
	frontier  *frontier.Frontier
	crawler   *crawl.Crawler
	forwarder *forward.Forwarder
	estimate  *estimate.Service
	receiver  *handover.Receiver
	archive   *warc.Archive // nil: none
	disk      diskWatch
	api       *admin.Server

	onClose  func() error // called before the store closes, when all work has ended
	stopOnce sync.Once
	stop     chan struct{}
}

// New builds a peer on its home. What it opened is closed again when it fails.
func New(o Options) (n *Node, err error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	n = &Node{opts: o, log: o.Logger, started: time.Now(), stop: make(chan struct{})}
	defer func() {
		if err != nil {
			err = errors.Join(err, n.close())
			n = nil
		}
	}()
	for _, step := range []func() error{
		n.openStore, n.openArchive, n.openNet, n.openRegistries, n.openWeb, n.openOwnership, n.openCrawler, n.openPeers, n.openAPI,
	} {
		if err := step(); err != nil {
			return n, err
		}
	}
	return n, nil
}

func (n *Node) openStore() (err error) {
	so := store.Options{Logger: n.log}
	if n.opts.Emulation != nil { // many peers share one process
		so.MemTable, so.BlockCache, so.IndexCache = 8<<20, 8<<20, 4<<20
	}
	if n.db, err = store.Open(n.opts.Home.StoreDir(), so); err != nil {
		return err
	}
	return belong(n.db, n.opts.Profile.NetworkID())
}

func (n *Node) openArchive() (err error) {
	if !n.opts.Config.Archive.Enabled {
		return nil
	}
	a, free := n.opts.Config.Archive, int64(n.opts.Config.Crawl.MinFree)
	if free == 0 {
		free = -1 // no bound, in the archive's words
	}
	n.archive, err = warc.Open(n.opts.Home.ArchiveDir(), warc.Options{
		MaxFile: int64(a.MaxFile), Quota: int64(a.Quota), MinFree: free,
		Info: []warc.Field{
			{Name: "software", Value: "peerd/" + config.Version},
			{Name: "robots", Value: "obey"},
			{Name: "http-header-user-agent", Value: n.opts.UserAgent},
		},
		Logger: n.log,
	})
	return err
}

func (n *Node) openNet() error {
	key, err := n.opts.Home.Key()
	if err != nil {
		return err
	}
	boot, err := config.BootstrapPeers(n.opts.Config, n.opts.Profile)
	if err != nil {
		return err
	}
	known, err := savedPeers(n.db)
	if err != nil {
		return err
	}
	c := overlay.DefaultConfig()
	c.Key, c.Network, c.Listen = key, n.opts.Profile.NetworkID(), n.opts.Config.Listen
	c.Bootstrap, c.Known, c.MDNS = boot, known, n.opts.Config.MDNS
	c.Datastore = recordStore{n.db}
	c.UserAgent = "peerd/" + config.Version
	c.Validators = map[string]record.Validator{
		overlay.LeaseNamespace: lease.Validator{},
		overlay.HomeNamespace:  home.Validator{},
	}
	c.Logger = n.log
	if n.opts.Alone {
		c.Listen, c.Bootstrap, c.Known = nil, nil, nil
	}
	if n.opts.Emulation != nil {
		c.TCPDialer = n.opts.Emulation.DialPeer
	}
	n.net, err = overlay.New(c)
	return err
}

func (n *Node) openRegistries() error {
	key, err := n.opts.Home.Key()
	if err != nil {
		return err
	}
	oc := n.opts.Config.Overlay
	lc := lease.DefaultConfig()
	lc.Self, lc.Key, lc.Values, lc.Logger = n.net.Self(), key, n.net.Values(), n.log
	lc.TTL, lc.Settle = oc.LeaseTTL.Duration, oc.Settle.Duration
	hc := home.DefaultConfig()
	hc.Self, hc.Key, hc.Values, hc.Logger = n.net.Self(), key, n.net.Values(), n.log
	hc.Settle = oc.Settle.Duration
	if n.opts.Alone {
		lc.Settle, hc.Settle = 0, 0 // there is nobody whose claim could cross ours
	}
	if n.leases, err = lease.NewRegistry(lc); err != nil {
		return err
	}
	n.homes, err = home.NewRegistry(hc)
	return err
}

func (n *Node) openWeb() (err error) {
	n.guard = fetch.NewGuard(n.opts.Config.Crawl.AllowNet)
	fc := fetch.DefaultConfig()
	fc.UserAgent, fc.Guard, fc.MaxBody = n.opts.UserAgent, n.guard, n.opts.Profile.Limits.MaxBodyBytes
	fc.Proxy, fc.TotalTimeout = n.opts.Config.Crawl.Proxy, n.opts.Config.Crawl.Timeout.Duration
	fc.HTTP1Only, fc.AcceptInvalidTLS = n.opts.Config.Crawl.HTTP1Only, n.opts.Config.Crawl.AcceptInvalidTLS
	fc.HeadTimeout, fc.ConnectTimeout = min(fc.HeadTimeout, fc.TotalTimeout), min(fc.ConnectTimeout, fc.TotalTimeout)
	if n.opts.Emulation != nil {
		fc.Dial = n.opts.Emulation.DialWeb
	}
	if n.fetcher, err = fetch.New(fc); err != nil {
		return err
	}
	n.scope, err = compileScope(n.opts.Profile)
	return err
}

func (n *Node) openOwnership() error {
	key, err := n.opts.Home.Key()
	if err != nil {
		return err
	}
	strategy, err := newStrategy(n.opts.Config.Strategy, n.net.Self())
	if err != nil {
		return err
	}
	rc := resolve.Config{Overrides: n.opts.Config.Crawl.Resolve}
	if n.opts.Emulation != nil {
		rc.Lookup = n.opts.Emulation.Lookup
	}
	if err := rc.Validate(); err != nil {
		return err
	}
	n.names = resolve.New(rc)
	n.estimate = &estimate.Service{
		Host: n.net.Host, Protocol: n.net.Names.Estimate(), Leases: n.leases, Check: n.check,
		Timeout: errandTimeout, Logger: n.log,
	}
	n.manager, err = owner.New(owner.Config{
		Self: n.net.Self(), Key: key, DB: n.db, Directory: directory{n}, Strategy: strategy,
		Leases: n.leases, Homes: n.homes, Estimate: n.estimate,
		Sender:     &handover.Sender{Host: n.net.Host, Protocol: n.net.Names.Handover(), DB: n.db},
		Resolve:    resolver(n.names),
		Allowed:    n.guard.Check,
		MayClaim:   n.mayClaim,
		Moved:      func(p prefix) { n.forwarder.Reconsider(p) },
		Route:      func(ps []store.Pending) error { return n.crawler.Route(ps) },
		LeaseTTL:   n.opts.Config.Overlay.LeaseTTL.Duration,
		DecideIdle: max(2*n.opts.Config.Overlay.BatchMaxAge.Duration, n.opts.pace(5*time.Second)),
		Tick:       n.opts.pace(500 * time.Millisecond),
		Logger:     n.log,
	})
	if err != nil {
		return err
	}
	n.receiver = &handover.Receiver{DB: n.db, Heir: n.manager, Check: n.check}
	return n.receiver.Sweep()
}

func (n *Node) openPeers() error {
	key, err := n.opts.Home.Key()
	if err != nil {
		return err
	}
	ec := coords.DefaultConfig()
	ec.Rand = rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64()))
	estimator, err := coords.NewEstimator(ec)
	if err != nil {
		return err
	}
	pc := peers.DefaultConfig()
	pc.Host, pc.PubSub, pc.Key = n.net.Host, n.net.PubSub, key
	pc.Topic, pc.Protocol = n.net.Names.Beacons(), n.net.Names.Coords()
	pc.Estimator, pc.Load, pc.Version = estimator, n.load, config.Version
	pc.Saver, pc.Logger = &peerSaver{db: n.db}, n.log
	// A peer that is killed soon after it met the first others must find them
	// again, or it would take itself for the network.
	pc.SaveEvery = time.Second
	n.peers, err = peers.New(pc)
	return err
}

// errandTimeout bounds a fetch at another peer's request.
const errandTimeout = 20 * time.Second

// maxRests is how often a host that answers nothing is put to rest before its
// URLs are given up: some hours, and minutes in a crawl that should end.
const (
	maxRests      = 12
	maxRestsAlone = 3
)

// longestPause is how many times the least delay a pause may be.
const longestPause = 10

func (n *Node) openCrawler() (err error) {
	conf, rules := n.opts.Config.Crawl, n.opts.Profile
	gap := max(conf.MinDelay.Duration, rules.Politeness.MinDelay.Duration)
	traps, err := rules.Traps.Config()
	if err != nil {
		return err
	}
	guard, err := trap.New(traps)
	if err != nil {
		return err
	}
	gate := crawl.NewGate(guard)
	shares := conf.Shares
	n.frontier, err = frontier.New(frontier.Config{
		DB: n.db, Gap: gap, HostLimit: rules.Limits.MaxPagesPerHost, Admit: gate.Admit,
		Shares: frontier.Shares{Own: shares.Own, Assigned: shares.Assigned},
		Open:   conf.Hours.Wait,
	}, n.manager.Live)
	if err != nil {
		return err
	}
	n.manager.Attach(n.frontier)
	paces, err := pace.New(pace.Config{Factor: rules.Politeness.DelayFactor, Max: longestPause * gap})
	if err != nil {
		return err
	}
	cc := crawl.Config{
		DB: n.db, Frontier: n.frontier, Fetcher: n.fetcher, Scope: n.scope, Delegate: delegate{n.manager},
		Deferred: func(byHost map[string]int) { n.forwarder.Deferred(byHost) },
		Sent:     func(u store.URL) bool { return n.forwarder.Sent(u) },
		Agent:    agent, Workers: conf.FetchWorkers, MaxTries: 3, BackOff: n.opts.pace(2 * time.Second),
		Gap: gap, Pace: paces, HostDay: rules.Politeness.HostDay, MaxRests: maxRests,
		FetchTimeout: conf.Timeout.Duration, ErrandTimeout: min(errandTimeout, conf.Timeout.Duration),
		MaxPages: n.opts.MaxPages, Rules: crawlRules(rules), Gate: gate, Archive: n.archive,
		Room: n.room, StopWhenFull: n.opts.Alone, Resolve: n.resolveOne, Logger: n.log,
	}
	cc.ErrandWorkers = max(leastErrands, int(float64(cc.Workers)*shares.Estimations/(shares.Own+shares.Assigned+shares.Estimations)))
	if n.opts.Alone {
		cc.MaxRests = maxRestsAlone
	}
	if r := rules.Revisit; r.Enabled && !n.opts.Alone {
		p := revisit.DefaultPolicy()
		p.Min, p.Max, p.Initial, p.Price = r.Min.Duration, r.Max.Duration, r.Initial.Duration, r.Price.Duration
		if err := p.Validate(); err != nil {
			return err
		}
		cc.Revisit = &p
	}
	if n.crawler, err = crawl.New(cc); err != nil {
		return err
	}
	n.estimate.Fetcher = errands{n}
	oc := n.opts.Config.Overlay
	n.forwarder, err = forward.New(forward.Config{
		DB: n.db, Host: n.net.Host, Protocol: n.net.Names.Batch(), Resolver: n.manager, Sink: sink{n}, Check: n.check,
		MaxURLs: oc.BatchMaxURLs, MaxAge: oc.BatchMaxAge.Duration,
		NurseryURLs: oc.NurseryURLs, NurseryAge: oc.NurseryAge.Duration,
		Retry: n.opts.pace(time.Second), MaxRetry: n.opts.pace(30 * time.Second), Logger: n.log,
	})
	return err
}

func (n *Node) openAPI() (err error) {
	if n.opts.Alone {
		return nil
	}
	n.api, err = admin.Listen(admin.Config{
		Addr: n.opts.Config.API, File: n.opts.Home.APIFile(), Node: n, Logger: n.log,
	})
	return err
}

// Run runs the peer until ctx ends, Stop is called, or something fails that it
// cannot go on without; then it closes everything. It leaves no goroutine.
func (n *Node) Run(ctx context.Context) error {
	servers := []interface{ Close() }{
		n.estimate.Serve(), n.forwarder.Serve(),
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
		}
		stopWork()
		return nil
	})
	for _, run := range []func(context.Context) error{
		n.db.Run, n.net.Run, n.peers.Run, n.manager.Run, n.forwarder.Run, n.crawler.Run, n.plantSeeds,
	} {
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

// load says how long a new URL would wait here for a worker, and how much this
// peer can take on compared to others.
func (n *Node) load() (wait time.Duration, capacity float64) {
	return n.frontier.Wait(), 1
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
