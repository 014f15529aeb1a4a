package crawl_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"peerd/crawl"
	"peerd/crawl/fetch"
	"peerd/crawl/frontier"
	"peerd/store"
)

// order has the crawler fetch URLs for another peer, all at once, and returns the outcomes.
func (r *rig) order(qs []store.FetchRequest) []store.Outcome {
	r.t.Helper()
	got := make([]store.Outcome, len(qs))
	var wg sync.WaitGroup
	for i, q := range qs {
		wg.Go(func() {
			rep, err := r.c.RemoteFetch(r.t.Context(), q, nil)
			if err != nil {
				r.t.Errorf("%s: %v", q.URL, err)
			}
			got[i] = rep.Outcome
		})
	}
	wg.Wait()
	return got
}

// TestOrdersKeepClocks verifies that whatever other peers order, a server gets one request at a
// time with the gap in between, under whichever names, and its own pages count.
func TestOrdersKeepClocks(t *testing.T) {
	t.Parallel()
	const gap, hosts = 30 * time.Millisecond, 12
	r := newRig(t, "", gap, func(c *crawl.Config) {
		c.RemoteWorkers, c.RemoteTimeout = 64, 20*time.Second
	})
	s := newSite(t, 48, 1)
	s.html("/")
	var qs []store.FetchRequest
	for i := range hosts {
		host := fmt.Sprintf("h%d.test", i)
		r.resolves(host, s.addr.Addr())
		qs = append(qs, store.FetchRequest{URL: s.url(host, "/"), Addr: s.addr.Addr()})
	}
	r.own("own.test", s)
	r.seed(s.url("own.test", "/"), s.url("own.test", "/1"), s.url("own.test", "/2"))
	stop := r.start()
	for i, o := range r.order(qs) {
		if o != store.OutcomeOK {
			t.Errorf("order %d: %v, want a page", i, o)
		}
	}
	r.until("own pages are fetched", r.idle)
	stop()
	if least := s.apart(t); least < gap {
		t.Errorf("%v between two requests, want at least %v", least, gap)
	}
	if n := len(s.log()); n != 2*hosts+4 {
		t.Errorf("%d requests, want %d", n, 2*hosts+4)
	}
}

// TestOrdersKeepNetworkLimits verifies the limits on a network of which every address is ordered.
func TestOrdersKeepNetworkLimits(t *testing.T) {
	t.Parallel()
	for name, at := range map[string]func(i byte) (host string, a netip.Addr){
		"names in a /24": func(i byte) (string, netip.Addr) {
			return fmt.Sprintf("h%d.test", i), netip.AddrFrom4([4]byte{127, 49, 1, 1 + i})
		},
		"literals in a /48": func(i byte) (string, netip.Addr) {
			a := netip.AddrFrom16([16]byte{0x20, 1, 0xd, 0xb8, 0, 1, 0, i, 15: 1})
			return "[" + a.String() + "]", a
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testNetworkLimits(t, at)
		})
	}
}

func testNetworkLimits(t *testing.T, at func(i byte) (string, netip.Addr)) {
	const gap, most, rate, sites = 300 * time.Millisecond, 2, 20, 8
	victim := newSite(t, 49, 1)
	var mu sync.Mutex
	var starts []time.Time
	now, peak := 0, 0
	victim.mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		mu.Lock()
		starts = append(starts, time.Now())
		now++
		peak = max(peak, now)
		mu.Unlock()
		time.Sleep(200 * time.Millisecond)
		mu.Lock()
		now--
		mu.Unlock()
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, "page")
	})
	r := newRig(t, "", gap, func(c *crawl.Config) {
		get := fetch.DefaultConfig()
		get.UserAgent = "peerd-test"
		get.Guard = fetch.NewGuard([]netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"),
			netip.MustParsePrefix("2001:db8::/32")})
		get.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
			c, err := new(net.Dialer).DialContext(ctx, "tcp", victim.addr.String())
			return movedConn{c, netip.MustParseAddrPort(addr)}, err
		}
		var err error
		if c.Fetcher, err = fetch.New(get); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Fetcher.Close)
		c.Frontier, err = frontier.New(frontier.Config{
			DB: c.DB, Gap: gap, NetworkRequests: most, NetworkRate: rate,
		}, func(netip.Prefix) bool { return true })
		if err != nil {
			t.Fatal(err)
		}
		c.RemoteWorkers, c.RemoteTimeout = 64, 20*time.Second
	})
	var qs []store.FetchRequest
	for i := range byte(sites) {
		host, a := at(i)
		r.resolves(host, a)
		qs = append(qs, store.FetchRequest{URL: store.URL("http://" + host + "/"), Addr: a})
	}
	began := time.Now()
	for i, o := range r.order(qs) {
		if o != store.OutcomeOK {
			t.Errorf("order %d: %v, want a page", i, o)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if peak > most {
		t.Errorf("%d requests at once, want at most %d", peak, most)
	}
	// The first one may have been on its way for longer than the last.
	span := starts[len(starts)-1].Sub(began)
	if want := time.Duration(len(starts)-1) * time.Second / rate; len(starts) != 2*sites ||
		span < want {
		t.Errorf("%d requests in %v, want %d in at least %v", len(starts), span, 2*sites, want)
	}
}

// TestOrdersAreRefused verifies which orders lead to no request.
func TestOrdersAreRefused(t *testing.T) {
	t.Parallel()
	r := newRig(t, "", time.Minute, func(c *crawl.Config) { c.RemoteTimeout = time.Second })
	s := newSite(t, 50, 1)
	s.html("/")
	r.resolves("a.test", s.addr.Addr())
	r.resolves("elsewhere.test", netip.MustParseAddr("127.50.9.9"))
	q := store.FetchRequest{URL: s.url("elsewhere.test", "/"), Addr: s.addr.Addr()}
	for range 3 {
		_, err := r.c.RemoteFetch(t.Context(), q, nil)
		if !errors.Is(err, crawl.ErrInvalidRequest) {
			t.Errorf("order with an address of another host: %v, want ErrInvalidRequest", err)
		}
	}
	if n := len(s.log()); n != 0 {
		t.Fatalf("%d requests, want none", n)
	}
	q.URL = s.url("a.test", "/")
	// The robots.txt is requested, and the page is not, because the gap is longer than the wait.
	if _, err := r.c.RemoteFetch(t.Context(), q, nil); err == nil || errors.Is(err, crawl.ErrBusy) {
		t.Errorf("order after robots.txt: %v, want an error other than ErrBusy", err)
	}
	if _, err := r.c.RemoteFetch(t.Context(), q, nil); !errors.Is(err, crawl.ErrBusy) {
		t.Errorf("order within the gap: %v, want ErrBusy", err)
	}
	if got := s.count(); len(got) != 1 || got["/robots.txt"] != 1 {
		t.Errorf("requests %v, want robots.txt", got)
	}
}

// TestOrdersObeyRobots verifies that orders obey the robots.txt that this peer reads, which it
// requests once, and wait for its Crawl-delay.
func TestOrdersObeyRobots(t *testing.T) {
	t.Parallel()
	const delay = 200 * time.Millisecond
	r := newRig(t, "", time.Millisecond, func(c *crawl.Config) {
		c.RemoteTimeout = 20 * time.Second
	})
	s := newSite(t, 51, 1)
	s.text("/robots.txt", "User-agent: *\nDisallow: /private\nCrawl-delay: 0.2\n"+
		strings.Repeat("# a large file\n", 10_000))
	s.html("/")
	broken := newSite(t, 52, 1)
	broken.mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusInternalServerError)
	})
	r.resolves("a.test", s.addr.Addr())
	r.resolves("b.test", broken.addr.Addr())
	for _, test := range []struct {
		s    *site
		host string
		path string
		want store.Outcome
	}{
		{s, "a.test", "/private/1", store.OutcomeRobotsDenied},
		{s, "a.test", "/", store.OutcomeOK},
		{s, "a.test", "/next", store.OutcomeOK},
		{s, "a.test", "/private/2", store.OutcomeRobotsDenied},
		{broken, "b.test", "/", store.OutcomeRobotsUnreachable},
	} {
		q := store.FetchRequest{URL: test.s.url(test.host, test.path), Addr: test.s.addr.Addr()}
		rep, err := r.c.RemoteFetch(t.Context(), q, nil)
		if err != nil || rep.Outcome != test.want {
			t.Errorf("%s: %v, %v, want %v", q.URL, rep.Outcome, err, test.want)
		}
	}
	if got := s.count(); got["/robots.txt"] != 1 || got["/"] != 1 || got["/next"] != 1 ||
		len(got) != 3 {
		t.Errorf("requests %v", got)
	}
	if least := s.apart(t); least < delay {
		t.Errorf("%v between two requests, want at least the Crawl-delay, %v", least, delay)
	}
	if got := broken.count(); len(got) != 1 || got["/robots.txt"] != 1 {
		t.Errorf("requests %v of the site without a robots.txt, want one for it", got)
	}
}

// order returns a peer, a site that it does not own, and an order for the home page of it.
func order(t *testing.T) (*rig, *site, store.FetchRequest) {
	t.Helper()
	r := newRig(t, "", 0, nil)
	s := newSite(t, 53, 1)
	s.html("/")
	r.resolves("a.test", s.addr.Addr())
	return r, s, store.FetchRequest{URL: s.url("a.test", "/"), Addr: s.addr.Addr()}
}

// TestOrderHasConnectTime verifies that the time of the connection is in the report although the
// request for the robots.txt has opened it.
func TestOrderHasConnectTime(t *testing.T) {
	t.Parallel()
	r, s, q := order(t)
	rep, err := r.c.RemoteFetch(t.Context(), q, nil)
	if err != nil || rep.Timing.Reused || rep.Timing.Connect <= 0 {
		t.Errorf("first order: timing %+v, %v, want a connection", rep.Timing, err)
	}
	q.URL = s.url("a.test", "/2")
	if rep, err = r.c.RemoteFetch(t.Context(), q, nil); err != nil || !rep.Timing.Reused {
		t.Errorf("second order: timing %+v, %v, want a reused connection", rep.Timing, err)
	}
}

// TestOrderOfLostOwner verifies that no page is requested for an owner that does not wait any more
// when the clocks allow the request, and that it keeps no clock.
func TestOrderOfLostOwner(t *testing.T) {
	t.Parallel()
	r, s, q := order(t)
	asked := 0
	waits := func() bool {
		if asked++; s.count()["/robots.txt"] != 1 {
			t.Error("the owner was asked before robots.txt was read")
		}
		return asked > 1
	}
	if _, err := r.c.RemoteFetch(t.Context(), q, waits); err == nil ||
		errors.Is(err, crawl.ErrBusy) || s.count()["/"] != 0 {
		t.Errorf("RemoteFetch() = %v; requests %v", err, s.count())
	}
	if _, err := r.c.RemoteFetch(t.Context(), q, waits); err != nil || s.count()["/"] != 1 {
		t.Errorf("RemoteFetch() = %v; requests %v", err, s.count())
	}
}

// TestRobotsRedirectKeepsClocks verifies that robots.txt files that redirect to a third party lead
// to no more requests there than its clocks allow.
func TestRobotsRedirectKeepsClocks(t *testing.T) {
	t.Parallel()
	const gap, hosts = 30 * time.Millisecond, 6
	r := newRig(t, "", gap, func(c *crawl.Config) {
		c.RemoteWorkers, c.RemoteTimeout = 64, 20*time.Second
	})
	victim := newSite(t, 54, 1)
	r.resolves("victim.test", victim.addr.Addr())
	var qs []store.FetchRequest
	for i := range byte(hosts) {
		s := newSite(t, 55, 1+i)
		s.html("/")
		s.mux.HandleFunc("/robots.txt", func(w http.ResponseWriter, q *http.Request) {
			name, _, _ := strings.Cut(q.Host, ".")
			http.Redirect(w, q, string(victim.url("victim.test", "/x?"+name)), http.StatusFound)
		})
		host := fmt.Sprintf("h%d.test", i)
		if i%2 == 0 {
			r.own(host, s)
			r.seed(s.url(host, "/"))
			continue
		}
		r.resolves(host, s.addr.Addr())
		qs = append(qs, store.FetchRequest{URL: s.url(host, "/"), Addr: s.addr.Addr()})
	}
	stop := r.start()
	r.order(qs)
	r.until("own pages are fetched", r.idle)
	stop()
	if least, n := victim.apart(t), len(victim.log()); least < gap || n != hosts {
		t.Errorf("%d requests, %v between two of them, want %d and at least %v", n, least, hosts,
			gap)
	}
}
