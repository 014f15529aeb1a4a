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

// faulty answers nothing while broken says so, robots.txt left out.
func (s *site) faulty(broken func(path string) bool) {
	s.text("/robots.txt", "")
	s.mux.HandleFunc("/", func(w http.ResponseWriter, q *http.Request) {
		if broken(q.URL.Path) {
			panic(http.ErrAbortHandler)
		}
		w.Header().Set("Content-Type", "text/html")
	})
}

// A dead host costs few requests, however many URLs it has; all of them are on
// record, and others are not held up.
func TestDeadHost(t *testing.T) {
	const n, rests = 60, 3
	r := newRig(t, "", 0, func(c *crawl.Config) { c.MaxRests, c.Workers = rests, 2 })
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
	if got := len(dead.log()); got != 1+8+rests { // robots.txt, until it rests, looks
		t.Errorf("%d requests to the dead host: %v", got, dead.count())
	}
	if c := r.db.Counters(); c.Failed != n || c.Pages != n {
		t.Errorf("counters %+v", c)
	}
	for i := range n {
		if p, ok := r.page(dead.url("dead.test", fmt.Sprintf("/%d", i))); !ok || p.Outcome != store.OutcomeReset {
			t.Errorf("page %d of the dead host: %v %v", i, ok, p.Outcome)
		}
	}
}

// Whoever watches for hosts that move is told of one that does not answer, its
// robots.txt included: it may have left before it was first asked.
func TestDoubtedHosts(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	doubted := map[string]int{}
	r := newRig(t, "", 0, func(c *crawl.Config) {
		c.MaxRests = 2
		c.Doubt = func(host string) {
			mu.Lock()
			defer mu.Unlock()
			doubted[host]++
		}
	})
	well, dead, mute := newSite(t, 77, 1), newSite(t, 77, 2), newSite(t, 77, 3)
	well.faulty(func(string) bool { return false })
	dead.faulty(func(string) bool { return true })
	mute.mux.HandleFunc("/", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	for host, s := range map[string]*site{"well.test": well, "dead.test": dead, "mute.test": mute} {
		r.own(host, s)
		r.seed(s.url(host, "/"))
	}
	r.crawl()
	mu.Lock()
	defer mu.Unlock()
	if doubted["well.test"] != 0 || doubted["dead.test"] == 0 || doubted["mute.test"] == 0 {
		t.Errorf("doubted: %v", doubted)
	}
}

// A host that comes back loses no URL, even if it has so few that each look at
// it would be the last try of one.
func TestHostComesBack(t *testing.T) {
	t.Parallel()
	const n = 4
	r := newRig(t, "", 0, func(c *crawl.Config) { c.MaxRests = 20 })
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
	r.until("the server has noticed", func() bool { return len(s.log()) >= 14 })
	for i, h := range s.log()[9:14] {
		if d := h.start.Sub(s.log()[8+i].end); d < 8*time.Millisecond<<i {
			t.Errorf("look %d came after %v", i, d)
		}
	}
}

// The requests of a day are bounded, whatever comes of them, also over a
// restart; other hosts go on.
func TestHostDay(t *testing.T) {
	const most = 6
	today := time.Now().UTC().YearDay()
	dir := t.TempDir()
	limits := func(c *crawl.Config) { c.HostDay = most }
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
	r.until("the day's requests are made", func() bool { return len(a.log()) >= most && len(b.log()) >= most })
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
		t.Errorf("%d and %d requests, want %d", len(a.log()), len(b.log()), most)
	}
	if h := r.host("a.test"); time.Until(h.NextAt) <= 0 || h.Pending < 20-most {
		t.Errorf("host %+v", h)
	}
}

// What a server asked for in seconds is not forgotten in a restart.
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
	r.until("it was asked", func() bool { return s.count()["/"] == 1 })
	r.until("that is written down", func() bool { return time.Until(r.host("a.test").NextAt) > 5*time.Minute })
	stop()
	r.fatal(r.db.Close())
	r = newRig(t, dir, 0, nil)
	if _, _, _, at := r.fr.Load(store.SubnetOf(s.addr.Addr())); time.Until(at) < 5*time.Minute {
		t.Errorf("asked again in %v", time.Until(at))
	}
}
