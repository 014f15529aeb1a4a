package outbox

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/peer"
	"go.uber.org/goleak"

	"peerd/overlay/overlaytest"
	"peerd/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const proto = "/test/batch/1"

var (
	open       = overlaytest.Store
	listen     = overlaytest.Host
	eventually = overlaytest.Until
	introduce  = overlaytest.Introduce
)

// subnet and addr return the n-th subnet and an address in it.
func subnet(n int) netip.Prefix { return store.SubnetOf(addr(n)) }
func addr(n int) netip.Addr     { return netip.AddrFrom4([4]byte{10, byte(n >> 8), byte(n), 1}) }

func url(host string, i int) store.URL { return store.URL(fmt.Sprintf("http://%s/%d", host, i)) }

func pending(host string, n int) []store.Pending {
	var ps []store.Pending
	for i := range n {
		ps = append(ps, store.Pending{URL: url(host, i), Depth: 1, Found: time.Now()})
	}
	return ps
}

// testPeer is a Forwarder with a scripted Resolver and a simple Node.
type testPeer struct {
	t    testing.TB
	db   *store.DB
	host host.Host
	log  *slog.Logger
	f    *Forwarder

	mu            sync.Mutex
	resolve       func(host string, hint netip.Addr) (Resolution, error)
	claim         func(netip.Prefix) error
	accepts       func(netip.Prefix) (ok, moving bool, lease []byte)
	learn         func([]byte)
	refreshOwner  func(netip.Prefix, peer.ID) (bool, error)
	online        bool
	refreshHome   func(host string) error
	homeElsewhere func(host string, s netip.Prefix) bool
	check         func(store.URL) error
	safe          func(subnets []netip.Prefix) (unsafe []netip.Prefix)
	own           map[string]bool
	speaks        map[string]bool // origins of which any peer may say what has changed
	routed        []store.Pending // of the last call of Route
	afterCommit   func()          // called by Route between the commit and PendingAdded
	asked         map[string]int
}

func newPeer(t testing.TB, h host.Host, db *store.DB) *testPeer {
	p := &testPeer{t: t, db: db, host: h, log: overlaytest.Log(t), own: map[string]bool{},
		asked: map[string]int{}}
	p.resolve = func(string, netip.Addr) (Resolution, error) {
		return Resolution{}, errors.New("not yet")
	}
	p.claim = func(netip.Prefix) error { return nil }
	p.accepts = func(netip.Prefix) (bool, bool, []byte) { return true, false, nil }
	p.learn = func([]byte) {}
	p.refreshOwner = func(netip.Prefix, peer.ID) (bool, error) { return false, nil }
	p.online = true
	p.refreshHome = func(string) error { return nil }
	p.homeElsewhere = func(string, netip.Prefix) bool { return false }
	p.check = func(store.URL) error { return nil }
	p.safe = func([]netip.Prefix) []netip.Prefix { return nil }
	p.restart(db)
	return p
}

func (p *testPeer) config() Config {
	return Config{
		DB: p.db, Host: p.host, Protocol: proto, Resolver: p, Node: p,
		MaxURLs: 100, MaxAge: 5 * time.Millisecond, UnclaimedURLs: 4, UnclaimedAge: time.Hour,
		Retry: time.Millisecond, MaxRetry: 20 * time.Millisecond, Logger: p.log,
	}
}

// restart creates a new Forwarder for a store.
func (p *testPeer) restart(db *store.DB) {
	p.t.Helper()
	p.db = db
	f, err := New(p.config())
	if err != nil {
		p.t.Fatal(err)
	}
	p.f = f
}

// run runs the Forwarder. stop stops it and waits.
func (p *testPeer) run() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	f := p.f
	go func() { done <- f.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			p.t.Errorf("Run: %v", err)
		}
	})
	p.t.Cleanup(stop)
	return stop
}

func (p *testPeer) Resolve(_ context.Context, host string, hint netip.Addr) (Resolution, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked[host]++
	return p.resolve(host, hint)
}

func (p *testPeer) Claim(_ context.Context, s netip.Prefix) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.claim(s)
}

func (p *testPeer) Accepts(s netip.Prefix) (ok, moving bool, lease []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.accepts(s)
}

func (p *testPeer) Learn(sealed []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.learn(sealed)
}

func (p *testPeer) RefreshOwner(
	_ context.Context, s netip.Prefix, owner peer.ID, _ bool,
) (bool, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.refreshOwner(s, owner)
}

func (p *testPeer) HomeElsewhere(host string, s netip.Prefix) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.homeElsewhere(host, s)
}

func (p *testPeer) RefreshHome(_ context.Context, host string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.refreshHome(host)
}

func (p *testPeer) Online() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.online
}

func (p *testPeer) Check(u store.URL, _ store.Kind) error { return p.check(u) }

func (p *testPeer) Safe(_ context.Context, ps []netip.Prefix) []netip.Prefix { return p.safe(ps) }

// set changes the script.
func (p *testPeer) set(fn func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	fn()
}

func (p *testPeer) owns(host string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.own[host]
}

// SpeaksFor implements Node.
func (p *testPeer) SpeaksFor(_ peer.ID, u store.URL) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.speaks[u.Origin()]
}

// Route implements Node.
func (p *testPeer) Route(found []store.Pending) error {
	for len(found) > 500 {
		if err := p.Route(found[:500]); err != nil {
			return err
		}
		found = found[500:]
	}
	p.set(func() { p.routed = found })
	deferred := map[string]int{}
	err := p.db.Update(func(tx *store.Tx) error {
		for _, x := range found {
			h := x.URL.Host()
			if p.owns(h) {
				if _, err := tx.Host(h); err != nil {
					tx.PutHost(store.Host{Name: h})
				}
				if _, err := tx.Push(h, store.Entry{URL: x.URL, Finder: x.Finder}, 0); err != nil {
					return err
				}
				continue
			}
			fresh, err := tx.AddPending(x)
			if err != nil {
				return err
			}
			if fresh {
				deferred[h]++
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	if p.afterCommit != nil {
		p.afterCommit()
	}
	p.f.PendingAdded(deferred)
	return nil
}

// Enqueue implements Node. It moves seven URLs at a time.
func (p *testPeer) Enqueue(host string) (moved int, more bool, err error) {
	if !p.owns(host) {
		return 0, false, errors.New("not ours")
	}
	err = p.db.Update(func(tx *store.Tx) error {
		var us []store.URL
		err := tx.PendingOf(host, func(x store.Pending) (bool, error) {
			if more = len(us) == 7; !more {
				us = append(us, x.URL)
			}
			return !more, nil
		})
		if _, missing := tx.Host(host); missing != nil {
			tx.PutHost(store.Host{Name: host})
		}
		for _, u := range us {
			if err == nil {
				_, err = tx.Push(host, store.Entry{URL: u}, 0)
			}
			if err == nil {
				err = tx.RemovePending(u)
			}
		}
		moved = len(us)
		return err
	})
	return moved, more, err
}

// addPending adds n pending URLs of a host.
func (p *testPeer) addPending(host string, n int) {
	p.t.Helper()
	if err := p.Route(pending(host, n)); err != nil {
		p.t.Fatal(err)
	}
}

// queued returns the number of distinct URLs in the queue of a host. It fails the test if one
// is there twice.
func (p *testPeer) queued(host string) int {
	p.t.Helper()
	seen := map[store.URL]bool{}
	err := p.db.View(func(tx *store.Tx) error {
		return tx.Queue(host, nil, func(e store.Entry) (bool, error) {
			if seen[e.URL] {
				p.t.Errorf("%s is queued twice", e.URL)
			}
			seen[e.URL] = true
			return true, nil
		})
	})
	if err != nil {
		p.t.Error(err)
	}
	return len(seen)
}

// pendingURLs returns the number of pending URLs in the store.
func (p *testPeer) pendingURLs() int {
	n := 0
	err := p.db.View(func(tx *store.Tx) error {
		all, err := tx.PendingHosts()
		for _, d := range all {
			n += d.Count
		}
		return err
	})
	if err != nil {
		p.t.Error(err)
	}
	return n
}

func (p *testPeer) idle() bool {
	if p.f.Stats() != (Stats{}) {
		return false
	}
	return p.pendingURLs() == 0
}

func ownedBy(owner peer.ID, n int) func(string, netip.Addr) (Resolution, error) {
	return func(string, netip.Addr) (Resolution, error) {
		return Resolution{Kind: Foreign, Subnet: subnet(n), Addr: addr(n), Owner: owner}, nil
	}
}
