//go:build integration

package node

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"peerd/coords/assign"
	"peerd/crawl/resolve"
	"peerd/store"
)

// keepStrategy decides that a subnet stays with the peer that claimed it.
type keepStrategy struct{}

func (keepStrategy) Name() string { return "keep" }
func (keepStrategy) Next(e assign.Evidence) (assign.Step, error) {
	return assign.Step{Choice: e.Self}, nil
}

// hostMoveWeb serves sites of pages that link to the next few pages of their site. It logs the
// requests by host and path, with the addresses of the server.
type hostMoveWeb struct {
	t     *testing.T
	port  int
	pages map[string]int // drainer host
	delay time.Duration

	mu  sync.Mutex
	log map[string][]netip.Addr
	dns map[string][]netip.Addr
}

func (w *hostMoveWeb) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/robots.txt" {
		http.NotFound(rw, r)
		return
	}
	host, _, _ := net.SplitHostPort(r.Host)
	local := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	w.mu.Lock()
	w.log[host+r.URL.Path] = append(w.log[host+r.URL.Path],
		netip.MustParseAddrPort(local.String()).Addr())
	w.mu.Unlock()
	time.Sleep(w.delay)
	var i int
	fmt.Sscanf(r.URL.Path, "/%d", &i)
	rw.Header().Set("Content-Type", "text/html")
	for j := i + 1; j <= min(i+3, w.pages[host]-1); j++ {
		fmt.Fprintf(rw, "<a href=/%d>next</a>", j)
	}
}

// listen serves on an address until stop is called.
func (w *hostMoveWeb) listen(a netip.Addr) (stop func()) {
	w.t.Helper()
	l, err := net.Listen("tcp", netip.AddrPortFrom(a, uint16(w.port)).String())
	if err != nil {
		w.t.Fatal(err)
	}
	w.port = l.Addr().(*net.TCPAddr).Port
	s := &http.Server{Handler: w}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			w.t.Error(err)
		}
	}()
	stop = sync.OnceFunc(func() { // lets requests in flight end
		if err := s.Shutdown(context.Background()); err != nil {
			w.t.Error(err)
		}
		<-done
	})
	w.t.Cleanup(stop)
	return stop
}

func (w *hostMoveWeb) url(host string) string { return fmt.Sprintf("http://%s:%d/0", host, w.port) }

// fetched returns the number of requested pages of a host.
func (w *hostMoveWeb) fetched(host string) (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for path := range w.log {
		if strings.HasPrefix(path, host+"/") {
			n++
		}
	}
	return n
}

func (w *hostMoveWeb) set(host string, addrs ...netip.Addr) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.dns[host] = addrs
}

// dialDead dials. A failure takes a second, as a time-out would: with the short times of these
// tests, all tries of a URL would otherwise end before any peer looked up where the host is now.
func dialDead(ctx context.Context, network, addr string) (net.Conn, error) {
	c, err := (&net.Dialer{}).DialContext(ctx, network, addr)
	if err != nil {
		select {
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
	}
	return c, err
}

// options returns those of a peer that sees this web; view changes the answers of its DNS.
func (w *hostMoveWeb) options(
	t *testing.T, view func(host string, all []netip.Addr) []netip.Addr,
) Options {
	o := options(t)
	o.Config.Crawl.FetchWorkers = 4
	o.Emulation = &Emulation{
		DialWeb: dialDead,
		Lookup: func(_ context.Context, host string) ([]netip.Addr, error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			all := w.dns[host]
			if view != nil {
				all = view(host, all)
			}
			if len(all) == 0 {
				return nil, resolve.ErrNotFound
			}
			return all, nil
		},
		Strategy: keepStrategy{}, TimeScale: 0.005,
	}
	return o
}

// checkFetchedOnce checks that each page was requested once, over all peers and addresses.
func (w *hostMoveWeb) checkFetchedOnce(hosts ...string) {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, h := range hosts {
		for i := range w.pages[h] {
			path := fmt.Sprintf("%s/%d", h, i)
			if at := w.log[path]; len(at) != 1 {
				w.t.Errorf("%s was requested %d times by %v, want once", path, len(at), at)
			}
		}
	}
}

func newHostMoveWeb(t *testing.T) *hostMoveWeb {
	return &hostMoveWeb{
		t: t, pages: map[string]int{}, delay: 20 * time.Millisecond, log: map[string][]netip.Addr{},
		dns: map[string][]netip.Addr{},
	}
}

// idle reports whether no peer has any work.
func idle(ns ...*Node) bool {
	return !slices.ContainsFunc(ns, func(n *Node) bool { return !n.Idle() })
}

// A host moves to the subnet of another peer in the middle of its crawl, and then to another
// subnet of the first peer. Each page is fetched once.
func TestHostMovesToAnotherOwner(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	a1, a2, a3 := netip.MustParseAddr("127.201.1.1"), netip.MustParseAddr("127.201.2.1"),
		netip.MustParseAddr("127.201.3.1")
	w := newHostMoveWeb(t)
	stopOld := w.listen(a1)
	stopNew := w.listen(a2)
	defer w.listen(a3)()
	w.pages = map[string]int{"moving.test": 300, "second.test": 60, "third.test": 60}
	w.set("moving.test", a1)
	w.set("second.test", a2)
	w.set("third.test", a3)
	one := newNode(t, w.options(t, nil))
	defer running(t, one)()
	o := w.options(t, nil)
	o.Config.Bootstrap = one.Addrs()
	two := newNode(t, o)
	defer running(t, two)()
	until(t, 15*time.Second, "the peers know each other", func() bool {
		return one.Status().Directory == 1 && two.Status().Directory == 1
	})
	seed := func(n *Node, hosts ...string) {
		var urls []string
		for _, h := range hosts {
			urls = append(urls, w.url(h))
		}
		if _, err := n.Seed(t.Context(), urls); err != nil {
			t.Fatal(err)
		}
	}
	seed(two, "second.test")
	seed(one, "third.test", "moving.test")
	owns := func(n *Node, a netip.Addr) bool { return n.manager.Live(store.SubnetOf(a)) }
	until(t, 20*time.Second, "the subnets are owned", func() bool {
		return owns(two, a2) && owns(one, a1) && owns(one, a3)
	})
	has := func(n *Node, host string, a netip.Addr) func() bool {
		return func() bool {
			p, _, ok := n.frontier.HostAddr(host)
			return ok && p == store.SubnetOf(a)
		}
	}
	until(t, 20*time.Second, "the crawl is under way", func() bool {
		return w.fetched("moving.test") >= 10
	})
	w.set("moving.test", a2)
	stopOld()
	until(t, 30*time.Second, "the host has moved", has(two, "moving.test", a2))
	until(t, 20*time.Second, "the crawl goes on", func() bool {
		return w.fetched("moving.test") >= 60 && w.fetched("second.test") == 60
	})
	if has(one, "moving.test", a1)() {
		t.Error("the first peer still has the host")
	}
	w.set("moving.test", a3)
	stopNew()
	until(t, 60*time.Second, "the host has moved on", has(one, "moving.test", a3))
	seed(two, "moving.test", "third.test") // a peer that finds the host again learns where it is
	defer func() {
		for i, n := range []*Node{one, two} {
			t.Log(i, n.frontier.HostList(), n.outbox.Rows(), w.fetched("moving.test"),
				w.fetched("third.test"), n.Idle())
		}
	}()
	until(t, 3*time.Minute, "all is done", func() bool {
		return idle(one, two) && w.fetched("moving.test") == w.pages["moving.test"]
	})
	w.checkFetchedOnce("moving.test", "second.test", "third.test")
}

// One peer crawls a host that has an address in the subnet of each peer, and continues when the
// address that it uses fails.
func TestHostOfManyAddresses(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	w := newHostMoveWeb(t)
	w.pages = map[string]int{"geo.test": 150, "round.test": 150}
	at := func(a, b byte) netip.Addr { return netip.AddrFrom4([4]byte{127, 202, a, b}) }
	stopFirst := w.listen(at(1, 1))
	for _, a := range []netip.Addr{at(1, 2), at(2, 1), at(3, 1)} {
		defer w.listen(a)()
	}
	turn, dead := 0, false // guarded by w.mu
	view := func(own netip.Addr) func(string, []netip.Addr) []netip.Addr {
		return func(host string, all []netip.Addr) []netip.Addr {
			switch host {
			case "geo.test": // each peer sees another subnet
				if dead && own == at(1, 1) {
					return []netip.Addr{at(1, 2)}
				}
				return []netip.Addr{own}
			case "round.test": // one of three in turn
				turn++
				return []netip.Addr{[]netip.Addr{at(1, 2), at(2, 1), at(3, 1)}[turn%3]}
			}
			return all
		}
	}
	var ns []*Node
	for i := range byte(3) {
		o := w.options(t, view(at(i+1, 1)))
		if i > 0 {
			o.Config.Bootstrap = ns[0].Addrs()
		}
		n := newNode(t, o)
		defer running(t, n)()
		ns = append(ns, n)
	}
	until(t, 20*time.Second, "the peers know each other", func() bool {
		return !slices.ContainsFunc(ns, func(n *Node) bool { return n.Status().Directory != 2 })
	})
	for _, n := range ns {
		if _, err := n.Seed(t.Context(),
			[]string{w.url("geo.test"), w.url("round.test")}); err != nil {
			t.Fatal(err)
		}
	}
	defer func() {
		for i, n := range ns {
			t.Log(i, n.frontier.HostList(), n.outbox.Rows(), w.fetched("geo.test"),
				w.fetched("round.test"))
		}
	}()
	until(t, 3*time.Minute, "the crawl is under way", func() bool {
		return w.fetched("geo.test") >= 20 && w.fetched("round.test") >= 20
	})
	w.mu.Lock()
	dead = true
	w.mu.Unlock()
	stopFirst()
	until(t, 3*time.Minute, "all is done", func() bool {
		return idle(ns...) && w.fetched("geo.test") == 150 && w.fetched("round.test") == 150
	})
	w.checkFetchedOnce("geo.test", "round.test")
}
