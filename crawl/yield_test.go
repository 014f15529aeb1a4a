package crawl_test

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"peerd/crawl"
	"peerd/crawl/trap"
	"peerd/store"
)

// textOf returns text of its own for each key.
func textOf(key string) string {
	var s strings.Builder
	for i := range 60 {
		fmt.Fprintf(&s, "%x ", store.URL(fmt.Sprint(key, i)).Digest())
	}
	return s.String()
}

// emptyPages serves pages below /trap/ that have the same text. Each links to the next two.
func emptyPages(s *site) {
	s.mux.HandleFunc("/trap/", func(w http.ResponseWriter, r *http.Request) {
		var n int
		_, _ = fmt.Sscanf(r.URL.Path, "/trap/%d", &n)
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprintf(w, "<title>Page %d</title>Nothing. <a href=%d>a</a> <a href=%d>b</a>",
			n, 2*n, 2*n+1)
	})
}

// Pages without text of their own are fetched until the limit. Then their links are
// deferred, and dropped when nothing else is left. Pages that other pages lead to are
// fetched, even if they are found late, and a restart does not change that.
func TestYield(t *testing.T) {
	const limit = 60
	dir, s := t.TempDir(), newSite(t, 81, 1)
	emptyPages(s)
	s.mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, textOf(r.URL.Path), "<a href=/trap/1>a</a>")
		var n int
		if _, err := fmt.Sscanf(r.URL.Path, "/chain/%d", &n); err == nil && n < 100 {
			fmt.Fprintf(w, "<a href=/chain/%d>next</a><a href=/found/%d>b</a>", n+1, n)
		}
	})
	gate := func() *crawl.Gate {
		return newGate(t, func(c *trap.Config) { c.MaxYield, c.MaxClosed = limit, 1000 })
	}
	r := newGatedRig(t, dir, 0, gate(), nil)
	r.own("a.test", s)
	r.seed(s.url("a.test", "/chain/1"))
	r.crawl()
	traps, others := 0, 0
	for path, n := range s.count() {
		if n > 1 {
			t.Errorf("%s was requested %d times", path, n)
		}
		if strings.HasPrefix(path, "/trap/") {
			traps++
		} else {
			others++
		}
	}
	if traps < limit || traps > limit+32 || others != 100+99+1 {
		t.Errorf("%d requests to the trap and %d others, robots.txt included", traps, others)
	}
	dropped := r.db.NamedCounters()[trap.Yield.String()]
	if dropped < limit || dropped != r.db.Counters().Dropped ||
		int64(others-1+traps)+dropped != r.db.Counters().Seen {
		t.Errorf("dropped %d as %v, seen %d", r.db.Counters().Dropped, r.db.NamedCounters(),
			r.db.Counters().Seen)
	}
	r.fatal(r.db.Close())

	r = newGatedRig(t, dir, 0, gate(), nil)
	r.seed(s.url("a.test", "/chain/200"), s.url("a.test", "/trap/1000000"))
	r.crawl()
	again := 0
	for path := range s.count() {
		if strings.HasPrefix(path, "/trap/") {
			again++
		}
	}
	if again > traps+limit/2 {
		t.Errorf("%d requests to the trap after a restart", again-traps)
	}
}

// The texts of pages that another peer fetched are compared as well, so that their links are
// recognised as part of a trap.
func TestYieldOfReports(t *testing.T) {
	const limit = 40
	s := newSite(t, 82, 1)
	emptyPages(s)
	other := newGatedRig(t, "", 0, newGate(t, func(*trap.Config) {}), nil)
	r := newGatedRig(t, "", 0, newGate(t, func(c *trap.Config) { c.MaxYield = limit }), nil)
	r.own("a.test", s)
	other.resolves("a.test", s.addr.Addr())
	r.where = func(netip.Prefix) crawl.Dispatch { return crawl.Dispatch{Peer: "other"} }
	r.remote = func(
		ctx context.Context, _ string, q store.FetchRequest,
	) (store.FetchReport, error) {
		return other.c.RemoteFetch(ctx, q, nil)
	}
	r.seed(s.url("a.test", "/trap/1"))
	r.crawl()
	if n := len(s.log()); n < limit || n > limit+32 {
		t.Errorf("%d requests", n)
	}
}

// A queued URL is judged by the stored state of its host if that is not in memory.
func TestYieldOfStoredState(t *testing.T) {
	g, err := trap.New(trap.DefaultConfig())
	if err != nil {
		t.Fatal(err)
	}
	r := newRig(t, "", 0, nil)
	e := store.Entry{URL: "http://a.test/1", Source: store.SourcePattern}
	var s trap.State
	for _, want := range []string{"", trap.Closed.String()} {
		gate := newGate(t, func(*trap.Config) {})
		got, err := gate.Exhausted(r.db, e, 1)
		r.fatal(err)
		if got != want {
			t.Errorf("reason %q, want %q", got, want)
		}
		for range 500 {
			g.Observe(&s, trap.Visit{URL: e.URL, Source: e.Source, Text: trap.TextNew})
		}
		raw, err := s.MarshalCBOR()
		r.fatal(err)
		r.fatal(r.db.Update(func(tx *store.Tx) error { return tx.PutState("a.test", raw) }))
	}
}
