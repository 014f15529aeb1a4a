package testnet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/p2p/transport/tcp"
	ma "github.com/multiformats/go-multiaddr"
	"golang.org/x/sync/errgroup"

	"peerd/lab/emulate"
	"peerd/lab/emulate/web"
	"peerd/node"
	"peerd/node/config"
)

// peers are the peers of a testnet.
type peers struct{ nodes []*node.Node }

// newPeers builds all peers; they exist until ctx ends. The first peer is the bootstrap peer of
// the others.
func newPeers(ctx context.Context, t *run, dir string) (ps *peers, err error) {
	ps = &peers{}
	defer func() {
		if err != nil {
			err = errors.Join(err, ps.close())
		}
	}()
	data, err := newData(t.o, t.layout, dir)
	if err != nil {
		return nil, err
	}
	t.printf("starting %d peers and %d sites", t.o.Peers, t.o.Sites)
	var bootstrap []string
	for i := range t.o.Peers {
		if err := ctx.Err(); err != nil {
			return ps, err
		}
		n, err := newPeer(t, i, dir, data, bootstrap)
		if err != nil {
			return ps, err
		}
		ps.nodes = append(ps.nodes, n)
		if i == 0 {
			bootstrap = n.Addrs()
		}
		if t.due() {
			t.printf("started %d of %d peers", i+1, t.o.Peers)
		}
	}
	return ps, nil
}

// newPeer builds peer i with its home directory below dir.
func newPeer(t *run, i int, dir string, data data, bootstrap []string) (*node.Node, error) {
	home, err := newHome(filepath.Join(dir, fmt.Sprintf("peer-%02d", i)), t.o.Seed, i)
	if err != nil {
		return nil, err
	}
	if err := data.into(home); err != nil {
		return nil, err
	}
	conf := peerConfig(t.o, t.layout.PeerAddrs[i], bootstrap)
	conf.GeoDB = data.geoDB
	dial := t.network.Dialer(t.layout.PeerPlaces[i], t.layout.PeerAddrs[i])
	dialWeb := dial
	if i >= t.o.Peers-t.o.Hostile {
		dialWeb = t.o.DialWeb
	}
	return node.New(node.Options{
		Home: home, Config: conf, Profile: profile(t.o),
		UserAgent: config.UserAgent("https://example.org/testnet"), Logger: t.o.Logger,
		Emulation: &node.Emulation{
			DialWeb:     dialWeb,
			DialPeer:    func(ma.Multiaddr) (tcp.ContextDialer, error) { return dialer(dial), nil },
			Lookup:      lookup(t.web, t.layout, i),
			Strategy:    t.o.strategy,
			IgnoreWaits: t.o.ignoreWaits,
			TimeScale:   0.2,
		},
	})
}

// dialer is a dial function for libp2p's TCP transport.
type dialer func(ctx context.Context, network, addr string) (net.Conn, error)

func (d dialer) DialContext(ctx context.Context, network, addr string) (net.Conn, error) {
	return d(ctx, network, addr)
}

// lookup returns the resolver of a peer.
func lookup(
	w *web.Web, l emulate.Layout, peer int,
) func(context.Context, string) ([]netip.Addr, error) {
	hosts := map[string][]netip.Addr{}
	for _, s := range w.Sites() {
		hosts[s.Host] = l.Answer(l.PeerPlaces[peer], s.Site)
	}
	return func(_ context.Context, host string) ([]netip.Addr, error) {
		if addrs, ok := hosts[host]; ok {
			return addrs, nil
		}
		return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
	}
}

// newHome creates a home directory with a key derived from the seed, so that equal seeds give
// equal peers.
func newHome(dir string, seed uint64, i int) (config.Home, error) {
	home, err := config.Init(dir)
	if errors.Is(err, config.ErrExists) {
		return config.Open(dir) // from an earlier testnet with Options.Keep
	}
	if err != nil {
		return home, err
	}
	var src [32]byte
	rng := rand.New(rand.NewPCG(seed, uint64(i)+1))
	for j := range src {
		src[j] = byte(rng.Uint32())
	}
	key, _, err := crypto.GenerateEd25519Key(rand.NewChaCha8(src))
	if err != nil {
		return home, err
	}
	raw, err := crypto.MarshalPrivateKey(key)
	if err != nil {
		return home, err
	}
	return home, os.WriteFile(home.KeyFile(), raw, 0o600)
}

func peerConfig(o Options, addr netip.Addr, boot []string) config.Config {
	c := config.Default()
	c.Listen = []string{"/ip4/" + addr.String() + "/tcp/0"}
	c.Bootstrap = boot
	c.Strategy = o.Strategy
	c.Crawl.AllowNet = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	c.Crawl.MinDelay = config.Duration{Duration: o.gap()}
	c.Crawl.CheckReports = o.CheckReports // 0 to count the pages that are fetched twice
	c.Overlay.BatchMaxAge = config.Duration{Duration: 500 * time.Millisecond}
	c.Overlay.UnclaimedAge = config.Duration{Duration: 500 * time.Millisecond}
	c.Overlay.UnclaimedURLs = 8
	c.Crawl.FetchWorkers = cmp.Or(o.workers, c.Crawl.FetchWorkers)
	return c
}

func profile(o Options) config.Profile {
	p := config.DefaultProfile()
	p.Name = fmt.Sprintf("testnet-%d", o.Seed)
	p.Politeness.DelayFactor = 0 // emulated delays are no sign of server load
	return p
}

// run runs all peers while fn runs, and stops them when fn returns.
func (ps *peers) run(ctx context.Context, fn func(context.Context) error) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	g, gctx := errgroup.WithContext(ctx)
	for i, n := range ps.nodes {
		g.Go(func() error {
			if err := n.Run(gctx); err != nil {
				return fmt.Errorf("peer %d: %w", i, err)
			}
			if gctx.Err() == nil {
				return fmt.Errorf("peer %d exited unexpectedly", i)
			}
			return nil
		})
	}
	g.Go(func() error {
		defer stop()
		return fn(gctx)
	})
	return g.Wait()
}

// close closes peers that were built but never run.
func (ps *peers) close() error {
	errs := make([]error, len(ps.nodes))
	var wg sync.WaitGroup
	for i, n := range ps.nodes {
		wg.Go(func() { errs[i] = n.Close() })
	}
	wg.Wait()
	return errors.Join(errs...)
}
