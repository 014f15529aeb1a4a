package crawl_test

import (
	"fmt"
	"net/http"
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
	r := newRig(t, "", 0, func(c *crawl.Config) { c.Patience, c.Workers = 100*time.Millisecond, 2 })
	dead, well := newSite(t, 67, 1), newSite(t, 67, 2)
	r.own("dead.test", dead)
	r.own("well.test", well)
	dead.faulty(func(string) bool { return true })
	well.faulty(func(string) bool { return false })
	for i := range n {
		p := fmt.Sprintf("/%d", i)
		r.seed(dead.url("dead.test", p), well.url("well.test", p))
	}
	r.crawl()
	if got := len(dead.log()); got < 3 || got > 20 {
		t.Errorf("%d requests to the dead host, want 3 to 20: %v", got, dead.count())
	}
	if c := r.db.Counters(); c.Failed != n || c.Pages != n {
		t.Errorf("counters %+v", c)
	}
	for i := range n {
		if p, ok := r.page(dead.url("dead.test", fmt.Sprintf("/%d", i))); !ok ||
			p.Outcome != store.OutcomeReset {
			t.Errorf("page %d of the dead host: %v %v", i, ok, p.Outcome)
		}
	}
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
