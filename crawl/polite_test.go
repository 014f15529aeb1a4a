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
	s.text("/robots.txt", "User-agent: peerd\nDisallow: /private\nCrawl-delay: 0.05\n\nUser-agent: *\nDisallow: /\n")
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
		t.Errorf("requests %v apart, want the crawl delay", d)
	}
}

// One origin whose robots.txt cannot be had costs three requests and its own
// URLs; the others of the host go on.
func TestRobotsUnreachable(t *testing.T) {
	for name, h := range map[string]http.HandlerFunc{
		"500":     func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) },
		"reset":   func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"timeout": func(_ http.ResponseWriter, q *http.Request) { <-q.Context().Done() },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, "", time.Millisecond, func(c *crawl.Config) { c.FetchTimeout = 200 * time.Millisecond })
			bad, good := newSite(t, 32, 1), newSite(t, 32, 1) // two ports
			r.own("a.test", bad)
			bad.mux.HandleFunc("/robots.txt", h)
			for i := range 10 {
				good.html(fmt.Sprintf("/%d", i))
				r.seed(bad.url("a.test", fmt.Sprintf("/%d", i)), good.url("a.test", fmt.Sprintf("/%d", i)))
			}
			r.crawl()
			r.until("the server has noticed", func() bool { return len(bad.log()) >= 3 })
			if got := bad.count(); got["/robots.txt"] != 3 || len(got) != 1 {
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

// A robots.txt that comes back counts, and what it throttles is waited for.
func TestRobotsRecovers(t *testing.T) {
	t.Parallel()
	r := newRig(t, "", 0, nil)
	s := newSite(t, 33, 1)
	r.own("a.test", s)
	var n atomic.Int64
	s.mux.HandleFunc("/robots.txt", func(w http.ResponseWriter, _ *http.Request) {
		switch k := n.Add(1); {
		case k <= 6:
			w.WriteHeader(http.StatusTooManyRequests)
		case k == 7:
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusServiceUnavailable)
		default:
			fmt.Fprint(w, "User-agent: *\nDisallow: /no\n")
		}
	})
	s.html("/")
	r.seed(s.url("a.test", "/"), s.url("a.test", "/no"))
	r.crawl()
	if got := s.count(); got["/robots.txt"] != 8 || got["/"] != 1 || got["/no"] != 0 {
		t.Errorf("requests %v", got)
	}
	if l := s.log(); l[7].start.Sub(l[6].end) < time.Second {
		t.Errorf("asked again after %v", l[7].start.Sub(l[6].end))
	}
}

// The gap is kept between the redirects of a robots.txt; one that leaves the
// host is no robots.txt.
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
	b.mux.Handle("/robots.txt", http.RedirectHandler(string(a.url("a.test", "/r2")), http.StatusFound))
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

// A verdict that came with a subnet is believed for a day, and only if it says
// something.
func TestStoredRobots(t *testing.T) {
	now := time.Now()
	closed := []byte("User-agent: *\nDisallow: /")
	for name, tc := range map[string]struct {
		v     robots.Verdict
		valid bool
	}{
		"fresh":       {robots.Verdict{Fetched: now.Add(-time.Hour), Expires: now.Add(time.Hour), Status: 200, Body: closed}, true},
		"for ever":    {robots.Verdict{Fetched: now.Add(-48 * time.Hour), Expires: now.AddDate(100, 0, 0), Status: 200, Body: closed}, false},
		"from ahead":  {robots.Verdict{Fetched: now.Add(48 * time.Hour), Expires: now.AddDate(100, 0, 0), Status: 200, Body: closed}, false},
		"expired":     {robots.Verdict{Fetched: now.Add(-2 * time.Hour), Expires: now.Add(-time.Hour), Status: 200, Body: closed}, false},
		"unreachable": {robots.Verdict{Fetched: now.Add(-time.Minute), Expires: now.Add(time.Hour), Unreachable: true}, false},
		"rubbish":     {robots.Verdict{}, false},
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
			if believed := got["/robots.txt"] == 0; believed != tc.valid || (got["/"] == 0) != tc.valid {
				t.Errorf("requests %v, verdict valid %v", got, tc.valid)
			}
		})
	}
}

// Retry-After is honoured in both forms, and "later" does not cost the URL.
func TestRetryAfter(t *testing.T) {
	t.Parallel()
	r := newRig(t, "", 0, nil)
	forms := map[string]func() string{
		"seconds": func() string { return "1" },
		"date":    func() string { return time.Now().Add(4 * time.Second).UTC().Format(http.TimeFormat) },
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

// How often what is asked for.
func TestTries(t *testing.T) {
	later := func(w http.ResponseWriter) { w.WriteHeader(http.StatusServiceUnavailable) }
	broken := func(http.ResponseWriter) { panic(http.ErrAbortHandler) }
	fine := func(http.ResponseWriter) {}
	repeat := func(n int, f func(http.ResponseWriter)) (all []func(http.ResponseWriter)) {
		for range n {
			all = append(all, f)
		}
		return all
	}
	for name, tc := range map[string]struct {
		answers []func(http.ResponseWriter) // the last one for ever
		asked   int
		ok      bool
	}{
		"throttled nine times": {append(repeat(9, later), fine), 10, true},
		"throttled for ever":   {repeat(1, later), 10, false},
		"reset twice":          {append(repeat(2, broken), fine), 3, true},
		"reset for ever":       {repeat(1, broken), 3, false},
		"throttled, reset":     {append(append(repeat(5, later), broken), fine), 7, true},
		"timeout for ever":     {nil, 3, false},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, "", time.Millisecond, func(c *crawl.Config) { c.FetchTimeout = 100 * time.Millisecond })
			s := newSite(t, 37, 1)
			r.own("a.test", s)
			s.html("/next")
			var n atomic.Int64
			s.mux.HandleFunc("/x", func(w http.ResponseWriter, q *http.Request) {
				k := int(n.Add(1)) - 1
				if tc.answers == nil {
					<-q.Context().Done()
					return
				}
				tc.answers[min(k, len(tc.answers)-1)](w)
			})
			r.seed(s.url("a.test", "/x"), s.url("a.test", "/next"))
			r.crawl()
			if n.Load() != int64(tc.asked) || s.count()["/next"] != 1 {
				t.Errorf("%d requests, want %d; log %v", n.Load(), tc.asked, s.count())
			}
			p, ok := r.page(s.url("a.test", "/x"))
			if !ok || p.Outcome.Answered() && p.Outcome != store.OutcomeThrottled != tc.ok || (r.db.Counters().Failed == 0) != tc.ok {
				t.Errorf("kept %v with outcome %v, counters %+v", ok, p.Outcome, r.db.Counters())
			}
			if tc.answers != nil { // else the server learns late that nobody listens
				s.apart(t)
			}
		})
	}
}

// A number of tries from another peer can be anything.
func TestForeignTries(t *testing.T) {
	for _, tries := range []int{-1 << 40, -1, 29, 1 << 40} {
		r := newRig(t, "", 0, nil)
		s := newSite(t, 38, 1)
		r.own("a.test", s)
		s.mux.HandleFunc("/x", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
		u := s.url("a.test", "/x")
		r.fatal(r.db.Update(func(tx *store.Tx) error {
			return tx.Import("a.test", []store.Entry{{URL: u, Tries: tries}}, nil)
		}))
		r.fatal(r.db.Update(func(tx *store.Tx) error { // the record as a handover leaves it
			h, err := tx.Host("a.test")
			h.Pending = 1
			return err
		}))
		home := store.SubnetOf(s.addr.Addr())
		r.fr.Adopt(home, []store.Host{{Name: "a.test", Subnet: home, Addr: s.addr.Addr(), Pending: 1}}, time.Time{})
		r.crawl()
		want := 3
		if tries > 0 {
			want = 1
		}
		if got := s.count()["/x"]; got != want {
			t.Errorf("%d tries before: asked %d times, want %d", tries, got, want)
		}
	}
}
