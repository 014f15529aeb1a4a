package crawl_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"peerd/crawl"
	"peerd/store"
)

// However often and at once an errand is asked for, there is one request.
func TestErrandOnce(t *testing.T) {
	r := newRig(t, "", 0, nil)
	s := newSite(t, 41, 1)
	release := make(chan struct{})
	s.mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		<-release
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, `<a href="/own">x</a><a href="http://far.test/">x</a><a href="/own">x</a>`)
	})
	q := store.FetchRequest{URL: s.url("a.test", "/"), Addr: s.addr.Addr(), Depth: 2}
	const n = 8
	reps := make([]store.FetchReport, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			var err error
			if reps[i], err = r.c.Errand(t.Context(), q); err != nil {
				t.Error(err)
			}
		})
	}
	close(release)
	wg.Wait()
	want := []store.URL{s.url("a.test", "/own"), "http://far.test/"}
	for i, rep := range reps {
		if rep.Outcome != store.OutcomeOK || rep.Status != 200 || rep.Bytes == 0 || !slices.Equal(rep.Links, want) {
			t.Errorf("report %d is %+v", i, rep)
		}
	}
	again, err := r.c.Errand(t.Context(), q)
	if err != nil || again.Outcome != store.OutcomeOK || !slices.Equal(again.Links, want) || !reflect.DeepEqual(again.Bytes, reps[0].Bytes) {
		t.Errorf("asked again: %+v, %v", again, err)
	}
	if got := s.count(); got["/"] != 1 || len(got) != 1 {
		t.Errorf("requests %v", got)
	}
	if got := r.waiting(); len(got)+len(r.deferred) != 0 {
		t.Errorf("put aside %v, told %v: that is the owner's", got, r.deferred)
	}
	if c := r.db.Counters(); c.Pages != 1 || c.EstimationsServed != 1 || c.Fetches != 1 {
		t.Errorf("counters %+v", c)
	}
	if p, ok := r.page(q.URL); !ok || !p.Estimation || p.Depth != 2 || len(p.Links) != 2 {
		t.Errorf("page %+v", p)
	}
}

func TestErrandRefused(t *testing.T) {
	r := newRig(t, "", 0, func(c *crawl.Config) { c.Workers = 1 })
	s := newSite(t, 42, 1)
	entered, release := make(chan struct{}), make(chan struct{})
	s.mux.HandleFunc("/", func(http.ResponseWriter, *http.Request) {
		close(entered)
		<-release
	})
	q := store.FetchRequest{URL: s.url("a.test", "/"), Addr: s.addr.Addr()}
	if _, err := r.c.Errand(t.Context(), store.FetchRequest{URL: q.URL, Addr: q.Addr, Depth: -1}); !errors.Is(err, crawl.ErrErrand) {
		t.Errorf("a negative depth: %v", err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		if _, err := r.c.Errand(t.Context(), q); err != nil {
			t.Error(err)
		}
	})
	<-entered
	other := q
	other.URL = s.url("a.test", "/other")
	if _, err := r.c.Errand(t.Context(), other); !errors.Is(err, crawl.ErrBusy) {
		t.Errorf("beyond the places: %v", err)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := r.c.Errand(gone, q); !errors.Is(err, context.Canceled) {
		t.Errorf("waiting with a context that has ended: %v", err)
	}
	close(release)
	wg.Wait()
	if got := s.count(); got["/"] != 1 || len(got) != 1 {
		t.Errorf("requests %v", got)
	}
}

// Nothing is kept of an errand that failed: the owner tries again.
func TestErrandFails(t *testing.T) {
	r := newRig(t, "", 0, nil)
	s := newSite(t, 43, 1)
	s.mux.HandleFunc("/later", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "7")
		w.WriteHeader(http.StatusTooManyRequests)
	})
	s.mux.HandleFunc("/reset", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	for path, want := range map[string]store.Outcome{"/later": store.OutcomeThrottled, "/reset": store.OutcomeReset} {
		for range 2 {
			rep, err := r.c.Errand(t.Context(), store.FetchRequest{URL: s.url("a.test", path), Addr: s.addr.Addr()})
			if err != nil || rep.Outcome != want || path == "/later" && rep.RetryAfter.Seconds() != 7 {
				t.Errorf("%s: %+v, %v", path, rep, err)
			}
		}
		if got := s.count()[path]; got != 2 {
			t.Errorf("%s was asked for %d times", path, got)
		}
	}
	if c := r.db.Counters(); c != (store.Counters{}) {
		t.Errorf("counters %+v", c)
	}
}

// A report is one message. Of a page with more links than that may carry, nobody
// takes more, whoever fetches it.
func TestErrandManyLinks(t *testing.T) {
	const n, most = 7000, 12 << 20
	r := newRig(t, t.TempDir(), 0, nil)
	s := newSite(t, 44, 1)
	s.mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprintf(w, `<base href="/%s/">`, strings.Repeat("x", 1950))
		for i := range n {
			fmt.Fprintf(w, `<a href="%d">x</a>`, i)
		}
	})
	q := store.FetchRequest{URL: s.url("a.test", "/"), Addr: s.addr.Addr()}
	first, err := r.c.Errand(t.Context(), q)
	r.fatal(err)
	size := 0
	for _, u := range first.Links {
		size += len(u)
	}
	if size > most || size < most-2048 || len(r.waiting()) != 0 || r.db.Named()["links"] != 1 {
		t.Errorf("the report has %d bytes of links, waiting %v, counted %v", size, r.waiting(), r.db.Named())
	}
	again, err := r.c.Errand(t.Context(), q)
	if err != nil || !slices.Equal(again.Links, first.Links) {
		t.Errorf("asked again: %d links, %v", len(again.Links), err)
	}
	o := newRig(t, t.TempDir(), 0, nil)
	o.own("a.test", s)
	o.where = func(netip.Prefix) crawl.Place { return crawl.Place{Hold: s.count()["/"] > 1} }
	o.seed(q.URL)
	stop := o.start()
	o.until("fetched", func() bool { return o.db.Counters().Pages == 1 })
	stop()
	if got := int(o.fr.Stats().Pending); got != len(first.Links) || o.db.Named()["links"] != 1 {
		t.Errorf("%d links followed, %d reported, counted %v", got, len(first.Links), o.db.Named())
	}
}

// The answer to a revisit is given again too, as it was: also when the record
// of the page says something else.
func TestErrandRevisit(t *testing.T) {
	r := newRig(t, "", 0, nil)
	s := newSite(t, 45, 1)
	var asked atomic.Int64
	s.mux.HandleFunc("/", func(w http.ResponseWriter, q *http.Request) {
		n := asked.Add(1)
		if q.Header.Get("If-None-Match") == `"2"` {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		w.Header().Set("ETag", fmt.Sprintf(`"%d"`, n))
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprintf(w, `<title>%d</title><a href="/%d">x</a>`, n, n)
	})
	q := store.FetchRequest{URL: s.url("a.test", "/"), Addr: s.addr.Addr()}
	for i, tc := range []struct {
		kind    store.Kind
		tag     string
		outcome store.Outcome
		links   []store.URL
		title   string
	}{
		{store.KindPage, "", store.OutcomeOK, []store.URL{s.url("a.test", "/1")}, "1"},
		{store.KindRevisit, `"1"`, store.OutcomeOK, []store.URL{s.url("a.test", "/2")}, "2"},
		{store.KindRevisit, `"2"`, store.OutcomeNotModified, nil, "2"},
	} {
		r.c.ForgetErrands()
		q.Kind, q.IfNoneMatch = tc.kind, tc.tag
		for k := range 3 {
			rep, err := r.c.Errand(t.Context(), q)
			if err != nil || rep.Outcome != tc.outcome || !slices.Equal(rep.Links, tc.links) {
				t.Errorf("visit %d, asked %d times: %+v, %v", i, k, rep, err)
			}
			if p, ok := r.page(q.URL); !ok || p.Title != tc.title || p.Outcome != store.OutcomeOK {
				t.Errorf("visit %d: kept %+v", i, p)
			}
		}
	}
	if got := len(s.log()); got != 3 {
		t.Errorf("%d requests", got)
	}
}

// What an owner never asks for is not fetched.
func TestErrandForeign(t *testing.T) {
	r := newRig(t, "", 0, nil)
	s := newSite(t, 46, 1)
	for name, q := range map[string]store.FetchRequest{
		"hops": {Hops: -1}, "sitemap": {Kind: store.KindSitemap}, "unknown kind": {Kind: 64},
	} {
		q.URL, q.Addr = s.url("a.test", "/"), s.addr.Addr()
		if _, err := r.c.Errand(t.Context(), q); !errors.Is(err, crawl.ErrErrand) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if len(s.log()) != 0 {
		t.Errorf("requests %v", s.count())
	}
}

// An answer that does not fit into the archive is given all the same: asked
// again, it would cost the site one more request each time.
func TestErrandArchiveFull(t *testing.T) {
	full := newArchive(t, 1)
	r := newRig(t, "", 0, func(c *crawl.Config) { c.Archive = full })
	s := newSite(t, 47, 1)
	s.html("/", "/next")
	q := store.FetchRequest{URL: s.url("a.test", "/"), Addr: s.addr.Addr()}
	for range 2 {
		if rep, err := r.c.Errand(t.Context(), q); err != nil || rep.Outcome != store.OutcomeOK || len(rep.Links) != 1 {
			t.Errorf("%+v, %v", rep, err)
		}
	}
	if n := s.count()["/"]; n != 1 || full.Stats().Refused == 0 {
		t.Errorf("%d requests, archive %+v", n, full.Stats())
	}
}
