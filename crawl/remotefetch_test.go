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
	"time"

	"peerd/crawl"
	"peerd/store"
)

// However often a remote fetch is requested, also concurrently, there is one request.
func TestRemoteFetchOnce(t *testing.T) {
	r := newRig(t, "", 0, nil)
	s := newSite(t, 41, 1)
	r.resolves("a.test", s.addr.Addr())
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
			if reps[i], err = r.c.RemoteFetch(t.Context(), q, nil); err != nil {
				t.Error(err)
			}
		})
	}
	close(release)
	wg.Wait()
	want := []store.URL{s.url("a.test", "/own"), "http://far.test/"}
	for i, rep := range reps {
		if rep.Outcome != store.OutcomeOK || rep.Status != 200 || rep.Bytes == 0 ||
			!slices.Equal(rep.Links, want) {
			t.Errorf("report %d = %+v", i, rep)
		}
	}
	again, err := r.c.RemoteFetch(t.Context(), q, nil)
	if err != nil || again.Outcome != store.OutcomeOK || !slices.Equal(again.Links, want) ||
		!reflect.DeepEqual(again.Bytes, reps[0].Bytes) {
		t.Errorf("repeated request: %+v, %v", again, err)
	}
	if got := s.count(); got["/"] != 1 || got["/robots.txt"] != 1 || len(got) != 2 {
		t.Errorf("requests %v", got)
	}
	if got := r.pending(); len(got)+len(r.pendingAdded) != 0 {
		t.Errorf("pending %v, reported %v; want none, because the owner routes them",
			got, r.pendingAdded)
	}
	if c := r.db.Counters(); c.Pages != 1 || c.EstimationsServed != 1 || c.Fetches != 1 {
		t.Errorf("counters %+v", c)
	}
	if p, ok := r.page(q.URL); !ok || !p.Estimation || p.Depth != 2 || len(p.Links) != 2 {
		t.Errorf("page %+v", p)
	}
}

func TestRemoteFetchRefused(t *testing.T) {
	r := newRig(t, "", 0, func(c *crawl.Config) { c.Workers = 1 })
	s := newSite(t, 42, 1)
	r.resolves("a.test", s.addr.Addr())
	entered, release := make(chan struct{}), make(chan struct{})
	s.mux.HandleFunc("/{$}", func(http.ResponseWriter, *http.Request) {
		close(entered)
		<-release
	})
	q := store.FetchRequest{URL: s.url("a.test", "/"), Addr: s.addr.Addr()}
	if _, err := r.c.RemoteFetch(t.Context(), store.FetchRequest{URL: q.URL, Addr: q.Addr,
		Depth: -1}, nil); !errors.Is(err, crawl.ErrInvalidRequest) {
		t.Errorf("RemoteFetch() with negative depth: %v, want ErrInvalidRequest", err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		if _, err := r.c.RemoteFetch(t.Context(), q, nil); err != nil {
			t.Error(err)
		}
	})
	<-entered
	other := q
	other.URL = s.url("a.test", "/other")
	if _, err := r.c.RemoteFetch(t.Context(), other, nil); !errors.Is(err, crawl.ErrBusy) {
		t.Errorf("RemoteFetch() beyond RemoteWorkers: %v, want ErrBusy", err)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := r.c.RemoteFetch(gone, q, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("RemoteFetch() with a canceled context: %v, want Canceled", err)
	}
	close(release)
	wg.Wait()
	if got := s.count(); got["/"] != 1 || got["/robots.txt"] != 1 || len(got) != 2 {
		t.Errorf("requests %v", got)
	}
}

// A failed remote fetch is not remembered: the owner retries.
func TestRemoteFetchFails(t *testing.T) {
	t.Parallel()
	r := newRig(t, "", 0, nil)
	s := newSite(t, 43, 1)
	r.resolves("a.test", s.addr.Addr())
	s.mux.HandleFunc("/later", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "1")
		w.WriteHeader(http.StatusTooManyRequests)
	})
	s.mux.HandleFunc("/reset", func(http.ResponseWriter, *http.Request) {
		panic(http.ErrAbortHandler)
	})
	for path, want := range map[string]store.Outcome{"/later": store.OutcomeThrottled,
		"/reset": store.OutcomeReset} {
		for range 2 {
			rep, err := r.c.RemoteFetch(t.Context(), store.FetchRequest{URL: s.url("a.test", path),
				Addr: s.addr.Addr()}, nil)
			if err != nil || rep.Outcome != want || path == "/later" &&
				rep.RetryAfter != time.Second {
				t.Errorf("%s: %+v, %v", path, rep, err)
			}
		}
		if got := s.count()[path]; got != 2 {
			t.Errorf("%s got %d requests, want 2", path, got)
		}
	}
	if c := r.db.Counters(); c != (store.Counters{}) {
		t.Errorf("counters %+v", c)
	}
}

// A report is one message. Of a page with more links than that may carry, any peer takes
// the same ones.
func TestRemoteFetchManyLinks(t *testing.T) {
	const n, most = 7000, 12 << 20
	r := newRig(t, t.TempDir(), 0, nil)
	s := newSite(t, 44, 1)
	r.resolves("a.test", s.addr.Addr())
	s.mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprintf(w, `<base href="/%s/">`, strings.Repeat("x", 1950))
		for i := range n {
			fmt.Fprintf(w, `<a href="%d">x</a>`, i)
		}
	})
	q := store.FetchRequest{URL: s.url("a.test", "/"), Addr: s.addr.Addr()}
	first, err := r.c.RemoteFetch(t.Context(), q, nil)
	r.fatal(err)
	size := 0
	for _, u := range first.Links {
		size += len(u)
	}
	if size > most || size < most-2048 || len(r.pending()) != 0 ||
		r.db.NamedCounters()["links"] != 1 {
		t.Errorf("the report has %d bytes of links, pending %v, counted %v", size, r.pending(),
			r.db.NamedCounters())
	}
	again, err := r.c.RemoteFetch(t.Context(), q, nil)
	if err != nil || !slices.Equal(again.Links, first.Links) {
		t.Errorf("repeated request: %d links, %v", len(again.Links), err)
	}
	o := newRig(t, t.TempDir(), 0, nil)
	o.own("a.test", s)
	o.where = func(netip.Prefix) crawl.Dispatch { return crawl.Dispatch{Hold: s.count()["/"] > 1} }
	o.seed(q.URL)
	stop := o.start()
	o.until("fetched", func() bool { return o.db.Counters().Pages == 1 })
	stop()
	if got := int(o.fr.Stats().Pending); got != len(first.Links) ||
		o.db.NamedCounters()["links"] != 1 {
		t.Errorf("%d links followed, %d reported, counted %v", got, len(first.Links),
			o.db.NamedCounters())
	}
}

// The answer to a revisit is repeated unchanged, even if the record of the page says
// something else.
func TestRemoteFetchRevisit(t *testing.T) {
	r := newRig(t, "", 0, nil)
	s := newSite(t, 45, 1)
	r.resolves("a.test", s.addr.Addr())
	var asked atomic.Int64
	s.mux.HandleFunc("/{$}", func(w http.ResponseWriter, q *http.Request) {
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
		r.c.ForgetRevisitReports()
		q.Kind, q.IfNoneMatch = tc.kind, tc.tag
		for k := range 3 {
			rep, err := r.c.RemoteFetch(t.Context(), q, nil)
			if err != nil || rep.Outcome != tc.outcome || !slices.Equal(rep.Links, tc.links) {
				t.Errorf("visit %d, request %d: %+v, %v", i, k, rep, err)
			}
			if p, ok := r.page(q.URL); !ok || p.Title != tc.title || p.Outcome != store.OutcomeOK {
				t.Errorf("visit %d: stored %+v", i, p)
			}
		}
	}
	if got := len(s.log()); got != 4 {
		t.Errorf("%d requests, want robots.txt and 3", got)
	}
}

// Requests that no owner makes are rejected.
func TestRemoteFetchForeign(t *testing.T) {
	r := newRig(t, "", 0, nil)
	s := newSite(t, 46, 1)
	r.resolves("a.test", s.addr.Addr())
	for name, q := range map[string]store.FetchRequest{
		"hops": {Hops: -1}, "sitemap": {Kind: store.KindSitemap}, "unknown kind": {Kind: 64},
	} {
		q.URL, q.Addr = s.url("a.test", "/"), s.addr.Addr()
		_, err := r.c.RemoteFetch(t.Context(), q, nil)
		if !errors.Is(err, crawl.ErrInvalidRequest) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if len(s.log()) != 0 {
		t.Errorf("requests %v", s.count())
	}
}

// An answer that does not fit into the archive is reported nevertheless: each repetition
// would cost the site one more request.
func TestRemoteFetchArchiveFull(t *testing.T) {
	full := newArchive(t, 1)
	r := newRig(t, "", 0, func(c *crawl.Config) { c.Archive = full })
	s := newSite(t, 47, 1)
	r.resolves("a.test", s.addr.Addr())
	s.html("/", "/next")
	q := store.FetchRequest{URL: s.url("a.test", "/"), Addr: s.addr.Addr()}
	for range 2 {
		if rep, err := r.c.RemoteFetch(t.Context(), q, nil); err != nil ||
			rep.Outcome != store.OutcomeOK || len(rep.Links) != 1 {
			t.Errorf("RemoteFetch() = %+v, %v", rep, err)
		}
	}
	if n := s.count()["/"]; n != 1 || full.Stats().Refused == 0 {
		t.Errorf("%d requests, archive %+v", n, full.Stats())
	}
}
