package node

import (
	"math/rand/v2"
	"time"

	record "github.com/libp2p/go-libp2p-record"

	"peerd/coords"
	"peerd/coords/assign"
	"peerd/coords/zone"
	"peerd/crawl"
	"peerd/crawl/fetch"
	"peerd/crawl/frontier"
	"peerd/crawl/pace"
	"peerd/crawl/quota"
	"peerd/crawl/resolve"
	"peerd/crawl/revisit"
	"peerd/crawl/trap"
	"peerd/node/admin"
	"peerd/node/config"
	"peerd/overlay"
	"peerd/overlay/carry"
	"peerd/overlay/estimate"
	"peerd/overlay/forward"
	"peerd/overlay/handover"
	"peerd/overlay/home"
	"peerd/overlay/homing"
	"peerd/overlay/lease"
	"peerd/overlay/nearest"
	"peerd/overlay/owner"
	"peerd/overlay/peers"
	"peerd/store"
	"peerd/store/warc"
)

// What New calls, bottom-up.

func (n *Node) openStore() (err error) {
	so := store.Options{Logger: n.log}
	if n.opts.Emulation != nil { // many peers share one process
		so.MemTable, so.BlockCache, so.IndexCache = 8<<20, 8<<20, 4<<20
		so.Disk = n.opts.Emulation.Disk
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
		overlay.LeaseNamespace: lease.Validator{Now: n.opts.clock(), Heard: n.heardShown},
		overlay.HomeNamespace:  home.Validator{Now: n.opts.clock()},
	}
	c.Logger = n.log
	if n.opts.Alone {
		c.Listen, c.Bootstrap, c.Known = nil, nil, nil
	}
	if n.opts.Emulation != nil {
		c.TCPDialer, c.Carrier = n.opts.Emulation.DialPeer, n.opts.Emulation.Carrier
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
	lc.Now = n.opts.clock()
	lc.TTL, lc.Settle = oc.LeaseTTL.Duration, oc.Settle.Duration
	hc := home.DefaultConfig()
	hc.Self, hc.Key, hc.Values, hc.Logger = n.net.Self(), key, n.net.Values(), n.log
	hc.Now = n.opts.clock()
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
	strategy, err := n.newStrategy()
	if err != nil {
		return err
	}
	if e := n.opts.Emulation; e != nil && e.Strategy != nil {
		strategy = e.Strategy
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
		Host: n.reaching(), Protocol: n.net.Names.Estimate(), Leases: n.leases, Check: n.check,
		Timeout: errandTimeout, Logger: n.log,
	}
	n.carrier = &carry.Service{Host: n.reaching(), Protocol: n.net.Names.Carry(), DB: n.db, Check: n.check, Logger: n.log}
	oc := owner.Config{
		Self: n.net.Self(), Key: key, DB: n.db, Directory: directory{n}, Strategy: strategy,
		Known:  func() assign.Known { return n.atlas.Known() },
		Leases: n.leases, Homes: n.homes, Estimate: n.estimate,
		Sender:     &handover.Sender{Host: n.reaching(), Protocol: n.net.Names.Handover(), DB: n.db, Shadows: n.shadows},
		Resolve:    resolver(n.names.Addrs),
		Look:       resolver(n.names.Fresh),
		Homing:     n.homing(),
		Carrier:    n.carrier,
		Seek:       n.seek,
		Allowed:    n.guard.Check,
		MayClaim:   func() error { return n.mayClaim(time.Now()) },
		Moved:      func(p prefix) { n.forwarder.Reconsider(p) },
		Deferred:   func(byHost map[string]int) { n.forwarder.Deferred(byHost) },
		Route:      func(ps []store.Pending) error { return n.crawler.Route(ps) },
		Adapt:      n.adapt(),
		LeaseTTL:   n.opts.Config.Overlay.LeaseTTL.Duration,
		DecideIdle: max(2*n.opts.Config.Overlay.BatchMaxAge.Duration, n.opts.pace(5*time.Second)),
		Tick:       n.opts.pace(500 * time.Millisecond),
		Heard:      n.heard, Room: n.room, Rest: n.gap() + takenRest,
		Gap: n.gap(), Limits: n.limits, Full: n.takesNothing,
		Logger: n.log,
	}
	if n.table != nil {
		oc.Holders = holders{n.table}
	}
	if !n.opts.Alone {
		oc.Witness, oc.Replicas, oc.Shadows = n.witness, n.shadows, n.opts.Config.Overlay.Shadows
	}
	if n.manager, err = owner.New(oc); err != nil {
		return err
	}
	if n.shadows != nil {
		n.shadows.Attach(n.manager)
	}
	n.receiver = &handover.Receiver{
		DB: n.db, Heir: n.manager, Copies: n.shadows,
		Deferred: func(byHost map[string]int) { n.forwarder.Deferred(byHost) },
	}
	n.carrier.Heir = n.manager.Hosts()
	if err := n.carrier.Sweep(); store.IsFull(err) {
		n.log.Warn("what is left of hosts that did not arrive stays: the disk is full", "err", err)
	} else if err != nil {
		return err
	}
	return nil
}

// homing says when a host whose addresses have left its home moves: sooner in an
// emulation, whose times are.
func (n *Node) homing() homing.Pace {
	return homing.Pace{Every: n.opts.pace(time.Hour), Span: n.opts.pace(10 * time.Minute)}
}

// takenRest is how long, besides the politeness gap, the servers of a subnet are
// left alone that was taken over: a request that the old owner had sent before
// it lost its right has mostly ended by then.
const takenRest = 5 * time.Second

// adapt says how decided subnets are watched; nil if they are not.
func (n *Node) adapt() *assign.WatchConfig {
	if !n.opts.Config.Adapt || n.opts.Alone {
		return nil
	}
	c := assign.DefaultWatch()
	return &c
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
	pc.Host, pc.Key = n.net.Host, key
	pc.Topic, pc.Protocol = n.net.Names.Beacons(), n.net.Names.Coords()
	pc.Estimator, pc.Load, pc.Version = estimator, n.load, config.Version
	pc.Now = n.opts.clock()
	pc.Saver, pc.Logger = &peerSaver{db: n.db}, n.log
	// A peer that is killed soon after it met the first others must find them
	// again, or it would take itself for the network.
	pc.SaveEvery = time.Second
	if n.peers, err = peers.New(pc); err != nil {
		return err
	}
	n.met.Store(true)
	n.nearest = &nearest.Service{
		Host: n.net.Host, Protocol: n.net.Names.Nearest(), Peers: n.peers,
		Search: zone.DefaultSearchConfig(), Timeout: n.opts.pace(nearestTimeout), Logger: n.log,
	}
	return nil
}

// errandTimeout bounds a fetch at another peer's request.
const errandTimeout = 20 * time.Second

// maxRests is how often a host that answers nothing is put to rest before its
// URLs are given up: some hours, and minutes in a crawl that should end.
const (
	maxRests      = 12
	maxRestsAlone = 3
)

// maxWaiting is how many URLs may wait for other owners, at some 200 bytes each,
// before this peer fetches no more pages that would find others.
const maxWaiting = 10_000_000

const (
	// longestPause is how many times the least delay a pause may be.
	longestPause = 10
	// minBackOff is the least wait for a URL that failed, at whatever pace: its host
	// is looked up meanwhile, and held if it has left.
	minBackOff = 100 * time.Millisecond
)

func (n *Node) openCrawler() (err error) {
	conf, rules, gap := n.opts.Config.Crawl, n.opts.Profile, n.gap()
	traps, err := rules.Traps.Config()
	if err != nil {
		return err
	}
	guard, err := trap.New(traps)
	if err != nil {
		return err
	}
	gate := crawl.NewGate(guard)
	if n.quota, err = quota.New(quotaOf(conf, n.db), time.Now()); err != nil {
		return err
	}
	shares := conf.Shares
	n.frontier, err = frontier.New(frontier.Config{
		DB: n.db, Gap: gap, HostLimit: rules.Limits.MaxPagesPerHost, Admit: gate.Admit,
		Shares: frontier.Shares{Own: shares.Own, Assigned: shares.Assigned},
		Open:   n.openIn,
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
		DB: n.db, Frontier: n.frontier, Fetcher: n.fetcher, Scope: n.scope, Delegate: delegate{n, n.manager},
		Deferred: func(byHost map[string]int) { n.forwarder.Deferred(byHost) },
		Sent:     func(u store.URL) bool { return n.forwarder.Sent(u) },
		Agent:    agent, Workers: conf.FetchWorkers, MaxTries: 3, BackOff: max(n.opts.pace(2*time.Second), minBackOff),
		Gap: gap, Pace: paces, HostDay: rules.Politeness.HostDay, MaxRests: maxRests,
		FetchTimeout: conf.Timeout.Duration, ErrandTimeout: min(errandTimeout, conf.Timeout.Duration),
		MaxPages: n.opts.MaxPages, Rules: crawlRules(rules), Gate: gate, Archive: n.archive,
		Doubt: n.manager.Doubt, Quota: n.quota,
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
	oc, safe := n.opts.Config.Overlay, n.manager.Safe
	if n.opts.Alone {
		safe = nil
	}
	n.forwarder, err = forward.New(forward.Config{
		DB: n.db, Host: n.reaching(), Protocol: n.net.Names.Batch(), Resolver: n.manager, Sink: sink{n}, Check: n.check, Safe: safe,
		MaxURLs: oc.BatchMaxURLs, MaxAge: oc.BatchMaxAge.Duration,
		NurseryURLs: oc.NurseryURLs, NurseryAge: oc.NurseryAge.Duration, MaxWaiting: maxWaiting,
		Retry: n.opts.pace(time.Second), MaxRetry: n.opts.pace(30 * time.Second), Logger: n.log,
	})
	return err
}

func (n *Node) openAPI() (err error) {
	if n.opts.Alone || n.opts.Emulation != nil && n.opts.Emulation.Carrier != nil {
		return nil
	}
	n.api, err = admin.Listen(admin.Config{
		Addr: n.opts.Config.API, File: n.opts.Home.APIFile(), Node: n, Logger: n.log,
	})
	return err
}
