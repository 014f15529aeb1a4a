package crawl_test

import (
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fxamacker/cbor/v2"

	"peerd/crawl"
	"peerd/crawl/robots"
	"peerd/store"
)

func TestRobots(t *testing.T) {
	const gap = 5 * time.Millisecond
	r := newRig(t, "", gap, nil)
	s := newSite(t, 31, 1)
	r.own("a.test", s)
	s.text("/robots.txt",
		"User-agent: peerd\nDisallow: /private\nCrawl-delay: 0.05\n\nUser-agent: *\nDisallow: /\n")
	s.html("/", "/private/x", "/private", "/public")
	s.html("/public")
	s.html("/private/", "/never")
	r.seed(s.url("a.test", "/"))
	r.crawl()
	got := s.count()
	if got["/"] != 1 || got["/public"] != 1 || got["/robots.txt"] != 1 || len(got) != 3 {
		t.Errorf("requests %v", got)
	}
	if c := r.db.Counters(); c.RobotsDenied != 2 || c.Pages != 2 || c.Failed != 0 {
		t.Errorf("counters %+v", c)
	}
	if d := s.apart(t); d < 50*time.Millisecond {
		t.Errorf("requests %v apart, want at least the crawl delay", d)
	}
}

// An origin with an unreachable robots.txt costs three requests and its own URLs; the
// host's other origins continue.
func TestRobotsUnreachable(t *testing.T) {
	for name, h := range map[string]http.HandlerFunc{
		"500": func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusInternalServerError)
		},
		"reset":   func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"timeout": func(_ http.ResponseWriter, q *http.Request) { <-q.Context().Done() },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, "", time.Millisecond, func(c *crawl.Config) {
				c.FetchTimeout, c.Patience = 50*time.Millisecond, 200*time.Millisecond
			})
			bad, good := newSite(t, 32, 1), newSite(t, 32, 1) // two ports
			r.own("a.test", bad)
			bad.mux.HandleFunc("/robots.txt", h)
			for i := range 10 {
				good.html(fmt.Sprintf("/%d", i))
				r.seed(bad.url("a.test", fmt.Sprintf("/%d", i)),
					good.url("a.test", fmt.Sprintf("/%d", i)))
			}
			r.crawl()
			r.until("the server has logged all requests", func() bool {
				return len(bad.log()) >= 2
			})
			if got := bad.count(); got["/robots.txt"] > 20 || len(got) != 1 {
				t.Errorf("requests to the bad origin: %v", got)
			}
			if got := good.count(); len(got) != 11 {
				t.Errorf("requests to the good origin: %v", got)
			}
			if c := r.db.Counters(); c.Failed != 10 || c.Pages != 10 {
				t.Errorf("counters %+v", c)
			}
		})
	}
}

// The gap applies between the redirects of a robots.txt. A redirect that leaves the host
// means no robots.txt.
func TestRobotsRedirects(t *testing.T) {
	const gap = 30 * time.Millisecond
	r := newRig(t, "", gap, nil)
	a, b := newSite(t, 34, 1), newSite(t, 34, 2)
	r.own("a.test", a)
	r.own("b.test", b)
	a.mux.Handle("/robots.txt", http.RedirectHandler("/r1", http.StatusFound))
	a.mux.Handle("/r1", http.RedirectHandler("/r2", http.StatusFound))
	a.text("/r2", "User-agent: *\nDisallow: /no")
	a.html("/")
	b.mux.Handle("/robots.txt", http.RedirectHandler(string(a.url("a.test", "/r2")),
		http.StatusFound))
	b.html("/no")
	r.seed(a.url("a.test", "/"), a.url("a.test", "/no"), b.url("b.test", "/no"))
	r.crawl()
	if got := a.count(); got["/"] != 1 || got["/r2"] != 1 || got["/no"] != 0 {
		t.Errorf("requests to a: %v", got)
	}
	if got := b.count(); got["/no"] != 1 {
		t.Errorf("requests to b: %v", got)
	}
	if d := a.apart(t); d < gap {
		t.Errorf("requests %v apart, want %v", d, gap)
	}
}

// A robots.txt result that came with a subnet is used for a day, unless it only says that
// the file was unreachable.
func TestStoredRobots(t *testing.T) {
	now := time.Now()
	closed := []byte("User-agent: *\nDisallow: /")
	for name, tc := range map[string]struct {
		v     robots.Result
		valid bool
	}{
		"fresh": {robots.Result{Fetched: now.Add(-time.Hour), Expires: now.Add(time.Hour),
			Status: 200, Body: closed}, true},
		"forever": {robots.Result{Fetched: now.Add(-48 * time.Hour),
			Expires: now.AddDate(100, 0, 0), Status: 200, Body: closed}, false},
		"from ahead": {robots.Result{Fetched: now.Add(48 * time.Hour),
			Expires: now.AddDate(100, 0, 0), Status: 200, Body: closed}, false},
		"expired": {robots.Result{Fetched: now.Add(-2 * time.Hour),
			Expires: now.Add(-time.Hour), Status: 200, Body: closed}, false},
		"unreachable": {robots.Result{Fetched: now.Add(-time.Minute), Expires: now.Add(time.Hour),
			Unreachable: true}, false},
		"rubbish": {robots.Result{}, false},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, "", 0, nil)
			s := newSite(t, 35, 1)
			r.own("a.test", s)
			s.html("/")
			raw, err := cbor.Marshal(tc.v)
			r.fatal(err)
			if name == "rubbish" {
				raw = []byte{0xff, 1, 2}
			}
			u := s.url("a.test", "/")
			r.fatal(r.db.Update(func(tx *store.Tx) error { return tx.PutRobots(u.Origin(), raw) }))
			r.seed(u)
			r.crawl()
			got := s.count()
			if believed := got["/robots.txt"] == 0; believed != tc.valid ||
				(got["/"] == 0) != tc.valid {
				t.Errorf("requests %v, with a valid stored result: %v", got, tc.valid)
			}
		})
	}
}

// Retry-After is honoured in both forms, and throttling does not cost the URL.
func TestRetryAfter(t *testing.T) {
	t.Parallel()
	r := newRig(t, "", 0, nil)
	forms := map[string]func() string{
		"seconds": func() string { return "1" },
		"date": func() string {
			return time.Now().Add(4 * time.Second).UTC().Format(http.TimeFormat)
		},
	}
	sites := map[string]*site{}
	for name, form := range forms {
		for _, status := range []int{http.StatusTooManyRequests, http.StatusServiceUnavailable} {
			host := fmt.Sprintf("%s%d.test", name, status)
			s := newSite(t, 36, byte(len(sites)+1))
			r.own(host, s)
			var n atomic.Int64
			s.mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
				if n.Add(1) == 2 { // the first is robots.txt
					w.Header().Set("Retry-After", form())
					w.WriteHeader(status)
				}
			})
			r.seed(s.url(host, "/"))
			sites[host] = s
		}
	}
	r.crawl()
	for host, s := range sites {
		l := s.log()
		if len(l) != 3 || l[2].start.Sub(l[1].end) < 990*time.Millisecond {
			t.Errorf("%s: %+v", host, l)
		}
	}
	if c := r.db.Counters(); c.Pages != 4 || c.Failed != 0 {
		t.Errorf("counters %+v", c)
	}
}
