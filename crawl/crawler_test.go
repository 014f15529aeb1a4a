package crawl_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"peerd/crawl"
	"peerd/store"
)

// Every page is fetched once, however many links lead to it.
func TestEveryPageOnce(t *testing.T) {
	const gap = 3 * time.Millisecond
	r := newRig(t, "", gap, nil)
	a, b := newSite(t, 21, 1), newSite(t, 21, 2)
	r.own("a.test", a)
	r.own("a2.test", a) // another name of the same machine
	r.own("b.test", b)
	const n = 20
	for i := range n {
		a.html(fmt.Sprintf("/%d", i),
			fmt.Sprintf("/%d", i*2%n), fmt.Sprintf("./%d#top", (i*2+1)%n), b.url("B.test", "/"),
			"mailto:x@y", "/old", "/gone", "/doc.pdf",
			"http://foreign.test/", fmt.Sprintf("http://foreign.test/%d", i/2),
			a.url("a2.test", "/2"))
	}
	b.html("/", a.url("a.test", "/0"), "http://other.test/x", "/")
	a.mux.Handle("/old", http.RedirectHandler("/1", http.StatusFound))
	a.mux.Handle("/away", http.RedirectHandler("http://foreign.test/away",
		http.StatusMovedPermanently))
	a.mux.HandleFunc("/doc.pdf", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/pdf")
		fmt.Fprint(w, "%PDF")
	})
	r.seed(a.url("a.test", "/0"), a.url("a.test", "/away"), a.url("a.test", "/0"))
	r.crawl()

	byHost := map[string]int{}
	for _, h := range a.log() {
		byHost[h.host+h.path]++
	}
	name := strings.TrimPrefix(string(a.url("a.test", "")), "http://")
	want := []string{"/robots.txt", "/old", "/away", "/gone", "/doc.pdf"}
	for i := range n {
		want = append(want, fmt.Sprintf("/%d", i))
	}
	for _, p := range want {
		if byHost[name+p] != 1 {
			t.Errorf("%s got %d requests, want 1", p, byHost[name+p])
		}
	}
	// a2.test links to itself relatively: all its pages again, under its name.
	if got := len(byHost); got != len(want)+(len(want)-1) {
		t.Errorf("%d different requests, want %d: %v", got, 2*len(want)-1,
			slices.Sorted(maps.Keys(byHost)))
	}
	for u, k := range byHost {
		if k != 1 {
			t.Errorf("%s got %d requests, want 1", u, k)
		}
	}
	if got := b.count(); got["/"] != 1 || got["/robots.txt"] != 1 || len(got) != 2 {
		t.Errorf("requests to b: %v", got)
	}
	wantPending := map[string]int{"foreign.test": 1 + n/2 + 1, "other.test": 1}
	if got := r.pending(); !maps.Equal(got, wantPending) ||
		!maps.Equal(r.pendingAdded, wantPending) {
		t.Errorf("pending %v, reported %v, want %v", got, r.pendingAdded, wantPending)
	}
	if got := min(a.apart(t), b.apart(t)); got < gap {
		t.Errorf("requests %v apart, want at least %v", got, gap)
	}
	c := r.db.Counters()
	// old, gone and pdf twice; away once
	if c.Pages != 2*n+1 || c.Failed != 0 || c.Fetches != c.Pages+3+3+1 {
		t.Errorf("counters %+v", c)
	}
	p, ok := r.page(a.url("a.test", "/away"))
	if !ok || p.Outcome != store.OutcomeRedirect ||
		!slices.Equal(p.Links, []store.URL{"http://foreign.test/away"}) {
		t.Errorf("redirect stored as %+v", p)
	}
}

// A page may have more links than fit into a transaction.
func TestManyLinks(t *testing.T) {
	const n = 5000
	r := newRig(t, t.TempDir(), 0, nil)
	s := newSite(t, 22, 1)
	r.own("a.test", s)
	refs := []any{}
	for i := range n {
		refs = append(refs, fmt.Sprintf("/p?%d", i), fmt.Sprintf("http://far.test/%d", i%700))
	}
	s.html("/", refs...)
	s.text("/p", "")
	r.seed(s.url("a.test", "/"))
	stop := r.start()
	r.until("links are stored", func() bool {
		_, ok := r.page(s.url("a.test", "/"))
		return ok
	})
	stop()
	if p, _ := r.page(s.url("a.test", "/")); len(p.Links) != n+700 {
		t.Errorf("stored %d links, want %d", len(p.Links), n+700)
	}
	if c := r.db.Counters(); c.Seen != n+1 || r.pendingAdded["far.test"] != 700 {
		t.Errorf("%d URLs seen, %d pending", c.Seen, r.pendingAdded["far.test"])
	}
	if got, done := r.fr.Stats(), r.db.Counters().Fetches; got.Pending+done != n+1 {
		t.Errorf("%d URLs queued, %d fetched, want %d in all", got.Pending, done, n+1)
	}
}

// The links of a page are stored, to however many of our hosts, and however long their names are.
func TestManyHostsOnOnePage(t *testing.T) {
	t.Parallel()
	r := newRig(t, "", 0, func(c *crawl.Config) { c.MaxPages = 1 })
	s := newSite(t, 23, 9)
	r.own("a.test", s)
	domain := strings.Repeat(strings.Repeat("a", 60)+".", 4) + "test"
	var links []any
	for i := range 1000 {
		host := fmt.Sprintf("h%d.%s", i, domain)
		r.own(host, s)
		links = append(links, s.url(host, "/"+strings.Repeat("b", 100)))
	}
	s.html("/", links...)
	r.seed(s.url("a.test", "/"))
	stop := r.start()
	select {
	case <-r.c.LimitReached():
	case <-time.After(testTimeout):
		t.Error("the page was not stored")
	}
	stop()
	if n := r.db.Counters().Seen; n != 1001 {
		t.Errorf("%d URLs were seen, want 1001", n)
	}
}

// Enqueue moves URLs in batches.
func TestEnqueue(t *testing.T) {
	r := newRig(t, "", 0, nil)
	var ps []store.Pending
	for i := range 2500 {
		ps = append(ps, store.Pending{URL: store.URL(fmt.Sprintf("http://a.test/%d", i)),
			Finder: 7})
	}
	r.fatal(r.c.Route(ps))
	if r.pendingAdded["a.test"] != 2500 {
		t.Fatalf("%d pending URLs, want 2500", r.pendingAdded["a.test"])
	}
	if _, _, err := r.c.Enqueue("a.test"); err == nil {
		t.Error("Enqueue() of an unknown host succeeded")
	}
	addr := netip.MustParseAddr("127.23.1.1")
	r.fatal(r.fr.AddHost("a.test", store.SubnetOf(addr), addr, time.Time{}))
	for i, want := range []int{1000, 1000, 500, 0} {
		moved, more, err := r.c.Enqueue("a.test")
		if err != nil || moved != want || more != (i < 2) {
			t.Errorf("call %d: Enqueue() = %d, %v, %v; want %d", i, moved, more, err, want)
		}
	}
	if s := r.fr.Stats(); s.Pending != 2500 || len(r.pending()) != 0 {
		t.Errorf("frontier %+v, pending %v; want 2500 queued", s, r.pending())
	}
	r.fatal(r.db.View(func(tx *store.Tx) error {
		e, err := tx.Peek("a.test")
		if place, _ := e.Position(); place != 7*store.FinderPlaces {
			t.Errorf("queued at place %d, want the first one of finder 7", place)
		}
		return err
	}))
}

func TestMaxPages(t *testing.T) {
	const limit = 17
	r := newRig(t, "", 0, func(c *crawl.Config) { c.MaxPages = limit })
	var ok atomic.Int64
	for i := range byte(4) {
		s := newSite(t, 24, i+1)
		host := fmt.Sprintf("h%d.test", i)
		r.own(host, s)
		s.mux.HandleFunc("/ok", func(http.ResponseWriter, *http.Request) { ok.Add(1) })
		for k := range 20 { // every second one is not a page
			r.seed(s.url(host, fmt.Sprintf("/ok?%d", k)), s.url(host, fmt.Sprintf("/no?%d", k)))
		}
	}
	stop := r.start()
	select {
	case <-r.c.LimitReached():
	case <-time.After(testTimeout):
		t.Fatal("page limit was never reached")
	}
	c := r.db.Counters() // all are stored by then
	stop()
	if c.Pages != limit || ok.Load() != limit || r.db.Counters().Pages != limit {
		t.Errorf("%d pages stored, then %d, %d served; want %d", c.Pages, r.db.Counters().Pages,
			ok.Load(), limit)
	}
	if s := r.fr.Stats(); s.Pending == 0 || s.InFlight != 0 {
		t.Errorf("frontier %+v", s)
	}
}

// If a fetch is canceled, nothing is lost and nothing keeps running; the next start
// continues.
func TestCancelAndRestart(t *testing.T) {
	dir := t.TempDir()
	s := newSite(t, 25, 1)
	var block atomic.Bool
	block.Store(true)
	entered := make(chan struct{}, 10)
	s.text("/robots.txt", "")
	s.html("/", "/slow", "/b")
	s.html("/b")
	s.mux.HandleFunc("/slow", func(w http.ResponseWriter, q *http.Request) {
		if block.Load() {
			entered <- struct{}{}
			<-q.Context().Done()
			return
		}
		w.Header().Set("Content-Type", "text/html")
	})
	r := newRig(t, dir, 0, nil)
	r.own("a.test", s)
	r.seed(s.url("a.test", "/"))
	stop := r.start()
	<-entered
	stop()
	if st := r.fr.Stats(); st.InFlight != 0 || st.Pending != 2 {
		t.Errorf("frontier after the stop: %+v", st)
	}
	for i, o := range r.observed() {
		if o.rep.Outcome != store.OutcomeOK || o.rep.File != (i == 0) {
			t.Errorf("observed %+v", o)
		}
	}
	r.fatal(r.db.Close())

	block.Store(false)
	r = newRig(t, dir, 0, nil)
	r.crawl()
	r.until("the server has logged all requests", func() bool { return len(s.log()) >= 5 })
	want := map[string]int{"/robots.txt": 1, "/": 1, "/slow": 2, "/b": 1}
	if got := s.count(); !maps.Equal(got, want) {
		t.Errorf("requests %v, want %v", got, want)
	}
	if c := r.db.Counters(); c.Pages != 3 || c.Failed != 0 {
		t.Errorf("counters %+v", c)
	}
}

// The end of the parent context, for any reason, is not a failure.
func TestRunEndsWithoutError(t *testing.T) {
	r := newRig(t, "", 0, nil)
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("another part failed"))
	if err := r.c.Run(ctx); err != nil {
		t.Error(err)
	}
	timed, stop := context.WithTimeout(t.Context(), time.Millisecond)
	defer stop()
	if err := r.c.Run(timed); err != nil {
		t.Error(err)
	}
}

func TestRunFailsWithTheStore(t *testing.T) {
	r := newRig(t, "", 0, nil)
	s := newSite(t, 26, 1)
	r.own("a.test", s)
	r.seed(s.url("a.test", "/"))
	r.fatal(r.db.Close())
	if err := r.c.Run(t.Context()); err == nil || !strings.HasPrefix(err.Error(), "crawl: ") {
		t.Errorf("Run() = %v", err)
	}
}

// A held subnet is not fetched from and causes no busy loop; later it continues.
func TestHeldSubnet(t *testing.T) {
	r := newRig(t, "", 0, nil)
	s := newSite(t, 27, 1)
	r.own("a.test", s)
	s.html("/")
	var asked atomic.Int64
	r.where = func(netip.Prefix) crawl.Dispatch { return crawl.Dispatch{Hold: asked.Add(1) <= 2} }
	r.seed(s.url("a.test", "/"))
	begin := time.Now()
	r.crawl()
	if asked.Load() != 3 || time.Since(begin) < 200*time.Millisecond {
		t.Errorf("Dispatch called %d times in %v", asked.Load(), time.Since(begin))
	}
}

// What an estimator denies was not sent, and says nothing about the host.
func TestDeniedByEstimator(t *testing.T) {
	rep, err := crawl.CheckReport(store.FetchReport{Outcome: store.OutcomeDenied})
	if !errors.Is(err, crawl.ErrNotSent) || rep.Outcome != store.OutcomeNone {
		t.Errorf("CheckReport() = %+v, %v, want no report and ErrNotSent", rep, err)
	}
}

// The report of an estimator decides what happens to the URL, but an invalid one never
// costs it.
func TestRemote(t *testing.T) {
	lost := errors.New("lost")
	ok := store.FetchReport{Outcome: store.OutcomeOK, Status: 200}
	for name, tc := range map[string]struct {
		answers []any // reports and errors, in order; then fetches are local
		wait    time.Duration
		failed  int64
		here    int // local fetches besides robots.txt
		silent  int // answers that are not observed
		pending int // pending links
	}{
		"fetched":    {answers: []any{ok}},
		"not sent":   {answers: []any{fmt.Errorf("%w: no", crawl.ErrNotSent)}, here: 1},
		"lost":       {answers: []any{lost, ok}, wait: 100 * time.Millisecond, silent: 1},
		"no outcome": {answers: []any{store.FetchReport{}, ok}, wait: 100 * time.Millisecond},
		"odd outcome": {answers: []any{store.FetchReport{Outcome: 200}, ok},
			wait: 100 * time.Millisecond},
		"reset": {answers: []any{store.FetchReport{Outcome: store.OutcomeReset}, ok}},
		"negative wait": {answers: []any{store.FetchReport{Outcome: store.OutcomeThrottled,
			RetryAfter: -time.Hour}, ok}},
		"final failure": {answers: []any{store.FetchReport{Outcome: store.OutcomeProtocol}},
			failed: 1},
		"foreign links": {answers: []any{store.FetchReport{Outcome: store.OutcomeOK,
			Links: []store.URL{"http://else.test/", "http://else.test/2"}}}, pending: 2},
		"slow down, say": {answers: []any{store.FetchReport{Outcome: store.OutcomeThrottled,
			RetryAfter: 60 * time.Millisecond}, ok}, wait: 60 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, "", 0, func(c *crawl.Config) {
				c.RemoteTimeout = 100 * time.Millisecond
				c.MaxPages = 3
			})
			s := newSite(t, 28, 1)
			r.own("a.test", s)
			s.html("/")
			var mu sync.Mutex
			answers := tc.answers
			r.where = func(netip.Prefix) crawl.Dispatch {
				mu.Lock()
				defer mu.Unlock()
				if len(answers) == 0 {
					return crawl.Dispatch{}
				}
				return crawl.Dispatch{Peer: "other"}
			}
			var times []time.Time
			r.remote = func(_ context.Context, peer string, q store.FetchRequest) (
				store.FetchReport, error) {
				mu.Lock()
				defer mu.Unlock()
				times = append(times, time.Now())
				a := answers[0]
				answers = answers[1:]
				if q.URL != s.url("a.test", "/") || q.Addr != s.addr.Addr() || peer != "other" {
					t.Errorf("%s got request %+v", peer, q)
				}
				if err, bad := a.(error); bad {
					return store.FetchReport{}, err
				}
				return a.(store.FetchReport), nil
			}
			r.seed(s.url("a.test", "/"))
			r.crawl()
			if got := s.count()["/"]; got != tc.here || len(answers) != 0 {
				t.Errorf("%d local fetches, %d answers left", got, len(answers))
			}
			if len(times) == 2 && times[1].Sub(times[0]) < tc.wait {
				t.Errorf("next request after %v, want at least %v", times[1].Sub(times[0]), tc.wait)
			}
			if c := r.db.Counters(); c.Failed != tc.failed ||
				r.pending()["else.test"] != tc.pending {
				t.Errorf("counters %+v, pending %v", c, r.pending())
			}
			if got := len(r.observed()); got != 1+len(tc.answers)+tc.here-tc.silent {
				t.Errorf("%d observations", got)
			}
		})
	}
}

// Links in a report are queued if they are in scope.
func TestRemoteLinks(t *testing.T) {
	r := newRig(t, "", 0, nil)
	s := newSite(t, 29, 1)
	r.own("a.test", s)
	s.html("/new")
	first := s.url("a.test", "/")
	r.where = func(netip.Prefix) crawl.Dispatch {
		if _, ok := r.page(s.url("a.test", "/new")); !ok &&
			r.db.Counters().EstimationsRequested == 0 {
			return crawl.Dispatch{Peer: "other"}
		}
		return crawl.Dispatch{}
	}
	r.remote = func(context.Context, string, store.FetchRequest) (store.FetchReport, error) {
		return store.FetchReport{Outcome: store.OutcomeOK,
			Links: []store.URL{s.url("a.test", "/new"), first}}, nil
	}
	r.seed(first)
	r.crawl()
	if got := s.count(); got["/new"] != 1 || got["/"] != 0 {
		t.Errorf("requests %v", got)
	}
	if p, ok := r.page(s.url("a.test", "/new")); !ok || p.Depth != 1 {
		t.Errorf("page %+v", p)
	}
	if _, ok := r.page(first); ok {
		t.Error("the page is stored by both peers")
	}
}

func TestConfigValidate(t *testing.T) {
	_, err := crawl.New(crawl.Config{BackOff: -1, Gap: -1, MaxPages: -1})
	for _, field := range []string{
		"DB", "Frontier", "Fetcher", "Scope", "Delegate",
		"Agent", "Workers", "MaxTries", "BackOff", "Gap", "FetchTimeout", "MaxPages",
	} {
		if err == nil || !strings.Contains(err.Error(), "crawl: "+field+" is ") {
			t.Errorf("New() without %s: %v", field, err)
		}
	}
}
