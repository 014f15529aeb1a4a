package crawl_test

import (
	"context"
	"flag"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"peerd/crawl"
	"peerd/crawl/frontier"
	"peerd/crawl/pace"
	"peerd/store"
)

var shared = flag.Bool("shared", false, "run TestSharedAddressMeasured, which takes ten minutes")

// setPace gives a crawler a Pacer, and a frontier with settings.
func setPace(t testing.TB, c *crawl.Config, factor float64, fc frontier.Config) {
	t.Helper()
	var err error
	if c.Pace, err = pace.New(pace.Config{Factor: factor, Max: 10 * fc.Gap}); err != nil {
		t.Fatal(err)
	}
	fc.DB = c.DB
	c.Frontier, err = frontier.New(fc, func(netip.Prefix) bool { return true })
	if err != nil {
		t.Fatal(err)
	}
}

// shareHosts queues pages of n hosts of different domains at one address.
func (r *rig) shareHosts(a netip.AddrPort, n, pages int) {
	r.t.Helper()
	for i := range n {
		host := fmt.Sprintf("www.shared%d.test", i)
		r.fatal(r.fr.AddHost(host, store.SubnetOf(a.Addr()), a.Addr(), time.Time{}))
		var all []store.URL
		for p := range pages {
			all = append(all, store.URL(fmt.Sprintf("http://%s:%d/%d", host, a.Port(), p)))
		}
		r.seed(all...)
	}
}

// rates returns the number of requests in each minute.
func (w *memoryWeb) rates() (n []int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, h := range w.hits {
		m := int(h.start.Sub(w.hits[0].start) / time.Minute)
		for len(n) <= m {
			n = append(n, 0)
		}
		n[m]++
	}
	return n
}

// wantApart fails the test if a host got a request within a second of another.
func (w *memoryWeb) wantApart(t *testing.T) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	last := map[string]time.Time{}
	for _, h := range w.hits {
		d := h.start.Sub(last[h.host])
		if last[h.host] = h.start; d < time.Second {
			t.Errorf("%s got %s %v after another request", h.host, h.path, d)
		}
	}
}

// TestSharedAddress verifies that an address with many hosts is asked more often if it answers
// steadily, and not if every third answer is a sign of strain, or if it has pages of few hosts.
// Each host is asked as if it were alone.
func TestSharedAddress(t *testing.T) {
	page := response(http.StatusOK, "Content-Type: text/html\r\n", "")
	third := func(answer string) func(string, int) string {
		return func(_ string, nth int) string {
			if nth%3 == 0 {
				return answer
			}
			return page
		}
	}
	for _, tt := range []struct {
		name        string
		answer      func(host string, nth int) string // to requests for pages
		least, most int                               // requests in the fourth minute
	}{
		{"steady", third(page), 200, 240},
		{"too many requests", third(response(http.StatusTooManyRequests, "", "")), 40, 130},
		{"not available", third(response(http.StatusServiceUnavailable, "", "")), 40, 130},
		{"bad gateway", third(response(http.StatusBadGateway, "", "")), 40, 130},
		{"closed", third(""), 40, 130},
		{"broken off", third(partial(cut)), 40, 130},
		{"no answer", third(hang), 10, 130},
		{"misdirected", func(host string, _ int) string {
			if strings.HasPrefix(host, "www.shared1.") {
				return page
			}
			return response(http.StatusMisdirectedRequest, "", "")
		}, 40, 60},
	} {
		t.Run(tt.name, func(t *testing.T) {
			n := 0
			w := &memoryWeb{page: func(host, _ string, _ int) string {
				n++
				return tt.answer(host, n)
			}}
			inVirtualTime(t, w, func(t *testing.T, r *rig) {
				r.shareHosts(netip.AddrPortFrom(memoryAddr(0), 8080), 100, 20)
				time.Sleep(5 * time.Minute)
				got := w.rates()
				if len(got) < 4 || got[3] < tt.least || got[3] > tt.most {
					t.Errorf("requests by minute: %v; want %d to %d in the fourth", got, tt.least,
						tt.most)
				}
				w.wantApart(t)
			}, func(c *crawl.Config) {
				setPace(t, c, 10, frontier.Config{Gap: time.Second, AddrRequests: 4})
			})
		})
	}
}

// TestLoad verifies what answers say about the load of a server.
func TestLoad(t *testing.T) {
	for _, tt := range []struct {
		outcome store.Outcome
		status  int
		trend   pace.Trend
		want    frontier.Load
	}{
		{store.OutcomeOK, 200, pace.Usual, frontier.LoadSteady},
		{store.OutcomeNotModified, 304, pace.Usual, frontier.LoadSteady},
		{store.OutcomeOK, 200, pace.Slower, frontier.LoadUnknown},
		{store.OutcomeOK, 200, pace.Overloaded, frontier.LoadStrained},
		{store.OutcomeHTTPError, 404, pace.Usual, frontier.LoadUnknown},
		{store.OutcomeHTTPError, 404, pace.Overloaded, frontier.LoadStrained},
		{store.OutcomeRedirect, 301, pace.Usual, frontier.LoadUnknown},
		{store.OutcomeHTTPError, 504, pace.Usual, frontier.LoadStrained},
		{store.OutcomeConnect, 0, pace.Usual, frontier.LoadStrained},
		{store.OutcomeTLS, 0, pace.Usual, frontier.LoadUnknown},
		{store.OutcomeDNS, 0, pace.Usual, frontier.LoadUnknown},
		{store.OutcomeDenied, 0, pace.Usual, frontier.LoadUnknown},
	} {
		rep := store.FetchReport{Outcome: tt.outcome, Status: tt.status}
		if got := crawl.LoadOf(rep, tt.trend); got != tt.want {
			t.Errorf("load after %v, status %d, trend %v is %v, want %v", tt.outcome, tt.status,
				tt.trend, got, tt.want)
		}
	}
}

// A limitedServer answers as many requests per second as it can.
type limitedServer struct {
	work     time.Duration // for a request, one after the other; 0: none
	perSec   int           // requests; others get a 503; 0: no limit
	mu       sync.Mutex
	second   int64
	inSecond int
	refused  int
}

func (l *limitedServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	time.Sleep(l.work)
	if now := time.Now().Unix(); now != l.second {
		l.second, l.inSecond = now, 0
	}
	if l.inSecond++; l.perSec > 0 && l.inSecond > l.perSec {
		l.refused++
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Content-Type", "text/html")
	fmt.Fprintf(w, "<!DOCTYPE html><title>%s %s</title>", r.Host, r.URL.Path)
}

// TestSharedAddressMeasured logs how fast 200 hosts of 20 pages at one address are crawled, and the
// rates at servers that can answer less often. Each takes ten minutes at most.
func TestSharedAddressMeasured(t *testing.T) {
	if !*shared {
		t.Skip("takes ten minutes; run it with -args -shared")
	}
	now := frontier.Config{Gap: time.Second, NetworkRequests: 4, NetworkRate: 10, AddrRequests: 8,
		MaxVisits: 100, VisitLength: 64}
	before, fast := now, now
	before.AddrRequests = 1
	fast.Gap, fast.NetworkRequests, fast.NetworkRate = 200*time.Millisecond, 0, 0
	fast.AddrRequests = 16
	for i, tt := range []struct {
		name   string
		server *limitedServer
		factor float64
		cfg    frontier.Config
	}{
		{"one request at a time", &limitedServer{}, 10, before},
		{"eight", &limitedServer{}, 10, now},
		{"eight, 250 ms of work", &limitedServer{work: 250 * time.Millisecond}, 10, now},
		{"eight, three per second", &limitedServer{perSec: 3}, 10, now},
		{"sixteen, 100 ms of work", &limitedServer{work: 100 * time.Millisecond}, 0, fast},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, 90, byte(i))
			s.mux.Handle("/", tt.server)
			r := newRig(t, "", tt.cfg.Gap, func(c *crawl.Config) {
				setPace(t, c, tt.factor, tt.cfg)
				c.Workers, c.MaxThrottle, c.MaxTries = 64, time.Minute, 100
			})
			r.shareHosts(s.addr, 200, 20)
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
			defer cancel()
			began := time.Now()
			stop := r.start()
			for !r.idle() && ctx.Err() == nil {
				time.Sleep(100 * time.Millisecond)
			}
			took := time.Since(began)
			stop()
			var minutes []int
			var times time.Duration
			hits := s.log()
			for _, h := range hits {
				m := int(h.start.Sub(began) / time.Minute)
				for len(minutes) <= m {
					minutes = append(minutes, 0)
				}
				minutes[m]++
				times += h.end.Sub(h.start)
			}
			t.Logf("%d pages and %d requests in %v; by minute %v; %d refused; mean answer %v",
				r.db.Counters().Pages, len(hits), took.Round(time.Second), minutes,
				tt.server.refused, (times / time.Duration(len(hits))).Round(time.Millisecond))
		})
	}
}
