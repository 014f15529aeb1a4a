package crawl_test

import (
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"peerd/crawl"
	"peerd/store"
)

// faulty closes connections without an answer while broken returns true, except for
// robots.txt.
func (s *site) faulty(broken func(path string) bool) {
	s.text("/robots.txt", "")
	s.mux.HandleFunc("/", func(w http.ResponseWriter, q *http.Request) {
		if broken(q.URL.Path) {
			panic(http.ErrAbortHandler)
		}
		w.Header().Set("Content-Type", "text/html")
	})
}

// A dead host costs few requests, however many URLs it has. All URLs are recorded, and
// other hosts are not delayed.
func TestDeadHost(t *testing.T) {
	const n = 60
	w := &memoryWeb{page: func(host, _ string, _ int) string {
		if host == "dead.test" {
			return ""
		}
		return okPage
	}}
	inVirtualTime(t, w, func(t *testing.T, r *rig) {
		hosts := []string{"dead.test", "well.test"}
		r.ownMemoryHosts(hosts...)
		for _, host := range hosts {
			for k := 1; k < n; k++ {
				r.seed(store.URL(fmt.Sprintf("http://%s/%d", host, k)))
			}
		}
		begin := time.Now()
		r.wait(time.Hour)
		if _, got := w.count("dead.test"); got < 3 || got > 40 {
			t.Errorf("%d requests to the dead host, want 3 to 40", got)
		}
		got, took := w.requestsAfter("well.test", begin)
		if got != n || took > 2*n*time.Second {
			t.Errorf("%d requests to the other host within %v, want %d within %v", got, took, n,
				2*n*time.Second)
		}
		if c := r.db.Counters(); c.Failed != n || c.Pages != n {
			t.Errorf("counters %+v", c)
		}
		for k := range n {
			u := store.URL("http://dead.test/")
			if k > 0 {
				u += store.URL(strconv.Itoa(k))
			}
			if p, ok := r.page(u); !ok || p.Outcome != store.OutcomeReset {
				t.Errorf("page %d of the dead host: %v %v", k, ok, p.Outcome)
			}
		}
	}, oneShot, func(c *crawl.Config) { c.Workers = 2 })
}

// Delegate.Unresponsive is called for a host that does not answer, even for its robots.txt:
// it may have moved before it was first asked.
func TestUnresponsiveHosts(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	called := map[string]int{}
	r := newRig(t, "", 0, func(c *crawl.Config) {
		c.Patience = 50 * time.Millisecond
		c.Delegate.(*rig).unresponsive = func(host string) {
			mu.Lock()
			defer mu.Unlock()
			called[host]++
		}
	})
	well, dead, mute := newSite(t, 77, 1), newSite(t, 77, 2), newSite(t, 77, 3)
	well.faulty(func(string) bool { return false })
	dead.faulty(func(string) bool { return true })
	mute.mux.HandleFunc("/", func(http.ResponseWriter, *http.Request) {
		panic(http.ErrAbortHandler)
	})
	for host, s := range map[string]*site{"well.test": well, "dead.test": dead, "mute.test": mute} {
		r.own(host, s)
		r.seed(s.url(host, "/"))
	}
	r.crawl()
	mu.Lock()
	defer mu.Unlock()
	if called["well.test"] != 0 || called["dead.test"] == 0 || called["mute.test"] == 0 {
		t.Errorf("Unresponsive called for %v", called)
	}
}

// A host that comes back loses no URL, even if it has so few that every probe would be the
// last try of one.
func TestHostComesBack(t *testing.T) {
	t.Parallel()
	const n = 4
	r := newRig(t, "", 0, func(c *crawl.Config) { c.Patience = time.Hour })
	s := newSite(t, 68, 1)
	r.own("a.test", s)
	var tries atomic.Int64
	s.faulty(func(string) bool { return tries.Add(1) <= 14 })
	for i := range n {
		r.seed(s.url("a.test", fmt.Sprintf("/%d", i)))
	}
	r.crawl()
	if c := r.db.Counters(); c.Pages != n || c.Failed != 0 {
		t.Errorf("counters %+v; requests %v", c, s.count())
	}
}

// The requests per day are limited, whatever their result and across restarts. Other hosts
// continue.
func TestHostDay(t *testing.T) {
	const most = 6
	today := time.Now().UTC().YearDay()
	dir := t.TempDir()
	limits := func(c *crawl.Config) { c.MaxRequestsPerHostDay = most }
	a, b := newSite(t, 69, 1), newSite(t, 69, 2)
	var n atomic.Int64
	a.faulty(func(string) bool { return n.Add(1)%2 == 0 })
	b.faulty(func(string) bool { return false })
	r := newRig(t, dir, 0, limits)
	r.own("a.test", a)
	r.own("b.test", b)
	for i := range 20 {
		r.seed(a.url("a.test", fmt.Sprintf("/%d", i)))
	}
	for i := range most - 1 {
		r.seed(b.url("b.test", fmt.Sprintf("/%d", i)))
	}
	stop := r.start()
	r.until("the day's requests are made", func() bool {
		return len(a.log()) >= most && len(b.log()) >= most &&
			r.host("a.test").DayCount >= most && r.host("b.test").DayCount >= most
	})
	stop()
	r.fatal(r.db.Close())
	r = newRig(t, dir, 0, limits)
	c := newSite(t, 69, 3)
	c.faulty(func(string) bool { return false })
	r.own("c.test", c)
	r.seed(c.url("c.test", "/"))
	stop = r.start()
	r.until("another host is done", func() bool { return c.count()["/"] == 1 })
	stop()
	if time.Now().UTC().YearDay() != today {
		t.Skip("a new day has begun")
	}
	if len(a.log()) != most || len(b.log()) != most {
		t.Errorf("%d and %d requests, want %d each", len(a.log()), len(b.log()), most)
	}
	if h := r.host("a.test"); time.Until(h.NextAt) <= 0 || h.Queued < 20-most {
		t.Errorf("host %+v", h)
	}
}

// A wait that a server asked for survives a restart.
func TestWaitOutlivesRestart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := newSite(t, 70, 1)
	s.text("/robots.txt", "")
	s.mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "600")
		w.WriteHeader(http.StatusServiceUnavailable)
	})
	r := newRig(t, dir, 0, nil)
	r.own("a.test", s)
	r.seed(s.url("a.test", "/"))
	stop := r.start()
	r.until("the first request is made", func() bool { return s.count()["/"] == 1 })
	r.until("the wait is stored", func() bool {
		return time.Until(r.host("a.test").Health.NextTry) > 5*time.Minute
	})
	stop()
	r.fatal(r.db.Close())
	r = newRig(t, dir, 0, nil)
	if at := r.fr.HostList()[0].NextAt; time.Until(at) < 5*time.Minute {
		t.Errorf("next request in %v", time.Until(at))
	}
}
