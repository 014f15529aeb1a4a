package crawl_test

import (
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"peerd/crawl"
	"peerd/crawl/frontier"
	"peerd/crawl/revisit"
	"peerd/store"
)

// eager visits each page every second: a History counts in seconds.
var eager = revisit.Policy{Min: time.Second, Max: time.Second, Initial: time.Second, Price: time.Second, Confirm: 2}

// hourly never comes back within a test.
var hourly = revisit.Policy{Min: time.Second, Max: time.Hour, Initial: time.Hour, Price: 30 * time.Minute, Confirm: 2}

func visiting(p revisit.Policy) func(*crawl.Config) {
	return func(c *crawl.Config) { c.Revisit = &p }
}

// visit returns what is kept of a page in order to come back.
func (r *rig) visit(u store.URL) (v store.Visit, ok bool) {
	r.t.Helper()
	err := r.db.View(func(tx *store.Tx) (err error) {
		v, err = tx.Visit(u)
		return err
	})
	return v, err == nil
}

// conditions are the If-None-Match fields that a path was asked with.
type conditions struct {
	mu   sync.Mutex
	tags []string
}

func (c *conditions) add(q *http.Request) (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tags = append(c.tags, q.Header.Get("If-None-Match"))
	return len(c.tags)
}

func TestRevisits(t *testing.T) {
	t.Parallel()
	r := newRig(t, "", time.Millisecond, visiting(eager))
	s := newSite(t, 51, 1)
	r.own("a.test", s)
	var tagged, plain, changing, leaving, flaky conditions
	page := func(w http.ResponseWriter, body string) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, body)
	}
	s.mux.HandleFunc("/tagged", func(w http.ResponseWriter, q *http.Request) {
		w.Header().Set("ETag", `"v1"`)
		if tagged.add(q); q.Header.Get("If-None-Match") == `"v1"` {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		page(w, `<title>tagged</title><a href="/plain">x</a>`)
	})
	s.mux.HandleFunc("/plain", func(w http.ResponseWriter, q *http.Request) {
		plain.add(q)
		page(w, "<title>plain</title>always the same")
	})
	s.mux.HandleFunc("/changing", func(w http.ResponseWriter, q *http.Request) {
		page(w, fmt.Sprintf(`<title>changing</title><a href="/new%d">x</a>`, changing.add(q)))
	})
	s.mux.HandleFunc("/leaving", func(w http.ResponseWriter, q *http.Request) {
		if leaving.add(q) > 1 {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		page(w, "<title>leaving</title>")
	})
	s.mux.HandleFunc("/flaky", func(w http.ResponseWriter, q *http.Request) {
		if flaky.add(q) == 2 {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		page(w, "<title>flaky</title>")
	})
	names := []string{"/tagged", "/plain", "/changing", "/leaving", "/flaky"}
	for _, n := range names {
		r.seed(s.url("a.test", n))
	}
	stop := r.start()
	var first store.Page
	r.until("all pages are there", func() (ok bool) {
		first, ok = r.page(s.url("a.test", "/tagged"))
		return ok && r.db.Counters().Pages >= 5
	})
	r.until("the page that left was dropped", func() bool { return r.db.Named()["revisit.gone"] == 1 })
	before := s.count()["/plain"]
	r.until("the others are visited on", func() bool {
		n := s.count()
		return n["/plain"] >= before+2 && n["/tagged"] >= 3 && n["/changing"] >= 3 && n["/flaky"] >= 3
	})
	stop()
	if n := s.count(); n["/leaving"] != 3 || n["/new1"] != 1 || n["/new2"] != 1 {
		t.Errorf("requests %v", n)
	}
	if _, ok := r.visit(s.url("a.test", "/leaving")); ok {
		t.Error("a page that is gone is to be visited again")
	}
	for i, tag := range tagged.tags {
		if want := i > 0; (tag == `"v1"`) != want {
			t.Errorf("request %d has the condition %q", i, tag)
		}
	}
	for _, tag := range plain.tags {
		if tag != "" {
			t.Errorf("a condition %q without an entity tag", tag)
		}
	}
	if p, _ := r.page(s.url("a.test", "/tagged")); p.Title != "tagged" || len(p.Links) != 1 || p.Outcome != store.OutcomeOK || !p.FetchedAt.Equal(first.FetchedAt) {
		t.Errorf("not modified, and kept is %+v", p)
	}
	if p, _ := r.page(s.url("a.test", "/flaky")); p.Title != "flaky" || p.Status != 200 {
		t.Errorf("a server error took the place of %+v", p)
	}
	c := r.db.Counters()
	if c.NotModified < 2 || c.Changed < 2 || c.Changed > int64(len(changing.tags)) || c.Revisits < 10 || c.Pages != 5 {
		t.Errorf("counters %+v", c)
	}
	if d := s.apart(t); d < time.Millisecond {
		t.Errorf("requests %v apart", d)
	}
}

// However often an entry for one visit is queued, as after a handover, the page
// is asked for once.
func TestVisitOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t, "", 0, visiting(hourly))
	s := newSite(t, 52, 1)
	r.own("a.test", s)
	s.html("/")
	u := s.url("a.test", "/")
	r.seed(u)
	r.crawl()
	again := func() {
		r.fatal(r.fr.Update([]string{"a.test"}, func(_ *store.Tx, push frontier.Push) error {
			_, err := push("a.test", store.Entry{URL: u, Kind: store.KindRevisit})
			return err
		}))
	}
	again() // not due
	r.crawl()
	if n := s.count()["/"]; n != 1 {
		t.Fatalf("asked %d times, and it was not due", n)
	}
	v, ok := r.visit(u)
	if !ok || time.Until(v.Due) < 10*time.Minute {
		t.Fatalf("visit %v %+v", ok, v)
	}
	v.Due = time.Now().Add(-time.Minute)
	r.fatal(r.db.Update(func(tx *store.Tx) error { return tx.PutVisit(v) }))
	again()
	again()
	r.fr.SetDue("a.test", v.Due, true)
	stop := r.start()
	r.until("the visit was queued by its time too", func() bool {
		h := r.host("a.test")
		return h.DueAt.After(time.Now()) && r.idle()
	})
	stop()
	if n := s.count()["/"]; n != 2 {
		t.Errorf("asked %d times in all", n)
	}
}

// host returns the record of a host of ours.
func (r *rig) host(name string) (h store.Host) {
	r.t.Helper()
	r.fatal(r.db.View(func(tx *store.Tx) error {
		p, err := tx.Host(name)
		if err == nil {
			h = *p
		}
		return err
	}))
	return h
}

// Others may hand over URLs, but not make us visit pages again and again.
func TestForeignRevisit(t *testing.T) {
	r := newRig(t, "", 0, visiting(hourly))
	s := newSite(t, 53, 1)
	r.own("a.test", s)
	s.html("/")
	for range 3 {
		r.fatal(r.c.Route([]store.Pending{{URL: s.url("a.test", "/"), Kind: store.KindRevisit, Hops: -1}}))
		r.crawl()
	}
	if n := s.count()["/"]; n != 1 {
		t.Errorf("asked %d times", n)
	}
}

// A host that is down loses none of its visits, and is visited when it is back.
func TestRevisitsSurviveOutage(t *testing.T) {
	t.Parallel()
	const pages = 12
	r := newRig(t, "", 0, visiting(eager))
	s := newSite(t, 54, 1)
	r.own("a.test", s)
	var down atomic.Bool
	s.mux.HandleFunc("/", func(w http.ResponseWriter, q *http.Request) {
		if down.Load() {
			panic(http.ErrAbortHandler)
		}
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprintf(w, "<title>%s</title>", q.URL.Path)
	})
	s.text("/robots.txt", "")
	for i := range pages {
		r.seed(s.url("a.test", fmt.Sprintf("/%d", i)))
	}
	stop := r.start()
	r.until("all are there", func() bool { return r.db.Counters().Pages == pages })
	down.Store(true)
	r.until("the host was given up", func() bool { return r.db.Counters().Failed >= 8 })
	down.Store(false)
	before := s.count()
	r.until("all are visited again", func() bool {
		n := s.count()
		for i := range pages {
			if p := fmt.Sprintf("/%d", i); n[p] <= before[p] {
				return false
			}
		}
		return true
	})
	stop()
	for i := range pages {
		if p, _ := r.page(s.url("a.test", fmt.Sprintf("/%d", i))); p.Outcome != store.OutcomeOK || p.Title == "" {
			t.Errorf("page %d: %+v", i, p)
		}
	}
}

// Due times are in the record of the host, so that a restart finds them.
func TestRevisitsAfterRestart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := newSite(t, 55, 1)
	s.html("/")
	r := newRig(t, dir, 0, visiting(eager))
	r.own("a.test", s)
	r.seed(s.url("a.test", "/"))
	r.crawl()
	if h := r.host("a.test"); h.DueAt.IsZero() {
		t.Fatalf("host %+v", h)
	}
	r.fatal(r.db.Close())
	n := s.count()["/"]
	r = newRig(t, dir, 0, visiting(eager))
	stop := r.start()
	r.until("it is visited", func() bool { return s.count()["/"] >= n+2 })
	stop()
}

// A visit that is due may be in the queue: what a sitemap says of its page now
// changes nothing.
func TestHintOfDuePage(t *testing.T) {
	r := newRig(t, "", 0, visiting(hourly))
	s := newSite(t, 60, 1)
	r.own("a.test", s)
	s.html("/page")
	u := s.url("a.test", "/page")
	r.seed(u)
	r.crawl()
	v, _ := r.visit(u)
	v.Due = time.Now().Add(-time.Minute)
	r.fatal(r.db.Update(func(tx *store.Tx) error { return tx.PutVisit(v) })) // of which the frontier is not told
	s.text("/map.xml", fmt.Sprintf("<urlset><url><loc>%s</loc><changefreq>daily</changefreq></url></urlset>", u))
	r.fatal(r.c.Route([]store.Pending{{URL: s.url("a.test", "/map.xml"), Kind: store.KindSitemap}}))
	r.crawl()
	if after, _ := r.visit(u); !after.Due.Before(time.Now()) || s.count()["/map.xml"] != 1 {
		t.Errorf("due %v, then %v", v.Due, after.Due)
	}
}
