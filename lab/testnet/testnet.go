package testnet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"peerd/coords/assign"
	"peerd/lab/emulate"
	"peerd/lab/emulate/wan"
	"peerd/lab/emulate/web"
	"peerd/node"
	"peerd/node/config"
)

// The limits of a testnet. A peer takes about 30 MB of memory and, with its connections
// to the others, some hundred file descriptors.
const (
	MaxPeers = 200
	MaxSites = 2000
	MaxPages = 1_000_000
)

// Options describe a testnet.
type Options struct {
	// Peers is 1 to MaxPeers, Sites 1 to MaxSites, Pages (of all sites together) Sites
	// to MaxPages.
	Peers, Sites, Pages int
	// Seed decides the places, the web and the peers' keys.
	Seed     uint64
	Strategy string
	// GeoError is the share of the sites' subnets, 0 to 1, that the database of places
	// locates wrongly (emulate.Layout.GeoDB). Only the strategy geo uses one.
	GeoError float64
	// CDN is the share of the sites, 0 to 1, that are behind CDNs content networks
	// (emulate.Layout.WithContentNetworks).
	CDN  float64
	CDNs int
	// Matrix is a file of round-trip times between places (see wan.LoadMatrix);
	// "" means real cities.
	Matrix string
	// Keep is a directory for the peers' home directories, which are kept after the run; ""
	// means a temporary one.
	Keep string
	// SiteBind is HOST:PORT that serves all sites by Host header, with /-/sites and
	// /-/log; "" means none.
	SiteBind string
	// Scenario is one of Scenarios, or "" for none. With a scenario the crawl ends when the
	// scenario does, not when all pages are fetched, and Pages 0 means as many as last that
	// long.
	Scenario string
	// Gap is the politeness gap of the sites and the peers; 0 means one that suits a run of a
	// minute.
	Gap time.Duration
	// Beside, unless nil, runs beside the crawl, which ends when it returns.
	Beside func(context.Context, Running) error
	// Hostile is how many of Peers, the last ones, are hostile: for them DialWeb replaces the
	// network to web sites, and the report leaves them out.
	Hostile int
	DialWeb func(ctx context.Context, network, addr string) (net.Conn, error)
	// CheckReports is crawl.check_reports of the peers.
	CheckReports float64
	// Progress receives a line every two seconds; nil means none.
	Progress io.Writer
	Logger   *slog.Logger

	strategy    assign.Strategy                           // replaces Strategy unless nil
	workers     int                                       // crawl.fetch_workers unless 0
	ignoreWaits bool                                      // as in node.Emulation
	after       func(context.Context, []*node.Node) error // called after the crawl unless nil
}

// Validate returns an error that names the first option that is out of range.
func (o Options) Validate() error {
	switch {
	case o.Peers < 1 || o.Peers > MaxPeers:
		return fmt.Errorf("--peers %d: want 1 to %d", o.Peers, MaxPeers)
	case o.Sites < 1 || o.Sites > MaxSites:
		return fmt.Errorf("--sites %d: want 1 to %d", o.Sites, MaxSites)
	case o.Scenario != "" && !slices.Contains(Scenarios, o.Scenario):
		return fmt.Errorf("--scenario %q: want one of %s", o.Scenario,
			strings.Join(Scenarios, ", "))
	case o.Scenario != "" && o.Pages == 0: // see Pages
	case o.Pages < o.Sites || o.Pages > MaxPages:
		return fmt.Errorf("--pages %d: want at least one a site, %d, and at most %d", o.Pages,
			o.Sites, MaxPages)
	case !slices.Contains(config.Strategies, o.Strategy):
		return fmt.Errorf("--strategy %q: want one of %s", o.Strategy,
			strings.Join(config.Strategies, ", "))
	case o.Hostile < 0 || o.Hostile >= o.Peers:
		return fmt.Errorf("hostile peers %d: want 0 to %d", o.Hostile, o.Peers-1)
	case !(o.GeoError >= 0 && o.GeoError <= 1):
		return fmt.Errorf("--geo-error %v: want 0 to 1", o.GeoError)
	}
	return o.validateCDN()
}

func (o Options) validateCDN() error {
	switch {
	case !(o.CDN >= 0 && o.CDN <= 1):
		return fmt.Errorf("--cdn %v: want 0 to 1", o.CDN)
	case o.CDN > 0 && (o.CDNs < 1 || o.CDNs > emulate.MaxContentNetworks):
		return fmt.Errorf("--cdns %d: want 1 to %d", o.CDNs, emulate.MaxContentNetworks)
	}
	return nil
}

// gap returns the politeness gap of the sites and the peers.
func (o Options) gap() time.Duration {
	switch {
	case o.Gap > 0:
		return o.Gap
	case o.Scenario != "":
		return scenarioGap
	}
	return 20 * time.Millisecond
}

// Running is a testnet during its crawl.
type Running struct {
	Peers   []*node.Node // the hostile ones last
	Profile config.Profile
	Web     *web.Web
	Layout  emulate.Layout
	Network *wan.Network
}

// Run runs a testnet until everything is crawled and evaluates it. When ctx ends, Run returns
// within stopTimeout, even if some peers have not stopped yet; the caller is then expected to
// exit.
func Run(ctx context.Context, o Options) (Report, error) {
	if err := o.Validate(); err != nil {
		return Report{}, fmt.Errorf("testnet: %w", err)
	}
	dir, remove, err := o.dir()
	if err != nil {
		return Report{}, err
	}
	var off atomic.Bool
	if o.Logger != nil {
		o.Logger = slog.New(mutable{o.Logger.Handler(), &off})
	}
	var report Report
	done := make(chan error, 1)
	go func() {
		var err error
		report, err = runIn(ctx, o, dir)
		done <- err
	}()
	select {
	case err = <-done:
		return report, errors.Join(err, remove())
	case <-ctx.Done():
	}
	select {
	case err = <-done:
		if err == nil { // the run had just finished
			return report, remove()
		}
	case <-time.After(stopTimeout):
		err = ctx.Err()
	}
	off.Store(true)
	// Peers that have not stopped may still create files.
	for range 10 {
		if remove() == nil {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	return Report{}, err
}

// stopTimeout is how long Run waits for the peers to stop after ctx has ended.
const stopTimeout = 2 * time.Second

// runIn runs a testnet with the peers' homes in dir.
func runIn(ctx context.Context, o Options, dir string) (report Report, err error) {
	begin := time.Now()
	world, err := o.world()
	if err != nil {
		return Report{}, err
	}
	if o.Scenario != "" {
		world = world.WithBandwidth(minBandwidth, maxBandwidth)
		if o.Pages == 0 {
			o.Pages = o.scenarioPages()
		}
	}
	layout := emulate.NewLayout(world, o.Peers, o.Sites, o.Seed)
	if o.CDN > 0 {
		layout = layout.WithContentNetworks(world, o.CDN, o.CDNs, o.Seed)
	}
	w, err := web.New(web.Config{
		Sites: o.Sites, Pages: o.Pages, Seed: o.Seed, MinDelay: o.gap(),
		Delay: 40 * time.Millisecond,
		Addrs: func(i int) []netip.Addr { return layout.SiteAddrs[i] },
		World: layout.World, Place: layout.PlaceFor,
		Bind: o.SiteBind, Logger: o.Logger,
	})
	if err != nil {
		return Report{}, err
	}
	if err := w.Listen(); err != nil {
		return Report{}, err
	}
	network := layout.Network()
	t := &run{o: o, layout: layout, web: w, network: network, begin: begin}
	if t.peers, err = newPeers(ctx, t, dir); err != nil {
		return Report{}, errors.Join(err, w.Close(), network.Close())
	}
	all, stop := context.WithCancel(ctx)
	defer stop()
	var served errgroup.Group
	served.Go(func() error { return w.Run(all) })
	err = t.peers.run(all, func(ctx context.Context) (err error) {
		report, err = t.crawl(ctx)
		return err
	})
	stop()
	err = errors.Join(err, served.Wait(), network.Close())
	report.WallSeconds = time.Since(begin).Seconds()
	report.conclude(DefaultBounds)
	return report, err
}

func (o Options) world() (*wan.World, error) {
	if o.Matrix == "" {
		return wan.NewWorld(wan.Cities(), o.Seed), nil
	}
	f, err := os.Open(o.Matrix)
	if err != nil {
		return nil, fmt.Errorf("testnet: matrix: %w", err)
	}
	defer f.Close()
	names, rtt, err := wan.LoadMatrix(f)
	if err != nil {
		return nil, fmt.Errorf("testnet: matrix %s: %w", o.Matrix, err)
	}
	return wan.FromMatrix(names, rtt, o.Seed)
}

func (o Options) dir() (dir string, remove func() error, err error) {
	if o.Keep != "" {
		return o.Keep, func() error { return nil }, os.MkdirAll(o.Keep, 0o700)
	}
	dir, err = os.MkdirTemp("", "peerd-testnet-")
	return dir, func() error { return os.RemoveAll(dir) }, err
}

// run is one testnet.
type run struct {
	o            Options
	layout       emulate.Layout
	web          *web.Web
	network      *wan.Network
	peers        *peers
	begin        time.Time
	lastProgress time.Time
}

// crawl seeds one peer, waits until no peer has any work left, and evaluates.
func (t *run) crawl(ctx context.Context) (Report, error) {
	timeout := 5*time.Minute + time.Duration(t.o.Peers)*time.Second // on a busy machine
	if err := t.until(ctx, timeout, t.joined, t.joinProgress); err != nil {
		return Report{}, fmt.Errorf("testnet: wait for the peers to join: %w", err)
	}
	r, err := t.peers.nodes[0].Seed(ctx, []string{t.web.Seed()})
	if err != nil {
		return Report{}, err
	}
	if r.Accepted != 1 {
		return Report{}, fmt.Errorf("testnet: seed rejected: %+v", r)
	}
	t.printf("gave the seed URL to peer 0")
	if t.o.Scenario != "" {
		a, err := t.runScenario(ctx)
		if err != nil {
			return Report{}, err
		}
		report, err := t.judge()
		report.Adaptation = a
		return report, err
	}
	if err := t.wait(ctx); err != nil {
		return Report{}, err
	}
	if t.o.after != nil {
		if err := t.o.after(ctx, t.peers.nodes); err != nil {
			return Report{}, err
		}
	}
	return t.judge()
}

// wait waits until no peer has any work left, or until what runs beside the crawl returns.
func (t *run) wait(ctx context.Context) error {
	if t.o.Beside == nil {
		return t.until(ctx, 24*time.Hour, t.crawlOver(), t.crawlProgress)
	}
	done := make(chan error, 1)
	go func() {
		done <- t.o.Beside(ctx, Running{t.peers.nodes, profile(t.o), t.web, t.layout, t.network})
	}()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case err := <-done:
			return err
		case <-tick.C:
			t.crawlProgress()
		}
	}
}

// until polls a condition and prints progress in between.
func (t *run) until(ctx context.Context, limit time.Duration, holds func() bool,
	progress func()) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
		progress()
	}
	return nil
}

// maxCoordinateError is the largest error estimate of a peer's own coordinate with
// which the crawl is seeded.
const maxCoordinateError = 0.3

// joined reports whether every peer knows all others and roughly its own coordinate.
func (t *run) joined() bool {
	for _, n := range t.peers.nodes {
		if !t.ready(n) {
			return false
		}
	}
	return true
}

func (t *run) ready(n *node.Node) bool {
	s := n.Status()
	return s.Directory >= t.o.Peers-1 &&
		(t.o.Peers == 1 || s.Coordinate.Error <= maxCoordinateError)
}

// crawlOver returns a function that reports whether no peer has had any work in several
// consecutive looks. Every URL is always held by some peer, so a single look would be enough if
// all peers could be observed at the same instant.
func (t *run) crawlOver() func() bool {
	looks := 0
	return func() bool {
		for _, n := range t.peers.nodes {
			if !n.Idle() {
				looks = 0
				return false
			}
		}
		looks++
		return looks >= 5
	}
}

// printf writes a line of progress.
func (t *run) printf(format string, args ...any) {
	if t.o.Progress != nil {
		t.lastProgress = time.Now()
		fmt.Fprintf(t.o.Progress, "%4.0f s: %s\n", time.Since(t.begin).Seconds(),
			fmt.Sprintf(format, args...))
	}
}

// due reports whether the next line of progress should be printed.
func (t *run) due() bool {
	return t.o.Progress != nil && time.Since(t.lastProgress) >= 2*time.Second
}

// joinProgress prints how many peers are ready for the crawl.
func (t *run) joinProgress() {
	if !t.due() {
		return
	}
	known, ready := 0, 0
	for _, n := range t.peers.nodes {
		if n.Status().Directory >= t.o.Peers-1 {
			known++
		}
		if t.ready(n) {
			ready++
		}
	}
	t.printf("peers measure their distances: %d of %d know all others, %d have a coordinate",
		known, t.o.Peers, ready)
}

// crawlProgress prints the progress of the crawl.
func (t *run) crawlProgress() {
	if !t.due() {
		return
	}
	var pages, queued, pending int64
	subnets := 0
	for _, n := range t.peers.nodes {
		s := n.Status()
		pages += s.PagesFetched
		queued += s.Frontier.Pending
		pending += s.OutboxURLs + s.Frontier.Unclaimed
		subnets += s.SubnetsOwned
	}
	t.printf("%d of %d pages, %d subnets owned, %d URLs queued, %d wait for an owner", pages,
		t.o.Pages, subnets, queued, pending)
}
