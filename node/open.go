package node

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"time"

	record "github.com/libp2p/go-libp2p-record"
	"github.com/libp2p/go-libp2p/core/peer"

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
	"peerd/internal/bounded"
	"peerd/node/admin"
	"peerd/node/config"
	"peerd/node/dashboard"
	local "peerd/node/search"
	"peerd/node/traffic"
	"peerd/overlay"
	"peerd/overlay/estimate"
	"peerd/overlay/handover"
	"peerd/overlay/home"
	"peerd/overlay/hostmove"
	"peerd/overlay/hosttransfer"
	"peerd/overlay/lease"
	"peerd/overlay/nearest"
	"peerd/overlay/outbox"
	"peerd/overlay/owner"
	"peerd/overlay/peers"
	"peerd/overlay/wire"
	"peerd/store"
	"peerd/store/warc"
)

// The steps of New, bottom-up.

func (n *Node) openStore() (err error) {
	so := store.Options{Logger: n.log}
	if n.opts.sharesMachine() {
		so.MemTable, so.IndexCache = 8<<20, 4<<20
	}
	if n.opts.Emulation != nil {
		so.Disk = n.opts.Emulation.Disk
	}
	if n.db, err = store.Open(n.opts.Home.StoreDir(), so); errors.Is(err, store.ErrLocked) {
		return fmt.Errorf("%w; stop the peer or the crawl that runs with this home first", err)
	} else if err != nil {
		return err
	}
	return bindNetwork(n.db, n.opts.Profile.NetworkID())
}

func (n *Node) openArchive() (err error) {
	if !n.opts.Config.Archive.Enabled {
		return nil
	}
	a := n.opts.Config.Archive
	free := cmp.Or(int64(n.opts.Config.Crawl.MinFree), -1) // -1: no bound
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

func (n *Node) openNet() (err error) {
	if n.key, err = n.opts.Home.Key(); err != nil {
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
	n.acquainted = map[peer.ID]bool{}
	for _, p := range known {
		n.acquainted[p.ID] = true
	}
	n.judge = lease.NewJudge(n.opts.clock(), contacts{n})
	c := overlay.DefaultConfig()
	c.Key, c.Network, c.Listen = n.key, n.opts.Profile.NetworkID(), n.opts.Config.Listen
	c.Announce = n.opts.Config.Announce
	c.Bootstrap, c.Known, c.MDNS = boot, known, n.opts.Config.MDNS
	c.NAT = n.opts.Config.NAT && n.usesInternet()
	c.Relay = n.opts.Config.Relay
	if n.opts.Config.Libp2pMetrics && n.opts.hasAPI() && !n.opts.sharesMachine() {
		c.Metrics = n.registry
	}
	c.Limiter, c.NoQUIC = peerTraffic{n.traffic}, n.opts.Config.Traffic.Limits().Limited()
	c.Datastore = recordStore{n.db}
	c.UserAgent = "peerd/" + config.Version
	c.Validators = map[string]record.Validator{
		overlay.LeaseNamespace: lease.Validator{Network: c.Network, Clock: n.opts.clock(),
			Judge: n.judge},
		overlay.HomeNamespace: home.Validator{Network: c.Network, Clock: n.opts.clock()},
	}
	c.Logger = n.log
	if n.opts.Alone {
		c.Listen, c.Bootstrap, c.Known, c.MDNS = nil, nil, nil, false
	}
	if n.opts.Emulation != nil {
		c.TCPDialer, c.TransportOptions = n.opts.Emulation.DialPeer, n.opts.Emulation.Transport
	}
	if memory := int(n.opts.Config.Memory); memory > 0 && !n.opts.sharesMachine() {
		wire.LimitMemory(memory / messagePart)
	}
	if err := n.setAdmission(&c); err != nil {
		return err
	}
	if n.net, err = overlay.New(c); err != nil {
		return err
	}
	n.watchInbound()
	n.door, err = n.newDoor(c)
	return err
}

func (n *Node) openRegistries() (err error) {
	oc := n.opts.Config.Overlay
	lc := lease.DefaultConfig()
	lc.Network, lc.Judge = n.net.Names.Network(), n.judge
	lc.Self, lc.Key, lc.Values, lc.Logger = n.net.Self(), n.key, n.net.Values(), n.log
	lc.Clock, lc.Holders = n.opts.clock(), n.net.Values()
	lc.TTL, lc.Settle = oc.LeaseTTL.Duration, oc.Settle.Duration
	hc := home.DefaultConfig()
	hc.Network = n.net.Names.Network()
	hc.Self, hc.Key, hc.Values, hc.Logger = n.net.Self(), n.key, n.net.Values(), n.log
	hc.Clock = n.opts.clock()
	hc.Settle = oc.Settle.Duration
	if n.opts.Alone {
		lc.Settle, hc.Settle = 0, 0 // no other peer can claim at the same time
	}
	if n.leases, err = lease.NewRegistry(lc); err != nil {
		return err
	}
	n.homes, err = home.NewRegistry(hc)
	return err
}

func (n *Node) openWeb() (err error) {
	if err := n.openNames(); err != nil {
		return err
	}
	n.openGuard()
	fc, err := n.fetchConfig()
	if err != nil {
		return err
	}
	if fc.Dial == nil {
		fc.Dial = traffic.Dialer{Limiter: n.traffic, Class: traffic.Crawl}.DialContext
	}
	n.webConns = newWebConns(fc.Dial, func(a netip.AddrPort) { n.network.Connected(a) },
		func() bool { return n.manager.Woke(time.Now()) })
	fc.Dial = n.webConns.DialContext
	if n.fetcher, err = fetch.New(fc); err != nil {
		return err
	}
	n.scope, err = compileScope(n.opts.Profile)
	return err
}

// openNames builds the resolver.
func (n *Node) openNames() error {
	conf := n.opts.Config.Crawl
	rc := resolve.Config{Overrides: conf.Resolve}
	if n.opts.Alone {
		rc.NegativeTTL = n.opts.scaled(negativeTTLAlone)
	}
	if err := rc.Validate(); err != nil {
		return err
	}
	if n.opts.Emulation != nil && n.opts.Emulation.Lookup != nil {
		rc.Lookup = resolve.WithoutTTL(n.opts.Emulation.Lookup)
	} else {
		servers, err := resolve.ParseServers(conf.Resolver)
		if err != nil {
			return err
		}
		n.nameClient = resolve.NewClient(resolve.ClientConfig{Servers: servers, Rate: conf.DNSRate,
			Dial: n.dialControl})
		rc.Lookup = n.nameClient.Lookup
	}
	n.names = resolve.New(rc)
	return nil
}

// negativeTTLAlone is how long a one-shot crawl, which has little patience, believes that a host
// does not exist.
const negativeTTLAlone = 10 * time.Second

func (n *Node) openOwnership() error {
	n.estimate = &estimate.Service{
		Host: n.monitoredHost(), Protocol: n.net.Names.Estimate(), Leases: n.leases,
		Fetcher: remoteFetches{urlChecker{n}}, Timeout: remoteFetchTimeout, Logger: n.log,
		Peers: n.directory(),
	}
	n.hostTransfer = &hosttransfer.Service{
		Host: n.monitoredHost(), Protocol: n.net.Names.HostTransfer(),
		DB: n.db, URLs: urlChecker{n}, Logger: n.log,
	}
	oc, err := n.ownerConfig()
	if err != nil {
		return err
	}
	if n.manager, err = owner.New(oc); err != nil {
		return err
	}
	n.leaving.drain = n.manager.Drain
	n.replicas.SetPolicy(n.manager.CopyPolicy())
	n.receiver = &handover.Receiver{
		DB: n.db, Successor: n.manager.Successor(), Copies: n.replicas,
	}
	n.hostTransfer.Receiver = n.manager.HostReceiver()
	if err := n.hostTransfer.Sweep(); store.IsNoSpace(err) {
		n.log.Warn("kept the remains of unfinished host transfers: the disk is full", "err", err)
	} else if err != nil {
		return err
	}
	return nil
}

func (n *Node) ownerConfig() (owner.Config, error) {
	strategy, err := n.newStrategy()
	if err != nil {
		return owner.Config{}, err
	}
	if e := n.opts.Emulation; e != nil && e.Strategy != nil {
		strategy = e.Strategy
	}
	overlayConf := n.opts.Config.Overlay
	strategy = n.observeStrategy(strategy)
	oc := owner.Config{
		Self: n.net.Self(), Key: n.key, DB: n.db, Leases: n.leases, Homes: n.homes,
		Sender: &handover.Sender{
			Host: n.monitoredHost(), Protocol: n.net.Names.Handover(),
			DB: n.db, Followers: n.replicas,
		},
		Outbox: ownerNode{n},
		PlacementConfig: owner.PlacementConfig{
			Directory: n.directory(), Strategy: strategy,
			OwnerMap: ownerNode{n}, Estimate: n.estimate,
			Seek: n.findNearest, Adapt: n.reviewConfig(),
			DecideIdle: max(2*overlayConf.BatchMaxAge.Duration, n.opts.scaled(5*time.Second)),
		},
		HostConfig: owner.HostConfig{
			Resolve:      resolver(n.lookup(n.names.Addrs)),
			ResolveFresh: resolver(n.lookup(n.names.Refresh)),
			Guard:        n.guard, Reacher: ownerNode{n}, Confirm: newConfirmer(n),
			HostMoves: n.hostMovePace(), Transferrer: n.hostTransfer,
		},
		FailoverConfig: owner.FailoverConfig{Contacts: ownerNode{n}, Replicas: n.replicas,
			Times: owner.DefaultTimes()},
		Limiter:  ownerNode{n},
		LeaseTTL: overlayConf.LeaseTTL.Duration,
		Tick:     n.opts.scaled(500 * time.Millisecond),
		Cooldown: n.gap() + takeoverCooldown,
		Gap:      n.gap(),
		Logger:   n.log,
	}
	if n.registryTable != nil {
		oc.Holders = registryHolders{n.registryTable}
	}
	if n.spans != nil {
		oc.Sender = spanSender{oc.Sender, n}
		oc.Estimate = spanEstimator{oc.Estimate, n}
	}
	if !n.opts.Alone {
		oc.Witness = n.witness
		oc.ReplicaCount = overlayConf.Replicas
	}
	return oc, nil
}

// hostMovePace returns when a host moves that has left its home subnet. An emulation
// shortens these times.
func (n *Node) hostMovePace() hostmove.Pace {
	p := hostmove.Pace{
		Every: n.opts.scaled(time.Hour), Span: n.opts.scaled(10 * time.Minute),
		Unreachable: n.opts.scaled(30 * time.Second),
	}
	if n.opts.Alone { // the operator waits
		p.Unreachable = 3 * time.Second
	}
	return p
}

// takeoverCooldown is the time, in addition to the politeness gap, in which no request is
// sent to the servers of a subnet after its takeover. Most requests that the old owner sent
// before it lost its quorum lease have ended by then.
const takeoverCooldown = 5 * time.Second

// reviewConfig returns how the assignments of subnets are reviewed; nil: they are not.
func (n *Node) reviewConfig() *assign.ReviewConfig {
	if !n.opts.Config.Adapt || n.opts.Alone {
		return nil
	}
	c := assign.DefaultReviewConfig()
	return &c
}

func (n *Node) openPeers() (err error) {
	ec := coords.DefaultConfig()
	ec.Rand = rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64()))
	estimator := coords.NewEstimator(ec)
	pc := peers.DefaultConfig()
	pc.Host, pc.Key = n.net.Host, n.key
	pc.Topic, pc.Protocol = n.net.Names.Beacons(), n.net.Names.Coords()
	pc.HeartbeatProtocol = n.net.Names.Heartbeat()
	if n.witness != nil {
		pc.Answerer = n.witness
	}
	pc.Estimator, pc.Worker, pc.Version = estimator, worker{n}, config.Version
	pc.Clock = n.opts.clock()
	pc.Saver, pc.Logger = peerSaver{n.db}, n.log
	// A peer that is killed soon after it met the first others must find them again.
	// Otherwise it would start a network of its own.
	pc.SaveEvery = time.Second
	if n.peers, err = peers.New(pc); err != nil {
		return err
	}
	if n.events != nil {
		n.peers.OnExchange(n.addExchange)
	}
	n.peersReady.Store(true)
	n.nearest = &nearest.Service{
		Host: n.monitoredHost(), Protocol: n.net.Names.Nearest(), Peers: n.peers,
		Search: zone.DefaultSearchConfig(), Timeout: n.opts.scaled(nearestTimeout), Logger: n.log,
	}
	return nil
}

const remoteFetchTimeout = 20 * time.Second

// How long a host is left alone after a failure at most. A one-shot crawl ends soon after the last
// URL.
const (
	maxBackOff       = time.Hour
	maxBackOffAlone  = 30 * time.Second
	maxThrottle      = 24 * time.Hour
	maxThrottleAlone = time.Minute
)

// The time over which three answers that there is no such host must be spread before its URLs are
// given up.
const (
	notFoundSpan      = 6 * time.Hour
	notFoundSpanAlone = 2 * time.Minute
)

// A URL of a host that answers is tried maxTries times, in about five days unless the crawl is a
// one-shot crawl.
const (
	maxTries = 10
	tryDelay = time.Hour
)

// maxPendingURLs is the number of pending URLs, at about 200 bytes each, at which this
// peer stops fetching pages, which would add more.
const maxPendingURLs = 10_000_000

const (
	// maxPauseFactor bounds a pause between requests, in multiples of the minimum delay.
	maxPauseFactor = 10
	// minBackOff is the shortest back-off of a URL, also in an emulation. In that time the
	// host is looked up, and held back if it has left its home subnet.
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
	if n.quota, err = quota.New(quotaConfig(conf, n.untilOpen, n.db), time.Now()); err != nil {
		return err
	}
	shares := conf.Shares
	n.frontier, err = frontier.New(frontier.Config{
		DB: n.db, Gap: gap, HostLimit: rules.Limits.MaxPagesPerHost, Node: frontierNode{gate, n},
		AddrRequests:    conf.AddressRequests,
		NetworkRequests: conf.NetworkRequests, NetworkRate: conf.NetworkRate,
		Shares:      frontier.Shares{Own: shares.Own, Assigned: shares.Assigned},
		VisitLength: visitLength, MaxVisits: maxVisits(n.fetcher.MaxIdle()),
	}, n.manager.Live)
	if err != nil {
		return err
	}
	n.manager.Attach(n.frontier)
	n.estimate.MayFetch = n.manager.MayFetch
	paces, err := pace.New(pace.Config{
		Factor: rules.Politeness.DelayFactor, Max: maxPauseFactor * gap,
	})
	if err != nil {
		return err
	}
	cc, err := n.crawlConfig(gate, paces)
	if err != nil {
		return err
	}
	if n.crawler, err = crawl.New(cc); err != nil {
		return err
	}
	return n.openOutbox()
}

func (n *Node) crawlConfig(gate *crawl.Gate, paces *pace.Pacer) (crawl.Config, error) {
	conf, rules := n.opts.Config.Crawl, n.opts.Profile
	cc := crawl.Config{
		DB: n.db, Frontier: n.frontier, Fetcher: n.fetcher, Scope: n.scope,
		Delegate:     delegate{n, n.manager.Placement()},
		Agent:        robotsAgent,
		Workers:      conf.FetchWorkers,
		MaxTries:     maxTries,
		TryDelay:     tryDelay,
		BackOff:      max(n.opts.scaled(2*time.Second), minBackOff),
		Gap:          n.gap(),
		Pace:         paces,
		MaxBackOff:   max(n.opts.scaled(maxBackOff), minBackOff),
		MaxThrottle:  max(n.opts.scaled(maxThrottle), minBackOff),
		Patience:     conf.Patience.Duration,
		Network:      n.network,
		FetchTimeout: conf.Timeout.Duration,
		CheckReports: n.checkReports(),

		MaxRequestsPerHostDay: rules.Politeness.HostDay,
		RemoteTimeout:         min(remoteFetchTimeout, conf.Timeout.Duration),

		MaxPages: n.opts.MaxPages, Rules: crawlRules(rules), Gate: gate, Archive: n.archive,
		Quota: n.quota, StopWhenFull: n.opts.Alone, Logger: n.log,
	}
	var err error
	if cc.Crawllet, err = n.crawllet(); err != nil {
		return cc, err
	}
	if n.opts.indexes() {
		n.recent = local.NewRecent()
		cc.MaxText = local.MaxText
	}
	s := conf.Shares
	remote := s.Estimations / (s.Own + s.Assigned + s.Estimations)
	cc.RemoteWorkers = max(minRemoteFetches, int(float64(cc.Workers)*remote))
	if n.opts.Alone {
		cc.MaxBackOff = max(n.opts.scaled(maxBackOffAlone), cc.BackOff)
		cc.MaxThrottle = max(n.opts.scaled(maxThrottleAlone), cc.BackOff)
		cc.TryDelay = 0
	}
	if r := rules.Revisit; r.Enabled && !n.opts.Alone {
		p := revisit.DefaultPolicy()
		p.Min, p.Max, p.Initial = r.Min.Duration, r.Max.Duration, r.Initial.Duration
		if err := p.Validate(); err != nil {
			return cc, err
		}
		cc.Revisit = &p
	}
	return cc, nil
}

// maxCrawllet is the maximum size of a crawllet in bytes.
const maxCrawllet = 64 << 20

// crawllet returns the crawllet of the settings; nil without one.
func (n *Node) crawllet() (*crawl.Crawllet, error) {
	name := n.opts.Config.Crawl.Crawllet
	if name == "" {
		return nil, nil
	}
	module, err := bounded.ReadFile(n.opts.Home.Path(name), maxCrawllet)
	if err != nil {
		return nil, fmt.Errorf("read crawl.crawllet: %w", err)
	}
	raw, err := n.key.Raw()
	return &crawl.Crawllet{Module: module, Key: raw, Agent: n.opts.UserAgent}, err
}

// checkReports returns the share of reports that are checked. Members that were admitted answer for
// what they report.
func (n *Node) checkReports() float64 {
	if !n.opts.Profile.AdmissionOpen() {
		return 0
	}
	return n.opts.Config.Crawl.CheckReports
}

func (n *Node) openOutbox() (err error) {
	oc := n.opts.Config.Overlay
	patience := n.opts.Config.Crawl.Patience.Duration
	maxRetry, span := maxBackOff, n.opts.scaled(notFoundSpan)
	if n.opts.Alone {
		maxRetry, span = maxBackOffAlone, n.opts.scaled(notFoundSpanAlone)
	}
	span = min(span, patience)
	n.outbox, err = outbox.New(outbox.Config{
		DB: n.db, Host: n.monitoredHost(), Protocol: n.net.Names.Batch(),
		Resolver: n.manager.Resolver(),
		Node:     outboxNode{n.crawler, n.network, n.manager, urlChecker{n}},
		MaxURLs:  oc.BatchMaxURLs, MaxAge: oc.BatchMaxAge.Duration,
		UnclaimedURLs: oc.UnclaimedURLs, UnclaimedAge: oc.UnclaimedAge.Duration,
		MaxPending: maxPendingURLs, Retry: n.opts.scaled(time.Second),
		MaxRetry:     n.opts.scaled(30 * time.Second),
		NamePatience: patience, MaxNameRetry: maxRetry, NotFoundSpan: span,
		Logger: n.log,
	})
	return err
}

func (n *Node) openAPI() (err error) {
	if !n.opts.hasAPI() {
		return nil
	}
	n.metrics = n.newMetrics()
	n.api, err = admin.Listen(admin.Config{
		Addr: n.opts.Config.API, File: n.opts.Home.APIFile(),
		ReadTokenFile: n.opts.Home.ReadTokenFile(), Node: n, Metrics: n.metrics.Handler(),
		Dashboard: dashboard.Handler(), Pprof: n.opts.Config.Pprof, Logger: n.log,
	})
	return err
}
