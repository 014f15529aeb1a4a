package testnet

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/p2p/transport/tcp"
	ma "github.com/multiformats/go-multiaddr"
	"golang.org/x/sync/errgroup"

	"peerd/node"
	"peerd/node/config"
	"peerd/node/emulate"
	"peerd/node/emulate/wan"
)

// peers are the peers of a testnet.
type peers struct{ nodes []*node.Node }

// newPeers builds all peers; the first is the others' bootstrap.
func newPeers(o Options, l emulate.Layout, w *wan.Network, hosts map[string][]netip.Addr, dir string) (*peers, error) {
	ps := &peers{}
	var boot []string
	data, err := newData(o, l, dir)
	if err != nil {
		return nil, err
	}
	for i := range o.Peers {
		home, err := newHome(filepath.Join(dir, fmt.Sprintf("peer-%02d", i)), o.Seed, i)
		if err != nil {
			return nil, errors.Join(err, ps.close())
		}
		if err := data.into(home); err != nil {
			return nil, errors.Join(err, ps.close())
		}
		conf := peerConfig(o, l.PeerAddrs[i], boot)
		conf.GeoDB = data.geoDB
		dial := w.Dialer(l.PeerPlaces[i], l.PeerAddrs[i])
		n, err := node.New(node.Options{
			Home: home, Config: conf, Profile: profile(o),
			UserAgent: config.UserAgent("https://example.org/testnet"), Logger: o.Logger,
			Emulation: &node.Emulation{
				DialWeb:  dial,
				DialPeer: func(ma.Multiaddr) (tcp.ContextDialer, error) { return dialer(dial), nil },
				Lookup:   lookup(hosts),
				Strategy: o.strategy,
				Pace:     0.2,
			},
		})
		if err != nil {
			return nil, errors.Join(err, ps.close())
		}
		ps.nodes = append(ps.nodes, n)
		if i == 0 {
			boot = n.Addrs()
		}
	}
	return ps, nil
}

// dialer is a dial function as libp2p's TCP transport wants it.
type dialer func(ctx context.Context, network, addr string) (net.Conn, error)

func (d dialer) DialContext(ctx context.Context, network, addr string) (net.Conn, error) {
	return d(ctx, network, addr)
}

func lookup(hosts map[string][]netip.Addr) func(context.Context, string) ([]netip.Addr, error) {
	return func(_ context.Context, host string) ([]netip.Addr, error) {
		if addrs, ok := hosts[host]; ok {
			return addrs, nil
		}
		return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
	}
}

// newHome makes a home whose key follows from the seed, so that equal seeds
// give equal peers.
func newHome(dir string, seed uint64, i int) (config.Home, error) {
	home, err := config.Init(dir)
	if errors.Is(err, config.ErrExists) {
		return config.Open(dir) // a testnet that was kept goes on
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
	c.Overlay.BatchMaxAge = config.Duration{Duration: 500 * time.Millisecond}
	c.Overlay.NurseryAge = config.Duration{Duration: 500 * time.Millisecond}
	c.Overlay.NurseryURLs = 8
	c.Overlay.Settle = config.Duration{Duration: time.Second}
	return c
}

func profile(o Options) config.Profile {
	p := config.DefaultProfile()
	p.Name = fmt.Sprintf("testnet-%d", o.Seed)
	p.Politeness.DelayFactor = 0 // the distances are emulated, and no server is in need
	return p
}

// run runs all peers while fn runs, and stops them when it returns.
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
				return fmt.Errorf("peer %d ended by itself", i)
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

// close closes peers that were built and never run.
func (ps *peers) close() error {
	var errs []error
	for _, n := range ps.nodes {
		errs = append(errs, n.Close())
	}
	return errors.Join(errs...)
}
