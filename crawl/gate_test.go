package crawl_test

import (
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"

	"peerd/crawl"
	"peerd/crawl/trap"
	"peerd/store"
)

// newGate returns a Gate with limits that tests reach.
func newGate(t *testing.T, change func(*trap.Config)) *crawl.Gate {
	t.Helper()
	c := trap.DefaultConfig()
	change(&c)
	guard, err := trap.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return crawl.NewGate(guard)
}

// Traps are cut, each counted under the name of its heuristic, and the rest of the site is
// fetched.
func TestGate(t *testing.T) {
	next := func(format string) http.HandlerFunc {
		var n atomic.Int64
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			fmt.Fprintf(w, `<a href=%q>next</a>`, fmt.Sprintf(format, n.Add(1)))
		}
	}
	for name, tc := range map[string]struct {
		limit  func(*trap.Config)
		reason trap.Heuristic
		href   string
		most   int
	}{
		"length": {func(c *trap.Config) { c.MaxLength = 100 }, trap.Length, "/trap/%0100d", 1},
		"quota":  {func(c *trap.Config) { c.Quota = 30 }, trap.Quota, "/trap/%d", 31},
	} {
		t.Run(name, func(t *testing.T) {
			r := newGatedRig(t, "", 0, newGate(t, tc.limit), nil)
			s := newSite(t, 75, 1)
			r.own("a.test", s)
			s.mux.HandleFunc("/trap/", next(tc.href))
			s.html("/good")
			r.seed(s.url("a.test", "/good"), s.url("a.test", "/trap/"))
			r.crawl()
			n := s.count()
			traps := len(n) - 2
			if n["/good"] != 1 || traps > tc.most || traps < 1 {
				t.Errorf("requests %v", n)
			}
			if got := r.db.NamedCounters()[tc.reason.String()]; got != 1 ||
				r.db.Counters().Dropped != 1 {
				t.Errorf("named counters %v, dropped %d",
					r.db.NamedCounters(), r.db.Counters().Dropped)
			}
			before := len(s.log())
			r.seed(s.url("a.test", fmt.Sprintf(tc.href, traps))) // the one that was dropped
			r.crawl()
			if len(s.log()) != before || r.db.Counters().Dropped != 1 {
				t.Errorf("a dropped URL was requested: %v", s.count())
			}
		})
	}
}

// The state of a host survives restarts, except for the last URLs.
func TestGateRestart(t *testing.T) {
	const limit = 300
	dir := t.TempDir()
	s := newSite(t, 76, 1)
	s.text("/robots.txt", "User-agent: *\nDisallow: /trap/")
	var admitted int64
	for round := range 4 {
		r := newGatedRig(t, dir, 0, newGate(t, func(c *trap.Config) { c.Quota = limit }), nil)
		r.own("a.test", s)
		for i := range 280 {
			r.seed(s.url("a.test", fmt.Sprintf("/trap/%d", 1000*round+i)))
		}
		admitted = r.db.Counters().Seen
		r.fatal(r.db.Close())
	}
	if admitted < limit || admitted > limit+crawl.SaveEvery {
		t.Errorf("admitted %d URLs of one shape, want about %d", admitted, limit)
	}
}

// A host that is owned again has the state that is in the store, not the cached one.
func TestGateForgets(t *testing.T) {
	r := newGatedRig(t, "", 0, newGate(t, func(c *trap.Config) { c.Quota = 10 }), nil)
	s := newSite(t, 77, 1)
	r.own("a.test", s)
	seed := func(from int) int64 {
		for i := range 20 {
			r.seed(s.url("a.test", fmt.Sprintf("/trap/%d", from+i)))
		}
		return r.db.Counters().Seen
	}
	if n := seed(0); n != 10 {
		t.Errorf("admitted %d URLs", n)
	}
	home := store.SubnetOf(s.addr.Addr())
	r.fr.BeginPause(home)
	r.fr.Drop(home)
	r.fatal(r.db.DropHost("a.test"))
	r.own("a.test", s)
	if n := seed(100); n != 20 {
		t.Errorf("admitted %d URLs in all", n)
	}
}

// URLs of generated hosts are not passed on.
func TestGateHosts(t *testing.T) {
	const most, n = 5, 12
	gate := newGate(t, func(c *trap.Config) { c.MaxHosts = most })
	r := newGatedRig(t, "", 0, gate, nil)
	s := newSite(t, 78, 1)
	r.own("a.test", s)
	var refs []any
	for i := range n {
		refs = append(refs, fmt.Sprintf("http://h%c.evil.example/1", 'a'+i),
			fmt.Sprintf("http://h%c.evil.example/2", 'a'+i))
	}
	s.html("/", append(refs, "http://good.example/")...)
	r.seed(s.url("a.test", "/"))
	r.crawl()
	w := r.pending()
	if len(w) != most+1 || w["good.example"] != 1 {
		t.Errorf("pending %v", w)
	}
	if got := r.db.NamedCounters()[trap.Subdomains.String()]; got != 2*(n-most) ||
		r.db.Counters().Dropped != got {
		t.Errorf("named counters are %v", r.db.NamedCounters())
	}
}
