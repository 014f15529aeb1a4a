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
var eager = revisit.Policy{Min: time.Second, Max: time.Second, Initial: time.Second,
	Confirm: 2}

// hourly never revisits within a test.
var hourly = revisit.Policy{Min: time.Second, Max: time.Hour, Initial: time.Hour,
	Confirm: 2}

func visiting(p revisit.Policy) func(*crawl.Config) {
	return func(c *crawl.Config) { c.Revisit = &p }
}

// visit returns the planned visit of a page.
func (r *rig) visit(u store.URL) (v store.Visit, ok bool) {
	r.t.Helper()
	err := r.db.View(func(tx *store.Tx) (err error) {
		v, err = tx.Visit(u)
		return err
	})
	return v, err == nil
}

// conditions are the If-None-Match fields with which a path was requested.
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
	r.until("all pages are fetched", func() (ok bool) {
		first, ok = r.page(s.url("a.test", "/tagged"))
		return ok && r.db.Counters().Pages >= 5
	})
	r.until("the deleted page is dropped", func() bool {
		return r.db.NamedCounters()["revisit.gone"] == 1
	})
	before := s.count()["/plain"]
	r.until("the other pages are revisited", func() bool {
		n := s.count()
		return n["/plain"] >= before+2 && n["/tagged"] >= 3 && n["/changing"] >= 3 &&
			n["/flaky"] >= 3 && n["/new1"] >= 1 && n["/new2"] >= 1
	})
	stop()
	if n := s.count(); n["/leaving"] != 3 || n["/new1"] != 1 || n["/new2"] != 1 {
		t.Errorf("requests %v", n)
	}
	if _, ok := r.visit(s.url("a.test", "/leaving")); ok {
		t.Error("a deleted page has a planned visit")
	}
	for i, tag := range tagged.tags {
		if want := i > 0; (tag == `"v1"`) != want {
			t.Errorf("request %d has If-None-Match %q", i, tag)
		}
	}
	for _, tag := range plain.tags {
		if tag != "" {
			t.Errorf("If-None-Match %q without an entity tag", tag)
		}
	}
	if p, _ := r.page(s.url("a.test", "/tagged")); p.Title != "tagged" || len(p.Links) != 1 ||
		p.Outcome != store.OutcomeOK || !p.FetchedAt.Equal(first.FetchedAt) {
		t.Errorf("stored %+v after a 304", p)
	}
	if p, _ := r.page(s.url("a.test", "/flaky")); p.Title != "flaky" || p.Status != 200 {
		t.Errorf("a server error replaced the record: %+v", p)
	}
	c := r.db.Counters()
	if c.NotModified < 2 || c.Changed < 2 || c.Changed > int64(len(changing.tags)) ||
		c.Revisits < 10 || c.Pages != 5 {
		t.Errorf("counters %+v", c)
	}
	if d := s.apart(t); d < time.Millisecond {
		t.Errorf("requests %v apart", d)
	}
}

// However often an entry for one visit is queued, as after a handover, the page is
// requested once.
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
		t.Fatalf("%d requests for a page that was not due", n)
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
	r.until("the visit is queued when due too", func() bool {
		h := r.host("a.test")
		return h.DueAt.After(time.Now()) && r.idle()
	})
	stop()
	if n := s.count()["/"]; n != 2 {
		t.Errorf("%d requests in all", n)
	}
}

// host returns the record of one of our hosts.
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

// Other peers may hand over URLs but cannot cause repeated revisits.
func TestForeignRevisit(t *testing.T) {
	r := newRig(t, "", 0, visiting(hourly))
	s := newSite(t, 53, 1)
	r.own("a.test", s)
	s.html("/")
	for range 3 {
		r.fatal(r.c.Route([]store.Pending{{URL: s.url("a.test", "/"), Kind: store.KindRevisit,
			Hops: -1}}))
		r.crawl()
	}
	if n := s.count()["/"]; n != 1 {
		t.Errorf("%d requests, want 1", n)
	}
}

// A host that is down loses no visits; they are made when it is back.
func TestRevisitsSurviveOutage(t *testing.T) {
	t.Parallel()
	const pages = 12
	r := newRig(t, "", 0, func(c *crawl.Config) {
		visiting(eager)(c)
		c.Patience = 100 * time.Millisecond
	})
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
	r.until("all pages are fetched", func() bool { return r.db.Counters().Pages == pages })
	down.Store(true)
	r.until("the host is abandoned", func() bool { return r.db.Counters().Failed >= 8 })
	down.Store(false)
	before := s.count()
	r.until("all pages are revisited", func() bool {
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
		if p, _ := r.page(s.url("a.test", fmt.Sprintf("/%d", i))); p.Outcome != store.OutcomeOK ||
			p.Title == "" {
			t.Errorf("page %d: %+v", i, p)
		}
	}
}

// Due times are in the record of the host, so a restart finds them.
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
	r.until("the page is revisited", func() bool { return s.count()["/"] >= n+2 })
	stop()
}

// A visit that is due may be in the queue: a hint of a sitemap then changes nothing.
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
	// without telling the frontier
	r.fatal(r.db.Update(func(tx *store.Tx) error { return tx.PutVisit(v) }))
	s.text("/map.xml", fmt.Sprintf(
		"<urlset><url><loc>%s</loc><lastmod>%s</lastmod></url></urlset>", u,
		time.Now().UTC().Format(time.RFC3339)))
	r.fatal(r.c.Route([]store.Pending{{URL: s.url("a.test", "/map.xml"), Kind: store.KindSitemap}}))
	r.crawl()
	if after, _ := r.visit(u); !after.Due.Before(time.Now()) || s.count()["/map.xml"] != 1 {
		t.Errorf("due %v before the hint, %v after it", v.Due, after.Due)
	}
}

// TestFailingRevisit has a page that cannot be fetched for some minutes after its first visit,
// while other pages of its host answer. It must be visited again, and the frontier must count what
// the store has.
func TestFailingRevisit(t *testing.T) {
	w := &memoryWeb{page: func(_, path string, nth int) string {
		if path == "/0" && nth > 0 && nth < 8 {
			return partial(cut)
		}
		return okPage
	}}
	inVirtualTime(t, w, func(t *testing.T, r *rig) {
		r.seedPages(30)
		time.Sleep(2*time.Hour + 50*time.Second)
		if n, queued := r.fr.Queued("a.test"), r.host("a.test").Queued; n != queued {
			t.Errorf("the frontier has %d URLs, the store %d", n, queued)
		}
		times := w.times("a.test", "/0")
		if since := time.Since(times[len(times)-1]); len(times) < 20 || since > 2*time.Minute {
			t.Errorf("%d visits, the last %v ago; want one in each minute", len(times), since)
		}
	}, longRun, visiting(revisit.Policy{Min: time.Minute, Max: time.Minute,
		Initial: time.Minute, Confirm: 2}))
}
