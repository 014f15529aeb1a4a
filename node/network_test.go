package node

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"peerd/crawl/network"
	"peerd/crawl/resolve"
	"peerd/node/admin"
	"peerd/node/config"
	"peerd/store"
)

// flaky is a web site and a network to it that a test can interrupt.
type flaky struct {
	server *httptest.Server
	addr   string
	down   atomic.Bool
	after  int64 // the network goes down after this number of pages; 0: never
	pages  atomic.Int64
}

// newFlaky starts a site of n pages, each of which links to the next.
func newFlaky(t *testing.T, n int, after int64) *flaky {
	f := &flaky{after: after}
	f.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var i int
		if _, err := fmt.Sscanf(r.URL.Path, "/p%d", &i); err != nil || i >= n {
			http.NotFound(w, r)
			return
		}
		f.pages.Add(1)
		w.Header().Set("Content-Type", "text/html")
		w.Header().Set("Connection", "close")
		if i+1 < n {
			fmt.Fprintf(w, "<a href=/p%d>next</a>", i+1)
		}
		if f.after > 0 && f.pages.Load() == f.after {
			f.down.Store(true)
		}
	}))
	t.Cleanup(f.server.Close)
	f.addr = f.server.Listener.Addr().String()
	return f
}

func (f *flaky) url(page int) string {
	_, port, _ := net.SplitHostPort(f.addr)
	return fmt.Sprintf("http://site.test:%s/p%d", port, page)
}

// dial is the way to the site. Only its port can be reached, so checks of others are refused.
func (f *flaky) dial(ctx context.Context, nw, addr string) (net.Conn, error) {
	if f.down.Load() {
		return nil, &net.OpError{Op: "dial", Net: nw, Err: syscall.ENETUNREACH}
	}
	var d net.Dialer
	return d.DialContext(ctx, nw, addr)
}

func (f *flaky) options(seeds ...string) CrawlOptions {
	c := config.Default()
	c.Crawl.AllowNet = []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}
	c.Crawl.MinDelay = config.Duration{Duration: time.Millisecond}
	return CrawlOptions{
		Seeds: seeds, Scope: "host", Config: c, Rules: config.DefaultProfile(),
		UserAgent: "peerd-test",
		Emulation: &Emulation{
			TimeScale: 0.01, DialWeb: f.dial,
			Lookup: func(context.Context, string) ([]netip.Addr, error) {
				return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, nil
			},
		},
	}
}

// syncBuffer is a bytes.Buffer for concurrent use.
type syncBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// An outage in the middle of a crawl loses nothing: the crawl waits, and says so.
func TestCrawlThroughOutage(t *testing.T) {
	t.Parallel()
	f := newFlaky(t, 20, 8)
	var progress, log syncBuffer
	o := f.options(f.url(0))
	o.Progress, o.Logger = &progress, slog.New(slog.NewTextHandler(&log, nil))
	go func() {
		for !strings.Contains(progress.String(), "offline since") && t.Context().Err() == nil {
			time.Sleep(10 * time.Millisecond)
		}
		f.down.Store(false)
	}()
	sum, err := Crawl(t.Context(), o)
	if err != nil || sum.Pages != 20 || sum.Left != 0 || len(sum.GivenUp) > 0 {
		t.Errorf("Crawl() = %+v, %v, want 20 pages and nothing given up", sum, err)
	}
	for _, line := range []string{"lost the network", "regained the network"} {
		if n := strings.Count(log.String(), line); n != 1 {
			t.Errorf("%q logged %d times, want once:\n%s", line, n, log.String())
		}
	}
}

// While offline, the status says so, and the frontier hands out nothing.
func TestOfflineStatus(t *testing.T) {
	o := options(t)
	o.Emulation = &Emulation{DialWeb: func(context.Context, string, string) (net.Conn, error) {
		return nil, syscall.ENETUNREACH
	}}
	n := newNode(t, o)
	defer n.Close()
	if s := n.Status(); s.Offline != nil || len(s.Blocked) > 0 || n.fetchWait(time.Now()) > 0 {
		t.Fatalf("status = %+v, %q, want online", s.Offline, s.Blocked)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- n.network.Run(ctx) }()
	n.network.Failed(netip.MustParseAddr("192.0.2.1"), syscall.ENETUNREACH)
	for n.network.Online() {
		time.Sleep(time.Millisecond)
	}
	s := n.Status()
	if s.Offline == nil || !strings.Contains(s.Offline.Reason, "network is unreachable") ||
		len(s.Blocked) != 1 || !strings.HasPrefix(s.Blocked[0], "offline since ") {
		t.Errorf("status = %+v, %q, want offline with the reason", s.Offline, s.Blocked)
	}
	if wait := n.fetchWait(time.Now()); wait != fetchRetry {
		t.Errorf("fetchWait() = %v, want %v", wait, fetchRetry)
	}
	cancel()
	if err := <-done; err != nil {
		t.Errorf("Run() = %v", err)
	}
	if st := n.network.State(); st.Status != network.Offline {
		t.Errorf("status %v after the end", st.Status)
	}
}

// URLs that were given up because their server could not be reached are tried again by the next
// crawl with the home; others if that is planned.
func TestCrawlRetries(t *testing.T) {
	t.Parallel()
	f := newFlaky(t, 3, 0)
	o := f.options(f.url(0))
	o.Home, o.Patience = t.TempDir()+"/home", time.Second
	if _, err := config.Init(o.Home); err != nil {
		t.Fatal(err)
	}
	refused := o.Emulation.DialWeb
	o.Emulation.DialWeb = func(_ context.Context, nw, _ string) (net.Conn, error) {
		return nil, &net.OpError{Op: "dial", Net: nw, Err: syscall.ECONNREFUSED}
	}
	sum, err := Crawl(t.Context(), o)
	if err != nil || sum.Pages != 0 || len(sum.GivenUp) != 1 || sum.GivenUp[0].URLs != 1 ||
		!sum.GivenUp[0].Connectivity {
		t.Fatalf("Crawl() = %+v, %v, want the seed given up", sum, err)
	}
	g := sum.GivenUp[0].Examples[0]
	if g.URL != f.url(0) || !strings.Contains(g.Error, "refused") {
		t.Errorf("given up %+v, want the seed and the error", g)
	}

	home := config.Home{Dir: o.Home}
	var listed []admin.GivenUp
	err = GivenUp(t.Context(), home, "site.test", func(g admin.GivenUp) error {
		listed = append(listed, g)
		return nil
	})
	if err != nil || len(listed) != 1 || listed[0] != g {
		t.Errorf("GivenUp() = %+v, %v, want %+v", listed, err, g)
	}
	for r, want := range map[admin.RetryRequest]int{
		{All: true}: 1, {Host: "SITE.test"}: 1, {URL: f.url(0)}: 1,
		{Host: "other.test"}: 0, {URL: f.url(1)}: 0,
	} {
		if res, err := Retry(t.Context(), home, r); err != nil || res.Queued != want {
			t.Errorf("Retry(%+v) = %+v, %v, want %d", r, res, err, want)
		}
	}
	if _, err := Retry(t.Context(), home, admin.RetryRequest{URL: "no url"}); err == nil {
		t.Error("Retry of an invalid URL = nil")
	}

	o.Emulation.DialWeb = refused
	sum, err = Crawl(t.Context(), o)
	if err != nil || sum.Pages != 3 || len(sum.GivenUp) > 0 {
		t.Errorf("second Crawl() = %+v, %v, want 3 pages and nothing given up", sum, err)
	}
}

// The checks of servers report what a proxy itself does as no answer.
func TestConnectServer(t *testing.T) {
	f := newFlaky(t, 1, 0)
	o := options(t)
	o.Config.Crawl.AllowNet = []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}
	o.Emulation = &Emulation{DialWeb: func(context.Context, string, string) (net.Conn, error) {
		return nil, syscall.ECONNREFUSED
	}}
	addr := netip.MustParseAddrPort("127.0.0.1:80")
	n := newNode(t, o)
	if err := n.connectServer(t.Context(), addr); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("connectServer() = %v, want refused", err)
	}
	n.Close()
	o.Config.Crawl.Proxy = "http://" + f.addr + "1"
	o.Home.Dir = t.TempDir() + "/home"
	if _, err := config.Init(o.Home.Dir); err != nil {
		t.Fatal(err)
	}
	n = newNode(t, o)
	defer n.Close()
	if err := n.connectServer(t.Context(), addr); err == nil ||
		errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("connectServer() with a dead proxy = %v, want another error", err)
	}
}

func TestNameEvidence(t *testing.T) {
	reason := func(r resolve.Reason) error { return &resolve.Error{Reason: r} }
	for _, c := range []struct {
		err  error
		want network.Evidence
	}{
		{nil, network.RemoteAnswer},
		{reason(resolve.ReasonNXDomain), network.RemoteAnswer},
		{reason(resolve.ReasonNoAddress), network.RemoteAnswer},
		{reason(resolve.ReasonServFail), network.LocalAnswer},
		{reason(resolve.ReasonRefused), network.LocalAnswer},
		{reason(resolve.ReasonTimeout), network.NoAnswer},
		{reason(resolve.ReasonUnreachable), network.NoAnswer},
		{&net.OpError{Op: "read", Err: syscall.ECONNREFUSED}, network.NotAsked},
		{context.DeadlineExceeded, network.NoAnswer},
	} {
		if got := nameEvidence(c.err); got != c.want {
			t.Errorf("nameEvidence(%v) = %d, want %d", c.err, got, c.want)
		}
	}
}

// When the network is back, requests that have been waiting for an answer since before do not wait
// for TCP to repeat what was lost: their connections are closed, and they are sent again.
func TestWebConns(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	var at []netip.AddrPort
	woke := false
	w := newWebConns(new(net.Dialer).DialContext, func(a netip.AddrPort) { at = append(at, a) },
		func() bool { return woke })
	c, err := w.DialContext(t.Context(), "tcp", silent.Addr().String())
	if err != nil || len(at) != 1 || at[0].String() != silent.Addr().String() {
		t.Fatalf("DialContext() = %v; connected to %v", err, at)
	}
	if _, ok := c.(syscall.Conn); !ok {
		t.Error("the socket is hidden")
	}
	if n, err := c.Write([]byte{1}); n != 1 || err != nil {
		t.Errorf("Write() = %d, %v", n, err)
	}
	woke = true
	if n, err := c.Write([]byte{1}); n != 0 || !errors.Is(err, errWoke) {
		t.Errorf("Write() = %d, %v after a sleep, want errWoke", n, err)
	}
	done := make(chan error, 1)
	go func() {
		_, err := c.Read(make([]byte, 1))
		done <- err
	}()
	w.closeAll()
	if err := <-done; !errors.Is(err, net.ErrClosed) || len(w.open) > 0 {
		t.Errorf("Read() = %v, %d connections left, want closed and none", err, len(w.open))
	}
	if _, err := w.DialContext(t.Context(), "tcp", "127.0.0.1:1"); err == nil || len(w.open) > 0 {
		t.Errorf("DialContext() = %v, %d connections, want an error", err, len(w.open))
	}
}

// A check of the network connects to no server of a subnet that another peer owns: its clocks are
// there.
func TestCheckLeavesServersOfOthersAlone(t *testing.T) {
	t.Parallel()
	n := newNode(t, options(t))
	addr := netip.MustParseAddr("127.0.9.1")
	if (networkNode{n}).MayFetch(addr) {
		t.Error("may fetch from a server of a subnet that this peer does not own")
	}
	if err := n.manager.Resolver().Claim(t.Context(), store.SubnetOf(addr)); err != nil {
		t.Fatal(err)
	}
	if !(networkNode{n}).MayFetch(addr) {
		t.Fatal("may not fetch from a server of its own subnet")
	}
	end, ok := networkNode{n}.Reserve(addr, false)
	if !ok {
		t.Fatal("did not reserve a server of its own subnet")
	}
	end(true)
	if _, ok := (networkNode{n}).Reserve(addr, false); ok {
		t.Error("reserved again at once")
	}
	if end, ok = (networkNode{n}).Reserve(addr, true); !ok {
		t.Fatal("did not reserve always")
	}
	end(true)
}

// Without the quorum lease a check connects to no server: the subnet may be another peer's by now.
// A peer that is started again has none before it has heard its witness.
func TestCheckWaitsForTheQuorumLease(t *testing.T) {
	t.Parallel()
	o, addr := options(t), netip.MustParseAddr("127.0.9.1")
	n := newNode(t, o)
	with := options(t)
	with.Config.Bootstrap = n.Addrs()
	other := newNode(t, with)
	stop, stopOther := running(t, n), running(t, other)
	if err := n.manager.Resolver().Claim(t.Context(), store.SubnetOf(addr)); err != nil {
		t.Fatal(err)
	}
	until(t, 0, "it has a witness", func() bool {
		return len(n.witness.WitnessSet()) > 0 && networkNode{n}.MayFetch(addr)
	})
	stopOther()
	stop()
	n = newNode(t, o)
	defer n.Close()
	if !n.manager.Live(store.SubnetOf(addr)) || n.manager.HasQuorumLease() {
		t.Fatal("want a peer with a subnet and without the quorum lease")
	}
	if (networkNode{n}).MayFetch(addr) {
		t.Error("may fetch from a server without the quorum lease")
	}
}
