package crawl_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"peerd/crawl"
	"peerd/crawl/fetch"
	"peerd/crawl/frontier"
	"peerd/crawl/quota"
	"peerd/crawl/scope"
	"peerd/store"
	"peerd/store/kv"
)

// pipeEnd is one end of a connection in memory, with a TCP address.
type pipeEnd struct {
	net.Conn
	addr netip.AddrPort
}

func (c pipeEnd) RemoteAddr() net.Addr { return net.TCPAddrFromAddrPort(c.addr) }

// endless is a web in virtual time. Each page of each host links to three more; each
// robots.txt is two redirects away. It records the time and host of each request.
type endless struct {
	mu   sync.Mutex
	hits []time.Time
	last map[string]time.Time
	near time.Duration // shortest time between two requests to a host
}

func (w *endless) dial(_ context.Context, _, addr string) (net.Conn, error) {
	near, far := net.Pipe()
	go func() {
		defer far.Close()
		for in := bufio.NewReader(far); ; {
			req, err := http.ReadRequest(in)
			if err != nil {
				return
			}
			w.note(req.Host)
			time.Sleep(50 * time.Millisecond)
			io.WriteString(far, w.answer(req.URL.Path))
			w.end(req.Host)
		}
	}()
	return pipeEnd{near, netip.MustParseAddrPort(addr)}, nil
}

func (w *endless) note(host string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	if last, ok := w.last[host]; ok {
		w.near = min(w.near, now.Sub(last))
	}
	w.hits = append(w.hits, now)
}

func (w *endless) end(host string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.last[host] = time.Now()
}

func (w *endless) answer(path string) string {
	switch path {
	case "/robots.txt":
		return "HTTP/1.1 301 Moved\r\nLocation: /r1\r\nContent-Length: 0\r\n\r\n"
	case "/r1":
		return "HTTP/1.1 301 Moved\r\nLocation: /r2\r\nContent-Length: 0\r\n\r\n"
	case "/r2":
		return "HTTP/1.1 404 None\r\nContent-Length: 0\r\n\r\n"
	}
	var body strings.Builder
	for i := range 3 {
		fmt.Fprintf(&body, "<a href=%q>x</a>", strings.TrimSuffix(path, "/")+"/"+
			string(rune('a'+i)))
	}
	return fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: %d\r\n\r\n%s",
		body.Len(), body.String())
}

// nightly is a quota.Config.UntilOpen for 22:00 to 06:00.
func nightly(now time.Time) time.Duration {
	if h := now.Hour(); h >= 22 || h < 6 {
		return 0
	}
	return time.Date(now.Year(), now.Month(), now.Day(), 22, 0, 0, 0, now.Location()).Sub(now)
}

// A crawler that runs at night for some days, is restarted now and then and also fetches
// for other peers keeps its limits: according to the sites, no 24 hours have more requests
// than allowed, except for redirects of robots.txt files and the page of another peer after
// them, and the gap is kept.
func TestCrawlerKeepsOperatorLimits(t *testing.T) {
	// The store's coder creates its channels at its first use and keeps them; they must not
	// belong to a bubble.
	if _, err := (store.Page{URL: "http://a.test/"}).Record(); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		const limit, days, hosts, remoteEvery, gap = 240, 5, 4, 2 * time.Hour, time.Second
		w := &endless{last: map[string]time.Time{}, near: time.Hour}
		disk := kv.NewDisk()
		addrs := map[string]netip.Addr{}
		for i := range hosts {
			addrs[fmt.Sprintf("h%d.test", i)] = netip.AddrFrom4([4]byte{203, 0, byte(113 + i), 9})
		}
		var kept keptTime
		rng := rand.New(rand.NewPCG(4, 4))
		begin, served, refused := time.Now(), 0, 0
		for round := 0; time.Since(begin) < days*24*time.Hour; round++ {
			c, fr, stop := virtualCrawler(t, w, disk, quota.Config{
				Requests: limit, OpenPerDay: 8 * time.Hour, UntilOpen: nightly,
				Store: &kept,
			}, gap)
			for name, a := range addrs {
				if err := fr.AddHost(name, store.SubnetOf(a), a, time.Time{}); err != nil {
					t.Fatal(err)
				}
				if err := c.Route(
					[]store.Pending{{URL: store.URL("http://" + name + "/")}}); err != nil {
					t.Fatal(err)
				}
			}
			life := time.Duration(rng.Float64() * float64(40*time.Hour))
			for n, end := 0, time.Now().Add(life); time.Now().Before(end); n++ {
				_, err := c.RemoteFetch(t.Context(), store.FetchRequest{
					URL:  store.URL(fmt.Sprintf("http://others.test/%d-%d", round, n)),
					Addr: netip.MustParseAddr("203.0.200.1"),
				}, nil)
				switch {
				case errors.Is(err, crawl.ErrBusy):
					refused++
				case err != nil:
					t.Error(err)
				default:
					served++
				}
				time.Sleep(min(remoteEvery, time.Until(end)+1))
			}
			stop()
		}
		most, from := 0, 0
		for i, at := range w.hits {
			for at.Sub(w.hits[from]) >= 24*time.Hour {
				from++
			}
			most = max(most, i-from+1)
			if nightly(at) > time.Minute { // a redirect of a robots.txt may be a gap late
				t.Errorf("request at %v, outside the hours", at)
			}
		}
		if most > limit+2*hosts+3 || len(w.hits) < limit*days*6/10 {
			t.Errorf("%d requests in 24 hours and %d in all, want at most %d, and %d days of them",
				most, len(w.hits), limit, days)
		}
		if w.near < gap {
			t.Errorf("two requests to a host within %v, want the gap", w.near)
		}
		if served == 0 || refused == 0 {
			t.Errorf("%d remote fetches, %d refused", served, refused)
		}
		t.Logf("%d requests in %d days, %d in 24 hours at most, %d for others", len(w.hits), days,
			most, served)
	})
}

// virtualCrawler runs a crawler in a bubble until stop is called.
func virtualCrawler(
	t *testing.T, w *endless, disk *kv.Disk, limits quota.Config, gap time.Duration,
) (c *crawl.Crawler, fr *frontier.Frontier, stop func()) {
	db, err := store.Open("", store.Options{Disk: disk})
	fatal(t, err)
	q, err := quota.New(limits, time.Now())
	fatal(t, err)
	fr, err = frontier.New(frontier.Config{DB: db, Gap: gap, Node: admitting{quota: q}},
		func(netip.Prefix) bool {
			return true
		})
	fatal(t, err)
	get := fetch.DefaultConfig()
	get.UserAgent, get.Dial, get.Guard = "peerd-test", w.dial,
		fetch.NewGuard([]netip.Prefix{netip.MustParsePrefix("203.0.0.0/16")})
	fe, err := fetch.New(get)
	fatal(t, err)
	all, err := scope.Compile(scope.Rules{Mode: scope.ModeAny}, nil)
	fatal(t, err)
	c, err = crawl.New(crawl.Config{
		DB: db, Frontier: fr, Fetcher: fe, Scope: all, Quota: q,
		Delegate: resolving{&rig{t: t, pendingAdded: map[string]int{}},
			func(context.Context, string) ([]netip.Addr, error) {
				return []netip.Addr{netip.MustParseAddr("203.0.200.1")}, nil
			}},
		Agent: "peerd", Workers: 8,
		MaxTries: 3, BackOff: time.Second, Gap: gap,
		MaxBackOff: time.Second, MaxThrottle: time.Second, Patience: time.Hour,
		FetchTimeout: time.Minute,
	})
	fatal(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx) }()
	return c, fr, func() {
		cancel()
		fatal(t, <-done)
		fe.Close()
		fatal(t, db.Close())
	}
}

func fatal(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Requests for robots.txt, its redirects, pages and remote fetches share one quota. When it
// is used up, nothing is lost and nothing is sent.
func TestEveryRequestCounts(t *testing.T) {
	// ten at once, the next in six minutes
	q, err := quota.New(quota.Config{Requests: 240}, time.Now())
	fatal(t, err)
	r := newRig(t, "", time.Millisecond, func(c *crawl.Config) { c.Quota = q })
	s := newSite(t, 79, 1)
	r.own("a.test", s)
	for from, to := range map[string]string{"/robots.txt": "/r1", "/r1": "/r2"} {
		s.mux.Handle(from, http.RedirectHandler(to, http.StatusMovedPermanently))
	}
	s.text("/r2", "User-agent: *\nDisallow: /private")
	other := newSite(t, 79, 2)
	other.text("/one", "1")
	r.resolves("b.test", other.addr.Addr())
	remoteFetch := func(path string) error {
		_, err := r.c.RemoteFetch(t.Context(), store.FetchRequest{URL: other.url("b.test", path),
			Addr: other.addr.Addr()}, nil)
		return err
	}
	fatal(t, remoteFetch("/one"))
	const pages = 30
	for i := range pages {
		r.seed(s.url("a.test", fmt.Sprintf("/%d", i)))
	}
	stop := r.start()
	// 3 requests are for robots.txt, 2 for the remote fetch. A worker that finds the quota used up
	// has its page in flight for a moment, again and again.
	r.until("the quota is used up", func() bool {
		st := r.fr.Stats()
		return q.RequestWait(time.Now()) > 0 && int(st.Pending)+st.InFlight <= pages-5
	})
	stop()
	if n := len(s.log()) + len(other.log()); n != 10 {
		t.Errorf("%d requests, want 10", n)
	}
	if left := r.fr.Stats().Pending; left != pages-5 {
		t.Errorf("%d of %d pages are queued", left, pages)
	}
	if err := remoteFetch("/two"); !errors.Is(err, crawl.ErrBusy) {
		t.Errorf("RemoteFetch() with a spent quota: %v, want ErrBusy", err)
	}
	if err := remoteFetch("/one"); err != nil {
		t.Errorf("RemoteFetch() of a known answer: %v, want no error", err)
	}
	if _, err := r.c.Connect(t.Context(), store.FetchRequest{URL: other.url("b.test", "/x"),
		Addr: other.addr.Addr()}); !errors.Is(err, crawl.ErrBusy) {
		t.Errorf("Connect() with a spent quota: %v, want ErrBusy", err)
	}
}

// keptTime is a quota.Store.
type keptTime struct{ time.Time }

func (k *keptTime) Load() (time.Time, bool, error) { return k.Time, !k.IsZero(), nil }

func (k *keptTime) Save(at time.Time) error { k.Time = at; return nil }
