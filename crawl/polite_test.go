package crawl_test

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
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
	for name, answer := range map[string]string{
		"500":   response(http.StatusInternalServerError, "", ""),
		"reset": "", "timeout": hang,
	} {
		t.Run(name, func(t *testing.T) {
			const bad, good = "a.test:8080", "a.test"
			w := &memoryWeb{robots: func(host string, _ int) string {
				if host == bad {
					return answer
				}
				return okPage
			}}
			inVirtualTime(t, w, func(t *testing.T, r *rig) {
				r.seedPages(10)
				for i := range 10 {
					r.seed(store.URL(fmt.Sprintf("http://%s/%d", bad, i)))
				}
				r.wait(time.Hour)
				robots, pages := w.count(bad)
				if robots < 2 || robots > 20 || pages > 0 {
					t.Errorf("the bad origin got %d requests for robots.txt, want 2 to 20, and "+
						"%d others, want none", robots, pages)
				}
				if robots, pages := w.count(good); robots != 1 || pages != 10 {
					t.Errorf("the good origin got %d requests for robots.txt, want 1, and "+
						"%d others, want 10", robots, pages)
				}
				if c := r.db.Counters(); c.Failed != 10 || c.Pages != 10 {
					t.Errorf("counters %+v", c)
				}
			}, oneShot, func(c *crawl.Config) { c.Patience = 3 * time.Minute })
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
	const wait = 100 * time.Second
	seconds := func() string { return strconv.Itoa(int(wait.Seconds())) }
	date := func() string { return time.Now().Add(wait).UTC().Format(http.TimeFormat) }
	forms := map[string]struct {
		status int
		value  func() string
	}{
		"seconds429.test": {http.StatusTooManyRequests, seconds},
		"seconds503.test": {http.StatusServiceUnavailable, seconds},
		"date429.test":    {http.StatusTooManyRequests, date},
		"date503.test":    {http.StatusServiceUnavailable, date},
	}
	w := &memoryWeb{page: func(host, _ string, nth int) string {
		if nth > 0 {
			return okPage
		}
		f := forms[host]
		return response(f.status, "Retry-After: "+f.value()+"\r\n", "")
	}}
	inVirtualTime(t, w, func(t *testing.T, r *rig) {
		r.ownMemoryHosts(slices.Collect(maps.Keys(forms))...)
		r.wait(time.Hour)
		for host := range forms {
			l := w.times(host, "/")
			if len(l) != 2 || (l[1].Sub(l[0])-wait).Abs() > 5*time.Second {
				t.Errorf("%s got requests at %v, want two, %v apart", host, l, wait)
			}
		}
		if c := r.db.Counters(); c.Pages != 4 || c.Failed != 0 {
			t.Errorf("counters %+v", c)
		}
	})
}

// Retry-After is also honoured, up to MaxThrottle, if the answer is final for its URL. In a page it
// means nothing.
func TestRetryAfterOfFinalAnswer(t *testing.T) {
	const wait, most = 100 * time.Second, 150 * time.Second
	for name, test := range map[string]struct {
		status, seconds int
		want            time.Duration
	}{
		"403": {http.StatusForbidden, 100, wait},
		"500": {http.StatusInternalServerError, 100, wait},
		"301": {http.StatusMovedPermanently, 100, wait},
		"404": {http.StatusNotFound, 86400, most},
		"200": {http.StatusOK, 100, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			w := &memoryWeb{page: func(_, path string, _ int) string {
				if path == "/2" {
					return okPage
				}
				return response(test.status, fmt.Sprintf("Content-Type: text/html\r\n"+
					"Location: http://b.test/\r\nRetry-After: %d\r\n", test.seconds), "")
			}}
			inVirtualTime(t, w, func(t *testing.T, r *rig) {
				a := memoryAddr(0)
				r.fatal(r.fr.AddHost("a.test", store.SubnetOf(a), a, time.Time{}))
				r.seed("http://a.test/1")
				time.Sleep(5 * time.Second)
				r.seed("http://a.test/2")
				queued := time.Now()
				time.Sleep(time.Hour)
				first, second := w.times("a.test", "/1"), w.times("a.test", "/2")
				if len(first) != 1 || len(second) != 1 {
					t.Fatalf("requests at %v and %v, want one each", first, second)
				}
				at := first[0].Add(test.want)
				if at.Before(queued) {
					at = queued
				}
				if d := second[0].Sub(at); d < 0 || d > 3*time.Second {
					t.Errorf("the second request came %v after the first, want %v",
						second[0].Sub(first[0]), test.want)
				}
			}, func(c *crawl.Config) { c.MaxThrottle = most })
		})
	}
}
