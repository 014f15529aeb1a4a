package crawl_test

import (
	"fmt"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"pgregory.net/rapid"

	"peerd/crawl"
	"peerd/crawl/frontier"
	_ "peerd/internal/rapidtest"
	"peerd/store"
)

// oneShot configures a crawler as for a crawl of some minutes.
func oneShot(c *crawl.Config) {
	c.MaxBackOff, c.MaxThrottle, c.Patience = 30*time.Second, time.Minute, 10*time.Minute
	c.TryDelay = 0
}

// longRun configures a crawler as for a crawl of weeks.
func longRun(c *crawl.Config) { c.TryDelay = time.Hour }

// seedPages assigns a.test to the crawler and queues n of its pages.
func (r *rig) seedPages(n int) {
	r.t.Helper()
	a := memoryAddr(0)
	r.fatal(r.fr.AddHost("a.test", store.SubnetOf(a), a, time.Time{}))
	for i := range n {
		r.seed(store.URL(fmt.Sprintf("http://a.test/%d", i)))
	}
}

// wait waits in virtual time until the queues are empty and no try is planned. It returns how
// long that took.
func (r *rig) wait(most time.Duration) time.Duration {
	r.t.Helper()
	begin := time.Now()
	for !r.idle() || r.planned() > 0 {
		time.Sleep(time.Second)
		if time.Since(begin) > most {
			r.t.Fatalf("still busy after %v: %+v, %d planned", most, r.fr.Stats(), r.planned())
		}
	}
	return time.Since(begin)
}

// planned returns the number of planned visits of a.test.
func (r *rig) planned() (n int) {
	r.t.Helper()
	r.fatal(r.db.View(func(tx *store.Tx) error {
		return tx.Visits("a.test", nil, func(store.Visit) (bool, error) { n++; return true, nil })
	}))
	return n
}

var (
	okPage      = response(http.StatusOK, "Content-Type: text/html\r\n", "")
	unavailable = response(http.StatusServiceUnavailable, "", "")
)

// An outage of a site, of any kind, costs no page, and few requests. The crawl goes on soon
// after it.
func TestOutages(t *testing.T) {
	const pages = 40
	for name, tc := range map[string]struct {
		outage time.Duration
		web    func(down func() bool) *memoryWeb
		change func(*crawl.Config)
		asked  int           // most requests during the outage
		late   time.Duration // most time from its end to the next request
	}{
		"connections refused": {3 * time.Minute, func(down func() bool) *memoryWeb {
			return &memoryWeb{down: func() error {
				if down() {
					return syscall.ECONNREFUSED
				}
				return nil
			}}
		}, oneShot, 0, 30 * time.Second},
		"packets dropped": {time.Minute, func(down func() bool) *memoryWeb {
			return &memoryWeb{down: func() error {
				if down() {
					return errDropped
				}
				return nil
			}}
		}, oneShot, 0, 40 * time.Second},
		"503 for everything": {5 * time.Minute, func(down func() bool) *memoryWeb {
			return &memoryWeb{robots: func(string, int) string {
				if down() {
					return unavailable
				}
				return response(http.StatusNotFound, "", "")
			}, page: func(string, string, int) string {
				if down() {
					return unavailable
				}
				return okPage
			}}
		}, oneShot, 15, time.Minute},
		"503 for pages": {5 * time.Minute, func(down func() bool) *memoryWeb {
			return &memoryWeb{page: func(string, string, int) string {
				if down() {
					return unavailable
				}
				return okPage
			}}
		}, oneShot, 15, time.Minute},
		"502 for everything": {5 * time.Minute, func(down func() bool) *memoryWeb {
			bad := response(http.StatusBadGateway, "", "")
			return &memoryWeb{page: func(string, string, int) string {
				if down() {
					return bad
				}
				return okPage
			}}
		}, oneShot, 15, time.Minute},
		"closed without an answer": {3 * time.Minute, func(down func() bool) *memoryWeb {
			return &memoryWeb{page: func(string, string, int) string {
				if down() {
					return ""
				}
				return okPage
			}}
		}, oneShot, 30, 30 * time.Second},
		"answers cut": {3 * time.Minute, func(down func() bool) *memoryWeb {
			return &memoryWeb{page: func(string, string, int) string {
				if down() {
					return partial(cut)
				}
				return okPage
			}}
		}, oneShot, 30, 30 * time.Second},
		"two days": {48 * time.Hour, func(down func() bool) *memoryWeb {
			return &memoryWeb{down: func() error {
				if down() {
					return syscall.ECONNREFUSED
				}
				return nil
			}}
		}, longRun, 0, time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			var down atomic.Bool
			w := tc.web(down.Load)
			inVirtualTime(t, w, func(t *testing.T, r *rig) {
				down.Store(true)
				r.seedPages(pages)
				time.Sleep(tc.outage)
				asked := w.requests()
				down.Store(false)
				end := time.Now()
				for w.requests() == asked {
					time.Sleep(100 * time.Millisecond)
				}
				if d := time.Since(end); d > tc.late {
					t.Errorf("the next request came after %v, want at most %v", d, tc.late)
				}
				if asked > tc.asked {
					t.Errorf("%d requests in the outage, want at most %d", asked, tc.asked)
				}
				r.wait(time.Hour)
				if c := r.db.Counters(); c.Pages != pages || c.Failed != 0 {
					t.Errorf("counters %+v, want %d pages", c, pages)
				}
				if g := r.givenUp(); len(g) != 0 {
					t.Errorf("given up %v", g)
				}
			}, tc.change)
		})
	}
}

// requests returns the number of requests that were read.
func (w *memoryWeb) requests() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.hits)
}

// A site that fails three of ten requests loses no page.
func TestUnreliableSite(t *testing.T) {
	const pages = 100
	for name, bad := range map[string]string{
		"no answer": "", "cut": partial(cut), "hanging": partial(hang),
		"502": response(502, "", ""),
	} {
		t.Run(name, func(t *testing.T) {
			n := 0
			w := &memoryWeb{page: func(string, string, int) string {
				if n++; n%10 < 3 {
					return bad
				}
				return okPage
			}}
			inVirtualTime(t, w, func(t *testing.T, r *rig) {
				r.seedPages(pages)
				r.wait(4 * time.Hour)
				if c := r.db.Counters(); c.Pages != pages || c.Failed != 0 {
					t.Errorf("counters %+v, want %d pages; given up %v", c, pages, r.givenUp())
				}
			}, oneShot)
		})
	}
}

// A host that never answers is given up after the patience. Every URL has a record with the
// reason, and can be tried again.
func TestGiveUpHost(t *testing.T) {
	const pages = 600 // more than one transaction
	for name, tc := range map[string]struct {
		change      func(*crawl.Config)
		least, most time.Duration
	}{
		"one shot": {oneShot, 10 * time.Minute, 10*time.Minute + 10*time.Second},
		"long run": {longRun, 72 * time.Hour, 72*time.Hour + 10*time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			var up atomic.Bool
			dials := 0
			w := &memoryWeb{down: func() error {
				if up.Load() {
					return nil
				}
				dials++
				return syscall.ECONNREFUSED
			}}
			inVirtualTime(t, w, func(t *testing.T, r *rig) {
				r.seedPages(pages)
				if d := r.wait(100 * time.Hour); d < tc.least || d > tc.most {
					t.Errorf("given up after %v, want %v to %v", d, tc.least, tc.most)
				}
				if dials > 100 {
					t.Errorf("%d connections, want at most 100", dials)
				}
				if h := r.host("a.test").Health; h.State != store.HostGivenUp || h.Error == "" {
					t.Errorf("host is %+v, want given up with an error", h)
				}
				all := r.givenUp()
				if c := r.db.Counters(); len(all) != pages || c.Failed != pages {
					t.Errorf("%d records, counters %+v, want %d", len(all), c, pages)
				}
				for u, g := range all {
					if g.Outcome != store.OutcomeRobotsUnreachable || g.Error == "" ||
						g.Tries != 0 {
						t.Fatalf("record of %s is %+v, want the error and no tries", u, g)
					}
				}
				up.Store(true)
				n, err := r.c.Retry(t.Context(), crawl.Retried{URL: "http://a.test/7"})
				if n != 1 || err != nil {
					t.Errorf("Retry of a URL = %d, %v, want 1", n, err)
				}
				n, err = r.c.Retry(t.Context(), crawl.Retried{})
				if n != pages-1 || err != nil {
					t.Errorf("Retry of all = %d, %v, want %d", n, err, pages-1)
				}
				if c := r.db.Counters(); c.Failed != 0 {
					t.Errorf("%d URLs count as failed after all were retried", c.Failed)
				}
				r.wait(time.Hour)
				if c := r.db.Counters(); c.Pages != pages || len(r.givenUp()) != 0 {
					t.Errorf("counters %+v, %d records, want %d pages, no record",
						c, len(r.givenUp()), pages)
				}
			}, tc.change)
		})
	}
}

// A URL that fails although its host answers is given up alone, after ten tries: in a one-shot
// crawl within the patience, in a long one in days.
func TestGiveUpURL(t *testing.T) {
	for name, tc := range map[string]struct {
		bad         string
		change      func(*crawl.Config)
		least, most time.Duration
		tries       int // at most
	}{
		"cut, one shot":       {partial(cut), oneShot, 30 * time.Second, 12 * time.Minute, 20},
		"no answer, one shot": {"", oneShot, 30 * time.Second, 12 * time.Minute, 20},
		"503, one shot":       {unavailable, oneShot, 10 * time.Minute, 12 * time.Minute, 200},
		"cut, long run":       {partial(cut), longRun, 48 * time.Hour, 200 * time.Hour, 15},
		"503, long run":       {unavailable, longRun, 72 * time.Hour, 200 * time.Hour, 200},
	} {
		t.Run(name, func(t *testing.T) {
			w := &memoryWeb{page: func(_, path string, _ int) string {
				if path == "/0" {
					return tc.bad
				}
				return okPage
			}}
			inVirtualTime(t, w, func(t *testing.T, r *rig) {
				r.seedPages(2)
				next, begin := 2, time.Now()
				for len(r.givenUp()) == 0 && time.Since(begin) < tc.most+time.Hour {
					r.seed(store.URL(fmt.Sprintf("http://a.test/%d", next))) // the host answers
					next++
					time.Sleep(5*time.Second + time.Since(begin)/100)
				}
				if d := time.Since(begin); d < tc.least || d > tc.most {
					t.Errorf("given up after %v, want %v to %v", d, tc.least, tc.most)
				}
				tries := len(w.times("a.test", "/0"))
				if tries < 10 || tries > tc.tries {
					t.Errorf("%d tries, want 10 to %d", tries, tc.tries)
				}
				g, ok := r.givenUp()["http://a.test/0"]
				if !ok || g.Outcome == store.OutcomeNone || g.First.IsZero() {
					t.Errorf("record %+v, %v, want one with an outcome", g, ok)
				}
				r.wait(time.Hour)
				if c := r.db.Counters(); c.Pages != int64(next-1) || c.Failed != 1 {
					t.Errorf("counters %+v, want %d pages, 1 failed", c, next-1)
				}
			}, tc.change)
		})
	}
}

// A wait that is longer than the patience ends it: the reason is recorded at once.
func TestRetryAfterBeyondPatience(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*crawl.Config)
		pages  int64
	}{"one shot": {oneShot, 0}, "long run": {longRun, 3}} {
		t.Run(name, func(t *testing.T) {
			w := &memoryWeb{page: func(_, _ string, _ int) string { return okPage }}
			asked := 0
			w.page = func(_, _ string, _ int) string {
				if asked++; asked == 1 {
					return response(http.StatusTooManyRequests, "Retry-After: 3600\r\n", "")
				}
				return okPage
			}
			inVirtualTime(t, w, func(t *testing.T, r *rig) {
				r.seedPages(3)
				d := r.wait(2 * time.Hour)
				if c := r.db.Counters(); c.Pages != tc.pages || d < time.Hour && tc.pages > 0 {
					t.Errorf("%d pages after %v, want %d", c.Pages, d, tc.pages)
				}
				if n := len(r.givenUp()); n != 3-int(tc.pages) {
					t.Errorf("%d URLs given up, want %d", n, 3-tc.pages)
				}
			}, tc.change)
		})
	}
}

// switchedNetwork is a Network that a test switches.
type switchedNetwork struct {
	offline          atomic.Bool
	mu               sync.Mutex
	answered, failed int
}

func (n *switchedNetwork) Online() bool { return !n.offline.Load() }

func (n *switchedNetwork) Answered(netip.Addr) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.answered++
}

func (n *switchedNetwork) Failed(netip.Addr, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.failed++
}

// What fails while the network is down counts for nothing, whether it is known at once or found
// later. The crawl goes on as soon as the network is back.
func TestNetworkOutage(t *testing.T) {
	for _, late := range []time.Duration{0, 5 * time.Second, 2 * time.Hour} {
		t.Run(late.String(), func(t *testing.T) {
			var down atomic.Bool
			w := &memoryWeb{down: func() error {
				if down.Load() {
					return syscall.ENETUNREACH
				}
				return nil
			}}
			network := &switchedNetwork{}
			inVirtualTime(t, w, func(t *testing.T, r *rig) {
				r.seedPages(20)
				time.Sleep(5 * time.Second)
				since := time.Now()
				down.Store(true)
				time.Sleep(late)
				network.offline.Store(true)
				time.Sleep(time.Hour)
				down.Store(false)
				network.offline.Store(false)
				r.fatal(r.c.Forgive(since))
				if h := r.host("a.test").Health; h != (store.Health{}) {
					t.Errorf("host is %+v, want no failure", h)
				}
				if d := r.wait(time.Hour); d > 30*time.Second {
					t.Errorf("done %v after the outage, want at most 30s", d)
				}
				if c := r.db.Counters(); c.Pages != 20 || c.Failed != 0 {
					t.Errorf("counters %+v, want 20 pages", c)
				}
				network.mu.Lock()
				defer network.mu.Unlock()
				// The second robots.txt, if its first one expired meanwhile, is an answer, too.
				if n := w.requests(); network.answered != n || network.failed == 0 {
					t.Errorf("%d answers and %d failures reported, want %d and some",
						network.answered, network.failed, n)
				}
			}, func(c *crawl.Config) { c.Network = network })
		})
	}
}

// Whatever the site does, each URL is queued, planned, answered or given up with a record, and in
// one place only. Nothing that the operator or the network does in between changes that.
func TestNoURLLost(t *testing.T) {
	outer := t
	rapid.Check(t, func(t *rapid.T) {
		pages := rapid.IntRange(1, 12).Draw(t, "pages")
		answers := rapid.SliceOfN(rapid.SampledFrom([]string{
			okPage, okPage, "", partial(cut), unavailable, response(502, "", ""),
			response(404, "", ""), "nonsense\r\n\r\n",
			response(429, "Retry-After: 40\r\n", ""), response(503, "Retry-After: 9999999\r\n", ""),
		}), 1, 30).Draw(t, "answers")
		events := rapid.SliceOfN(rapid.IntRange(0, 4), 1, 6).Draw(t, "events")
		change := rapid.SampledFrom([]func(*crawl.Config){oneShot, longRun}).Draw(t, "config")
		n := 0
		var down atomic.Bool
		next := func() string {
			n++
			return answers[n%len(answers)]
		}
		w := &memoryWeb{
			page: func(string, string, int) string { return next() },
			down: func() error {
				if down.Load() {
					return syscall.ECONNREFUSED
				}
				return nil
			},
		}
		if rapid.Bool().Draw(t, "robots") {
			w.robots = func(string, int) string { return next() }
		}
		var lost []string
		inVirtualTime(outer, w, func(_ *testing.T, r *rig) {
			r.seedPages(pages)
			for _, e := range events {
				since := time.Now()
				switch e {
				case 0:
					down.Store(!down.Load())
				case 1:
					r.fatal(r.c.Forgive(since.Add(-time.Minute)))
				case 2:
					_, err := r.c.Retry(r.t.Context(), crawl.Retried{})
					r.fatal(err)
				case 3:
					time.Sleep(24 * time.Hour)
				}
				time.Sleep(time.Duration(e*e) * 90 * time.Second)
			}
			for i := range pages {
				u := store.URL(fmt.Sprintf("http://a.test/%d", i))
				if places := r.places(u); len(places) != 1 {
					lost = append(lost, fmt.Sprintf("%s is in %v", u, places))
				}
			}
		}, change)
		if len(lost) > 0 {
			t.Fatal(lost)
		}
	})
}

// places returns where a URL is.
func (r *rig) places(u store.URL) (all []string) {
	r.fatal(r.db.View(func(tx *store.Tx) error {
		err := tx.Queue(u.Host(), nil, func(e store.Entry) (bool, error) {
			if e.URL == u {
				all = append(all, "queue")
			}
			return true, nil
		})
		if _, e := tx.Visit(u); e == nil {
			all = append(all, "visits")
		}
		if _, e := tx.GivenUp(u); e == nil {
			all = append(all, "given up")
		}
		if p, e := tx.Page(u); e == nil && p.Outcome.Answered() &&
			p.Outcome != store.OutcomeThrottled && p.Status != http.StatusBadGateway {
			all = append(all, "answered")
		}
		return err
	}))
	return all
}

// A URL with a port that is not for HTTP is refused at once. Its host answers as before.
func TestForbiddenPort(t *testing.T) {
	for name, tc := range map[string]struct{ change func(*crawl.Config) }{
		"one shot": {oneShot},
		"long run": {longRun},
	} {
		t.Run(name, func(t *testing.T) {
			inVirtualTime(t, &memoryWeb{}, func(t *testing.T, r *rig) {
				r.seedPages(1)
				r.seed("http://a.test:25/mail")
				if d := r.wait(time.Hour); d > 30*time.Second {
					t.Errorf("ended after %v, want at most 30 s", d)
				}
				got := r.givenUp()
				if g := got["http://a.test:25/mail"]; g.Outcome != store.OutcomeRefused {
					t.Errorf("given up: %+v, want the URL with the port, refused", got)
				}
				if h := r.host("a.test").Health; h.State != store.HostAnswering {
					t.Errorf("host is %+v, want answering", h)
				}
			}, tc.change)
		})
	}
}

// TestExcusedFailureKeepsRetryAfter has a request in progress that is answered with Retry-After
// after the network was found to work again: the failure counts for nothing, but the host waits.
func TestExcusedFailureKeepsRetryAfter(t *testing.T) {
	w := &memoryWeb{page: func(_, _ string, nth int) string {
		if nth > 0 {
			return okPage
		}
		time.Sleep(5 * time.Second)
		return response(http.StatusServiceUnavailable, "Retry-After: 3600\r\n", "")
	}}
	inVirtualTime(t, w, func(t *testing.T, r *rig) {
		r.seedPages(1)
		time.Sleep(4 * time.Second)
		forgiven := time.Now()
		r.fatal(r.c.Forgive(forgiven))
		time.Sleep(2 * time.Hour)
		times := w.times("a.test", "/0")
		if len(times) != 2 || times[0].After(forgiven) || times[1].Sub(times[0]) < time.Hour {
			t.Errorf("requests at %v, want one before %v and one an hour later", times, forgiven)
		}
	})
}

// TestOriginIsNotGivenUpUnasked has a peer that cannot ask for a robots.txt for longer than the
// patience after it was unreachable once. That time does not count.
func TestOriginIsNotGivenUpUnasked(t *testing.T) {
	var fr *frontier.Frontier
	w := &memoryWeb{robots: func(host string, nth int) string {
		if nth == 0 {
			fr.DelayHost(host, time.Now().Add(20*time.Minute))
		}
		if nth < 2 {
			return unavailable
		}
		return response(http.StatusNotFound, "", "")
	}}
	inVirtualTime(t, w, func(t *testing.T, r *rig) {
		fr = r.fr
		r.seedPages(5)
		time.Sleep(time.Hour)
		if c := r.db.Counters(); c.Pages != 5 || c.Failed != 0 {
			t.Errorf("counters %+v, want 5 pages", c)
		}
	}, oneShot)
}
