package crawl_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
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
	"peerd/crawl/robots"
	"peerd/store"
	"peerd/store/kv"
)

// memoryWeb is the servers of all hosts, for tests in virtual time.
type memoryWeb struct {
	// robots returns the response to the nth request for the robots.txt of a host, counted
	// from 0; if nil, the files are empty.
	robots func(host string, nth int) string
	// page returns the response to the nth request for another path. If nil, all pages exist
	// and are empty. The connection is closed after a response that is shorter than it says, and
	// stays open without more after one that ends with hang.
	page func(host, path string, nth int) string
	// down returns the error of new connections; nil: they are accepted. A request on a
	// connection that exists is then not answered.
	down func() error

	mu   sync.Mutex
	hits []hit
}

// errDropped is an error of memoryWeb.down: packets are dropped.
var errDropped = errors.New("dropped")

// The ends of responses that are not complete.
const (
	hang = "\x00hang"
	cut  = "\x00cut"
)

// partial returns the beginning of a response.
func partial(end string) string {
	return "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 1000\r\n\r\nbegin" + end
}

// response returns an HTTP response with a status, field lines and a body.
func response(status int, fields, body string) string {
	return fmt.Sprintf("HTTP/1.1 %d %s\r\nContent-Length: %d\r\n%s\r\n%s",
		status, http.StatusText(status), len(body), fields, body)
}

func (w *memoryWeb) dial(ctx context.Context, _, addr string) (net.Conn, error) {
	if w.down != nil {
		switch err := w.down(); {
		case errors.Is(err, errDropped):
			<-ctx.Done()
			return nil, ctx.Err()
		case err != nil:
			return nil, err
		}
	}
	near, far := net.Pipe()
	go func() {
		defer far.Close()
		for in := bufio.NewReader(far); ; {
			req, err := http.ReadRequest(in)
			if err != nil {
				return
			}
			if w.down != nil && w.down() != nil {
				return
			}
			text, hangs := strings.CutSuffix(w.answer(req.Host, req.URL.Path), hang)
			_, err = io.WriteString(far, text)
			if hangs {
				_, _ = io.Copy(io.Discard, far)
			}
			if _, partial := strings.CutSuffix(text, cut); partial || err != nil || text == "" {
				return
			}
		}
	}()
	return pipeEnd{near, netip.MustParseAddrPort(addr)}, nil
}

func (w *memoryWeb) answer(host, path string) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	nth := len(w.timesLocked(host, path))
	w.hits = append(w.hits, hit{host: host, path: path, start: time.Now()})
	switch {
	case path == "/robots.txt" && w.robots != nil:
		return w.robots(host, nth)
	case path != "/robots.txt" && w.page != nil:
		return w.page(host, path, nth)
	}
	return response(http.StatusOK, "Content-Type: text/html\r\n", "")
}

// times returns when a path of a host was requested.
func (w *memoryWeb) times(host, path string) []time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.timesLocked(host, path)
}

func (w *memoryWeb) timesLocked(host, path string) (times []time.Time) {
	for _, h := range w.hits {
		if h.host == host && h.path == path {
			times = append(times, h.start)
		}
	}
	return times
}

// count returns the numbers of requests for the robots.txt of a host and for its other paths.
func (w *memoryWeb) count(host string) (robots, others int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, h := range w.hits {
		switch {
		case h.host != host:
		case h.path == "/robots.txt":
			robots++
		default:
			others++
		}
	}
	return robots, others
}

// gaps returns the times between the requests for the robots.txt of a host.
func (w *memoryWeb) gaps(host string) (gaps []time.Duration) {
	times := w.times(host, "/robots.txt")
	for i := 1; i < len(times); i++ {
		gaps = append(gaps, times[i].Sub(times[i-1]))
	}
	return gaps
}

// inVirtualTime runs test in virtual time, with a crawler of the servers of w that runs already.
func inVirtualTime(
	t *testing.T, w *memoryWeb, test func(t *testing.T, r *rig), change ...func(*crawl.Config),
) {
	t.Helper()
	// The encoder of the store creates channels when it is used first, and keeps them: they must
	// not belong to the bubble.
	if _, err := (store.Page{URL: "http://a.test/"}).Record(); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		cfg := fetch.DefaultConfig()
		cfg.UserAgent, cfg.Dial = "peerd-test", w.dial
		cfg.Guard = fetch.NewGuard([]netip.Prefix{netip.MustParsePrefix("203.0.0.0/16")})
		fetcher, err := fetch.New(cfg)
		fatal(t, err)
		defer fetcher.Close()
		r := newRigOn(t, "", store.Options{Disk: kv.NewDisk()}, time.Second, nil,
			func(c *crawl.Config) {
				c.Fetcher, c.MaxTries = fetcher, 10
				c.BackOff, c.MaxBackOff, c.MaxThrottle = 2*time.Second, time.Hour, 24*time.Hour
				c.Patience = 72 * time.Hour
				for _, f := range change {
					f(c)
				}
			})
		r.c.SetCheckInterval(20 * time.Second) // some tests take weeks
		stop := r.start()
		defer stop()
		test(t, r)
	})
}

// memoryAddr is the address of the nth host in virtual time.
func memoryAddr(n int) netip.Addr { return netip.AddrFrom4([4]byte{203, 0, byte(113 + n), 9}) }

// ownMemoryHosts assigns hosts to the crawler, each in a subnet of its own, and queues a page of
// each.
func (r *rig) ownMemoryHosts(hosts ...string) {
	r.t.Helper()
	for i, host := range hosts {
		a := memoryAddr(i)
		r.fatal(r.fr.AddHost(host, store.SubnetOf(a), a, time.Time{}))
		r.seed(store.URL("http://" + host + "/"))
	}
}

// checkBackOff fails unless each gap is about twice as long as the one before, from a minute to
// a day, or as long as the last request was late.
func checkBackOff(t *testing.T, gaps []time.Duration, late time.Duration) {
	t.Helper()
	least := time.Minute
	for i, d := range gaps {
		if most := least + least/3 + late; d < least || d > most {
			t.Errorf("gap %d is %v, want %v to %v", i, d, least, most)
		}
		least = min(2*least, 18*time.Hour)
	}
}

// TestRobotsThrottled verifies the back-off of a host that never serves its robots.txt, without
// Retry-After. Its page is given up after the patience.
func TestRobotsThrottled(t *testing.T) {
	w := &memoryWeb{robots: func(host string, _ int) string {
		if host == "b.test" {
			return response(http.StatusNotFound, "", "")
		}
		return response(http.StatusTooManyRequests, "", "")
	}}
	inVirtualTime(t, w, func(t *testing.T, r *rig) {
		r.ownMemoryHosts("a.test", "b.test")
		begin := time.Now()
		for !r.idle() {
			time.Sleep(time.Minute)
		}
		if d := time.Since(begin); d < 72*time.Hour || d > 72*time.Hour+2*time.Minute {
			t.Errorf("the page was given up after %v, want 72 hours", d)
		}
		if n := len(w.times("b.test", "/")); n != 1 {
			t.Errorf("%d requests for a page of another host, want 1", n)
		}
		p, ok := r.page("http://a.test/")
		if !ok || p.Outcome != store.OutcomeRobotsUnreachable {
			t.Errorf("page stored: %v, outcome %v, want RobotsUnreachable", ok, p.Outcome)
		}
		g := r.givenUp()["http://a.test/"]
		if g.Outcome != store.OutcomeRobotsUnreachable || g.Error != "robots.txt: status 429" {
			t.Errorf("record %+v, want RobotsUnreachable with the status", g)
		}
		gaps := w.gaps("a.test")
		checkBackOff(t, gaps[:len(gaps)-1], 2*time.Second) // the last try comes when patience ends
		if len(gaps) < 13 || len(gaps) > 19 {
			t.Errorf("gaps %v, want 13 to 19", gaps)
		}
		if n := len(w.times("a.test", "/")); n != 0 {
			t.Errorf("%d requests for the page, want none", n)
		}
	})
}

// TestRobotsRetryAfter verifies that Retry-After is honoured in both forms, up to a day.
func TestRobotsRetryAfter(t *testing.T) {
	seconds := func(n int) func() string {
		return func() string { return fmt.Sprint(n) }
	}
	for name, tc := range map[string]struct {
		status int
		value  func() string
		want   time.Duration
	}{
		"seconds":          {http.StatusTooManyRequests, seconds(7200), 2 * time.Hour},
		"less than minute": {http.StatusTooManyRequests, seconds(20), 20 * time.Second},
		"503":              {http.StatusServiceUnavailable, seconds(1800), 30 * time.Minute},
		"too long":         {http.StatusTooManyRequests, seconds(1e6), 24 * time.Hour},
		"date": {http.StatusTooManyRequests, func() string {
			return time.Now().Add(3 * time.Hour).UTC().Format(http.TimeFormat)
		}, 3 * time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			w := &memoryWeb{robots: func(_ string, nth int) string {
				if nth == 2 {
					return response(http.StatusOK, "", "User-agent: *\nDisallow: /no\n")
				}
				return response(tc.status, "Retry-After: "+tc.value()+"\r\n", "")
			}}
			inVirtualTime(t, w, func(t *testing.T, r *rig) {
				r.ownMemoryHosts("a.test")
				r.seed("http://a.test/no")
				for !r.idle() {
					time.Sleep(time.Second)
				}
				gaps := w.gaps("a.test")
				if len(gaps) != 2 {
					t.Fatalf("gaps %v, want 2", gaps)
				}
				for _, d := range gaps {
					if d < tc.want-time.Second || d > tc.want+4*time.Second {
						t.Errorf("gap %v, want %v", d, tc.want)
					}
				}
				if n := len(w.times("a.test", "/")); n != 1 {
					t.Errorf("%d requests for the page, want 1", n)
				}
				if n := len(w.times("a.test", "/no")); n != 0 {
					t.Errorf("%d requests for the disallowed page, want none", n)
				}
			})
		})
	}
}

// TestRobotsRecovers verifies that the rules are used once the file is served, and that the next
// back-off starts at the beginning.
func TestRobotsRecovers(t *testing.T) {
	const served = 8
	w := &memoryWeb{robots: func(_ string, nth int) string {
		switch nth {
		case served - 1:
			return response(http.StatusServiceUnavailable, "Retry-After: 100\r\n", "")
		case served:
			return response(http.StatusOK, "", "User-agent: *\nDisallow: /no\n")
		}
		return response(http.StatusTooManyRequests, "", "")
	}}
	inVirtualTime(t, w, func(t *testing.T, r *rig) {
		r.ownMemoryHosts("a.test")
		r.seed("http://a.test/no")
		for !r.idle() {
			time.Sleep(time.Minute)
		}
		gaps := w.gaps("a.test")
		if len(gaps) != served {
			t.Fatalf("gaps %v, want %d", gaps, served)
		}
		last := len(gaps) - 1 // after an answer with Retry-After
		checkBackOff(t, gaps[:last], 2*time.Second)
		if gaps[last] < gaps[last-1] {
			t.Errorf("gaps %v, want a longer one at the end", gaps)
		}

		// The copy of the file stays in force. It is requested when it expires, again after ten
		// minutes at least, and after the back-off when that is longer.
		time.Sleep(25 * time.Hour)
		for i := range 600 {
			r.seed(store.URL(fmt.Sprintf("http://a.test/%d", i)),
				store.URL(fmt.Sprintf("http://a.test/no/%d", i)))
			time.Sleep(time.Minute)
		}
		gaps = w.gaps("a.test")[served+1:]
		if len(gaps) < 4 {
			t.Fatalf("gaps %v, want at least 4", gaps)
		}
		least := 10 * time.Minute // at first; then as long as it has been unreachable
		for i, d := range gaps {
			if d < least || d > 2*least+2*time.Minute { // a page a minute
				t.Errorf("gap %d with a copy is %v, want %v to %v", i, d, least, 2*least)
			}
			if i > 0 {
				least *= 2
			}
		}
		if n := len(w.times("a.test", "/599")); n != 1 {
			t.Errorf("%d requests for an allowed page, want 1", n)
		}
		for _, h := range w.hits {
			if strings.HasPrefix(h.path, "/no") {
				t.Errorf("requested %s, which is disallowed", h.path)
			}
		}
	})
}

// TestRobotsThrottledWithCopy verifies that the host waits for Retry-After even if a copy of the
// file, or its absence, is known.
func TestRobotsThrottledWithCopy(t *testing.T) {
	w := &memoryWeb{robots: func(string, int) string {
		return response(http.StatusServiceUnavailable, "Retry-After: 1800\r\n", "")
	}}
	inVirtualTime(t, w, func(t *testing.T, r *rig) {
		r.storeRobots("http://a.test", robots.Result{
			Fetched: time.Now().Add(-48 * time.Hour), Expires: time.Now().Add(-24 * time.Hour),
			Status: http.StatusNotFound,
		})
		r.ownMemoryHosts("a.test")
		for !r.idle() {
			time.Sleep(time.Minute)
		}
		file, page := w.times("a.test", "/robots.txt"), w.times("a.test", "/")
		if len(file) != 1 || len(page) != 1 {
			t.Fatalf("%d requests for robots.txt and %d for the page, want 1 and 1",
				len(file), len(page))
		}
		if d := page[0].Sub(file[0]); d < 30*time.Minute || d > 31*time.Minute {
			t.Errorf("page requested %v after robots.txt, want 30m", d)
		}
	})
}

// TestRobotsThrottleOutlivesHost verifies that the robots.txt is not requested early if the
// frontier has lost the wait of the host, as when the host leaves and returns.
func TestRobotsThrottleOutlivesHost(t *testing.T) {
	w := &memoryWeb{robots: func(_ string, nth int) string {
		if nth < 5 {
			return response(http.StatusTooManyRequests, "", "")
		}
		return response(http.StatusNotFound, "", "")
	}}
	inVirtualTime(t, w, func(t *testing.T, r *rig) {
		r.ownMemoryHosts("a.test")
		home := store.SubnetOf(memoryAddr(0))
		for !r.idle() {
			time.Sleep(11 * time.Second)
			if _, err := r.fr.EvictHost(t.Context(), "a.test"); err != nil {
				t.Fatal(err)
			}
			var rec store.Host
			r.fatal(r.db.Update(func(tx *store.Tx) error {
				h, err := tx.Host("a.test")
				if err == nil {
					h.NextAt = time.Time{}
					rec = *h
				}
				return err
			}))
			if rec.Subnet != home {
				t.Fatalf("host %+v, want subnet %v", rec, home)
			}
			r.fr.AdoptHost(rec, time.Time{})
		}
		gaps := w.gaps("a.test")
		if len(gaps) != 5 {
			t.Fatalf("gaps %v, want 5", gaps)
		}
		checkBackOff(t, gaps, 15*time.Second)
	})
}
