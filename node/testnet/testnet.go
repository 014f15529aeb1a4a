package testnet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"os"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"peerd/coords/assign"
	"peerd/node"
	"peerd/node/emulate"
	"peerd/node/emulate/wan"
	"peerd/node/emulate/web"
)

// Report is what a testnet came to.
type Report struct {
	emulate.Report
	// Adaptation is nil without a scenario.
	Adaptation *Adaptation `json:"adaptation,omitempty"`
}

// Table is the figures for people.
func (r Report) Table() string {
	text := r.Report.Table()
	if r.Adaptation != nil {
		text = strings.TrimRight(text, "\n") + "\n\n" + r.Adaptation.Table()
	}
	return text
}

// Options say what a testnet is made of.
type Options struct {
	Peers, Sites, Pages int
	// Seed decides the places, the web and the peers' keys.
	Seed     uint64
	Strategy string
	// GeoError is the share of the sites' subnets, 0 to 1, for which the data base
	// of places is misled (emulate.Layout.GeoDB). Only the strategy geo has one.
	GeoError float64
	// Matrix is a file of round-trip times between places (see wan.LoadMatrix);
	// "" means real cities.
	Matrix string
	// Keep is a directory for the peers' homes, which are left there; "" means
	// a temporary one.
	Keep string
	// SiteBind is HOST:PORT where all sites can be looked at by Host header,
	// with /-/sites and /-/log; "" means nowhere.
	SiteBind string
	// Scenario is one of Scenarios: the crawl then ends when it is over, not when
	// all is crawled, and Pages 0 is as many as that takes. "" means none.
	Scenario string
	// Progress gets a line every few seconds; nil: none.
	Progress io.Writer
	Logger   *slog.Logger

	strategy assign.Strategy                           // in the place of Strategy, if not nil
	after    func(context.Context, []*node.Node) error // called when all is crawled, if not nil
}

// gap is the politeness that the sites demand and the peers keep.
func (o Options) gap() time.Duration {
	if o.Scenario != "" {
		return scenarioGap
	}
	return 20 * time.Millisecond
}

// Run runs a testnet until everything is crawled, and judges it.
func Run(ctx context.Context, o Options) (Report, error) {
	begin := time.Now()
	world, err := o.world()
	if err != nil {
		return Report{}, err
	}
	gap := o.gap()
	if o.Scenario != "" {
		world = world.WithBandwidth(narrow, wide)
		if o.Pages == 0 {
			o.Pages = o.scenarioPages()
		}
	}
	layout := emulate.NewLayout(world, o.Peers, o.Sites, o.Seed)
	w, err := web.New(web.Config{
		Sites: o.Sites, Pages: o.Pages, Seed: o.Seed, MinDelay: gap, Delay: 40 * time.Millisecond,
		Addrs: func(i int) []netip.Addr { return layout.SiteAddrs[i] },
		World: layout.World, Place: func(i int) int { return layout.SitePlaces[i] },
		Bind: o.SiteBind, Logger: o.Logger,
	})
	if err != nil {
		return Report{}, err
	}
	if err := w.Listen(); err != nil {
		return Report{}, err
	}
	dir, remove, err := o.dir()
	if err != nil {
		return Report{}, errors.Join(err, w.Close())
	}
	defer remove()
	wide := layout.Network()
	ps, err := newPeers(o, layout, wide, w.Resolve(), dir)
	if err != nil {
		return Report{}, errors.Join(err, w.Close())
	}

	all, stop := context.WithCancel(ctx)
	defer stop()
	var served errgroup.Group
	served.Go(func() error { return w.Run(all) })
	t := &run{o: o, layout: layout, web: w, wide: wide, peers: ps, begin: begin}
	var report Report
	err = ps.run(all, func(ctx context.Context) error {
		var err error
		report, err = t.crawl(ctx)
		return err
	})
	stop()
	err = errors.Join(err, served.Wait(), wide.Close())
	report.WallSeconds = time.Since(begin).Seconds()
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

func (o Options) dir() (dir string, remove func(), err error) {
	if o.Keep != "" {
		return o.Keep, func() {}, os.MkdirAll(o.Keep, 0o700)
	}
	dir, err = os.MkdirTemp("", "peerd-testnet-")
	return dir, func() { os.RemoveAll(dir) }, err
}

// run is one testnet under way.
type run struct {
	o      Options
	layout emulate.Layout
	web    *web.Web
	wide   *wan.Network
	peers  *peers
	begin  time.Time
	said   time.Time
}

// crawl seeds one peer, waits until nobody has any work left, and judges.
func (t *run) crawl(ctx context.Context) (Report, error) {
	if err := t.until(ctx, 30*time.Second, t.joined); err != nil {
		return Report{}, fmt.Errorf("testnet: the peers did not find each other: %w", err)
	}
	r, err := t.peers.nodes[0].Seed(ctx, []string{t.web.Seed()})
	if err != nil {
		return Report{}, err
	}
	if r.Accepted != 1 {
		return Report{}, fmt.Errorf("testnet: the seed was not accepted: %+v", r)
	}
	if t.o.Scenario != "" {
		a, err := t.play(ctx)
		if err != nil {
			return Report{}, err
		}
		report, err := t.judge()
		report.Adaptation = a
		return report, err
	}
	if err := t.until(ctx, 24*time.Hour, t.quiet()); err != nil {
		return Report{}, err
	}
	if t.o.after != nil {
		if err := t.o.after(ctx, t.peers.nodes); err != nil {
			return Report{}, err
		}
	}
	return t.judge()
}

// until polls a condition.
func (t *run) until(ctx context.Context, limit time.Duration, holds func() bool) error {
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
		t.progress()
	}
	return nil
}

// joined says whether every peer knows all others and roughly where it is.
func (t *run) joined() bool {
	for _, n := range t.peers.nodes {
		s := n.Status()
		if s.Directory < t.o.Peers-1 || t.o.Peers > 1 && s.Coordinate.Error > 0.3 {
			return false
		}
	}
	return true
}

// quiet says whether nobody has had any work for a few looks in a row. URLs
// are never in nobody's hands, so once would do if all could be looked at in
// the same instant.
func (t *run) quiet() func() bool {
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

func (t *run) progress() {
	if t.o.Progress == nil || time.Since(t.said) < 2*time.Second {
		return
	}
	t.said = time.Now()
	var pages, queued, moving int64
	subnets := 0
	for _, n := range t.peers.nodes {
		s := n.Status()
		pages += s.PagesFetched
		queued += s.Frontier.Pending
		moving += s.OutboxURLs + s.Frontier.Nursery
		subnets += s.SubnetsOwned
	}
	fmt.Fprintf(t.o.Progress, "%4.0f s: %d of %d pages, %d subnets owned, %d URLs queued, %d on their way\n",
		time.Since(t.begin).Seconds(), pages, t.o.Pages, subnets, queued, moving)
}
