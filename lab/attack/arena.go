package attack

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/node"
	"peerd/node/config"
	"peerd/overlay"
)

// patience is how long an attack waits for what must happen before it can begin.
const patience = time.Minute

// An arena has the sites, the honest peers and the hostile ones of an attack.
type arena struct {
	ctx     context.Context
	stop    context.CancelFunc
	dir     string
	profile config.Profile
	names   overlay.Names
	gap     time.Duration // of the honest peers, between two requests to a site
	keep    bool          // subnets stay with who claims them
	alone   bool          // a peer uses memory as if it had the machine for itself
	ahead   atomic.Int64  // by how much the clock of all peers is ahead
	closers []func() error
	running sync.WaitGroup

	mu    sync.Mutex
	hosts map[string][]netip.Addr
	nodes []*node.Node
	errs  []error
}

func newArena(ctx context.Context) (*arena, error) {
	dir, err := os.MkdirTemp("", "peerd-attack-*")
	if err != nil {
		return nil, fmt.Errorf("attack: %w", err)
	}
	e := &arena{dir: dir, profile: config.DefaultProfile(), gap: 200 * time.Millisecond,
		hosts: map[string][]netip.Addr{}}
	e.profile.Name, e.profile.Politeness.DelayFactor = "attack", 0
	if e.names, err = overlay.NewNames(e.profile.NetworkID()); err != nil {
		return nil, err
	}
	e.ctx, e.stop = context.WithCancel(ctx)
	return e, nil
}

// close stops everything and removes the peers' home directories.
func (e *arena) close() error {
	e.stop()
	var errs []error
	for i := len(e.closers) - 1; i >= 0; i-- {
		errs = append(errs, e.closers[i]())
	}
	e.running.Wait()
	errs = append(errs, os.RemoveAll(e.dir))
	return errors.Join(append(errs, e.errs...)...)
}

// now returns the time by the peers' clock.
func (e *arena) now() time.Time { return time.Now().Add(time.Duration(e.ahead.Load())) }

// pass lets time pass by the peers' clock, which dates what they sign.
func (e *arena) pass(d time.Duration) { e.ahead.Add(int64(d)) }

// site starts a web site of n pages in a subnet of its own, 127.30.number.0/24.
func (e *arena) site(number byte, n int) (*site, error) {
	at := netip.AddrFrom4([4]byte{127, 30, number, 7})
	return e.siteAt(fmt.Sprintf("site%d.test", number), at, n)
}

func (e *arena) siteAt(host string, at netip.Addr, n int) (*site, error) {
	s, err := newSite(host, at, n)
	if err != nil {
		return nil, err
	}
	e.closers = append(e.closers, s.close)
	e.resolve(host, at)
	return s, nil
}

// resolve has all peers find a host at an address.
func (e *arena) resolve(host string, at ...netip.Addr) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.hosts[host] = at
}

func (e *arena) lookup(_ context.Context, host string) ([]netip.Addr, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if at, ok := e.hosts[host]; ok {
		return at, nil
	}
	return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
}

// peers starts honest peers that know each other.
func (e *arena) peers(n int) ([]*node.Node, error) {
	return e.peersAt(slices.Repeat([]string{"127.0.0.1"}, n)...)
}

// peersAt is peers with their addresses.
func (e *arena) peersAt(addrs ...string) ([]*node.Node, error) {
	var all []*node.Node
	for _, at := range addrs {
		v, err := e.peer(func(c *config.Config) {
			c.Listen = []string{"/ip4/" + at + "/tcp/0"}
		}, nil)
		if err != nil {
			return nil, err
		}
		all = append(all, v)
	}
	return all, e.until("all peers know each other", func() bool {
		for _, v := range all {
			if v.Status().Directory < len(all)-1 {
				return false
			}
		}
		return true
	})
}

// liar starts a peer for which a handler stands for all web sites.
func (e *arena) liar(sites http.Handler) (*node.Node, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	server := &http.Server{Handler: sites, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = server.Serve(ln) }() // ends with close
	e.closers = append(e.closers, server.Close)
	return e.peer(nil, func(ctx context.Context, network, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, network, ln.Addr().String())
	})
}

// peer starts a peer. change may change its configuration, and dial replaces the network to web
// sites. Both may be nil.
func (e *arena) peer(
	change func(*config.Config), dial func(context.Context, string, string) (net.Conn, error),
) (*node.Node, error) {
	home, err := config.Init(filepath.Join(e.dir, fmt.Sprintf("peer-%d", len(e.nodes))))
	if err != nil {
		return nil, err
	}
	c := e.config()
	if change != nil {
		change(&c)
	}
	n, err := node.New(node.Options{
		Home: home, Config: c, Profile: e.profile, UserAgent: "peerd-attack",
		Emulation: &node.Emulation{Lookup: e.lookup, DialWeb: dial, Now: e.now, TimeScale: 0.2,
			OwnMachine: e.alone},
	})
	if err != nil {
		return nil, err
	}
	e.nodes = append(e.nodes, n)
	e.running.Go(func() {
		if err := n.Run(e.ctx); err != nil && e.ctx.Err() == nil {
			e.mu.Lock()
			defer e.mu.Unlock()
			e.errs = append(e.errs, fmt.Errorf("attack: peer ended: %w", err))
		}
	})
	return n, nil
}

func (e *arena) config() config.Config {
	c := config.Default()
	c.Listen = []string{"/ip4/127.0.0.1/tcp/0"}
	if len(e.nodes) > 0 {
		c.Bootstrap = e.nodes[0].Addrs()
	}
	if e.keep {
		c.Strategy = "keep"
	}
	c.Crawl.AllowNet = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	c.Crawl.MinDelay = config.Duration{Duration: e.gap}
	c.Overlay.BatchMaxAge = config.Duration{Duration: 200 * time.Millisecond}
	c.Overlay.UnclaimedAge = config.Duration{Duration: 200 * time.Millisecond}
	c.Overlay.UnclaimedURLs = 1
	c.Overlay.Settle = config.Duration{Duration: 500 * time.Millisecond}
	return c
}

// until waits until cond holds, at most as long as an attack's preparation may take.
func (e *arena) until(what string, cond func() bool) error {
	limit := time.Now().Add(patience)
	for !cond() {
		if time.Now().After(limit) {
			return fmt.Errorf("attack: %s: not after %v", what, patience)
		}
		if err := e.sleep(20 * time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}

// sleep waits for d. The error is that of the end of the attack.
func (e *arena) sleep(d time.Duration) error {
	select {
	case <-e.ctx.Done():
		return context.Cause(e.ctx)
	case <-time.After(d):
		return nil
	}
}

// within waits until cond holds, for at most d, and reports whether it does.
func (e *arena) within(d time.Duration, cond func() bool) bool {
	for limit := time.Now().Add(d); !cond(); {
		if time.Now().After(limit) || e.sleep(20*time.Millisecond) != nil {
			return false
		}
	}
	return true
}

// crawl gives a peer a seed, and waits until some honest peer owns its subnet and has fetched a
// page.
func (e *arena) crawl(by *node.Node, s *site) error {
	r, err := by.Seed(e.ctx, []string{s.url("/p0")})
	if err != nil {
		return err
	}
	if r.Accepted != 1 {
		return fmt.Errorf("attack: seed %s was not accepted: %+v", s.url("/p0"), r)
	}
	return e.until("the first pages are fetched", func() bool { return s.fetched() > 2 })
}

// owner returns the peer that owns the subnet of a site; nil if none does.
func (e *arena) owner(s *site) *node.Node {
	for _, n := range e.nodes {
		for _, row := range n.Subnets() {
			at, err := netip.ParsePrefix(row.Subnet)
			if err == nil && at.Contains(s.addr.Addr()) {
				return n
			}
		}
	}
	return nil
}

// addrOf returns how a hostile peer reaches a peer.
func addrOf(n *node.Node) peer.AddrInfo {
	info, err := peer.AddrInfoFromString(n.Addrs()[0])
	if err != nil {
		panic(err) // it is the peer's own
	}
	return *info
}
