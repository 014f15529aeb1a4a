package source

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"github.com/libp2p/go-libp2p/gologshim"
	"github.com/libp2p/go-libp2p/p2p/transport/tcp"
	ma "github.com/multiformats/go-multiaddr"
	"golang.org/x/sync/errgroup"

	"peerd/lab/emulate/wan"
	"peerd/node"
	"peerd/node/config"
)

// network are peers with the path of the experiments between any two of them.
type network struct {
	dir   string
	paths *wan.Network
	peers []*node.Node // the first is the collector
}

// newNetwork returns a network for n peers.
func newNetwork(dir string, n int) (*network, error) {
	gologshim.SetDefaultHandler(slog.DiscardHandler) // emulated connections have no keep-alive
	times := make([][]time.Duration, n)
	for i := range times {
		times[i] = make([]time.Duration, n)
		for k := range times[i] {
			if k != i {
				times[i][k] = rtt
			}
		}
	}
	world, err := wan.FromMatrix(nil, times, 1)
	if err != nil {
		return nil, err
	}
	return &network{dir: dir, paths: wan.NewNetwork(world.WithBandwidth(bps, bps))}, nil
}

// add adds a peer.
func (w *network) add() error {
	i := len(w.peers)
	home, err := config.Init(filepath.Join(w.dir, fmt.Sprint("peer", i)))
	if err != nil {
		return err
	}
	addr := netip.AddrFrom4([4]byte{127, 200, 0, byte(i + 1)})
	w.paths.Place(addr, i)
	c, rules := config.Default(), config.DefaultProfile()
	c.Listen, c.Strategy = []string{"/ip4/" + addr.String() + "/tcp/0"}, "keep"
	c.Crawl.MinDelay.Duration, rules.Politeness.DelayFactor = 0, 0
	c.Crawl.AllowNet = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	c.Overlay.UnclaimedURLs, c.Overlay.UnclaimedAge.Duration = 1, 0
	c.Overlay.Settle.Duration = 300 * time.Millisecond
	rules.Name, rules.Links.Sitemaps, rules.Scope.Mode = "source", false, "any"
	c.Archive.Enabled, c.Collect.Enabled = true, i == 0
	if i == 0 {
		c.Crawl.Hours = config.Never
	} else {
		c.Bootstrap = w.peers[0].Addrs()
	}
	dial := dialer(w.paths.Dialer(i, addr))
	n, err := node.New(node.Options{
		Home: home, Config: c, Profile: rules, UserAgent: config.UserAgent(""),
		Emulation: &node.Emulation{
			DialWeb:   (&net.Dialer{}).DialContext,
			DialPeer:  func(ma.Multiaddr) (tcp.ContextDialer, error) { return dial, nil },
			TimeScale: 0.2,
		},
	})
	if err == nil {
		w.peers = append(w.peers, n)
	}
	return err
}

// close closes peers that have not run.
func (w *network) close() (err error) {
	for _, n := range w.peers {
		err = errors.Join(err, n.Close())
	}
	return err
}

// dialer is a dial function for libp2p's TCP transport.
type dialer func(ctx context.Context, network, addr string) (net.Conn, error)

func (d dialer) DialContext(ctx context.Context, network, addr string) (net.Conn, error) {
	return d(ctx, network, addr)
}

// atSites crawls the sites in directories, each with a peer on its machine, and returns when a
// collector has that many pages. The processor time is that of all peers and sites.
func (l *lab) atSites(ctx context.Context, roots []string, pages int64) (c cost, err error) {
	dir, err := os.MkdirTemp(l.dir, "peers")
	if err != nil {
		return c, err
	}
	w, err := newNetwork(dir, len(roots)+1)
	if err != nil {
		return c, err
	}
	defer w.paths.Close()
	var urls []string
	for i, root := range roots {
		ln, err := net.Listen("tcp", fmt.Sprintf("127.%d.0.1:0", i+1))
		if err != nil {
			return c, err
		}
		s := &http.Server{Handler: http.FileServer(http.Dir(root)), ReadHeaderTimeout: time.Minute}
		defer s.Close()
		go func() { _ = s.Serve(ln) }() // until Close
		urls = append(urls, "http://"+ln.Addr().String()+"/")
	}
	for range len(roots) + 1 {
		if err := w.add(); err != nil {
			return c, errors.Join(err, w.close())
		}
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	g, ctx := errgroup.WithContext(ctx)
	for _, n := range w.peers {
		g.Go(func() error { return n.Run(ctx) })
	}
	g.Go(func() error {
		defer stop()
		return w.crawl(ctx, urls, pages, &c)
	})
	return c, g.Wait()
}

// crawl has a peer crawl each site, and measures until the collector has the pages. The peers know
// each other before.
func (w *network) crawl(ctx context.Context, urls []string, pages int64, c *cost) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	until := func(done func() bool) error {
		for !done() {
			select {
			case <-tick.C:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		return nil
	}
	for _, n := range w.peers {
		err := until(func() bool { return n.Status().Directory == len(w.peers)-1 })
		if err != nil {
			return err
		}
	}
	sent, before, start := w.bytes(), cpuTime(), time.Now()
	for i, u := range urls {
		if _, err := w.peers[i+1].Seed(ctx, []string{u}); err != nil {
			return err
		}
	}
	err := until(func() bool {
		// The answers for robots.txt are archived, too.
		c.pages = w.peers[0].Status().Archive.Exchanges - int64(len(urls))
		return c.pages >= pages
	})
	c.time, c.crawlerCPU = time.Since(start), cpuTime()-before
	c.bytes = w.bytes() - sent
	return err
}

// bytes returns what the collector has sent to peers and received from them, without the framing
// and the encryption of connections.
func (w *network) bytes() int64 {
	b := w.peers[0].Status().ControlBytes
	return b.Sent + b.Received
}
