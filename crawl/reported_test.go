package crawl_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"

	"peerd/crawl"
	"peerd/crawl/canon"
	"peerd/store"
)

// An estimator may be lost with its disk as soon as it has answered. All links that it
// found are in the change log of the page's subnet, from which replicas are updated.
func TestEstimatorLost(t *testing.T) {
	t.Parallel()
	s := newSite(t, 33, 1)
	s.html("/", "/own", "http://far.test/", "/moved", "http://far.test/2")
	s.html("/own")
	s.mux.Handle("/moved", http.RedirectHandler("http://else.test/", http.StatusFound))
	e, o := newRig(t, "", 0, nil), newRig(t, "", 0, nil)
	o.own("a.test", s)
	e.resolves("a.test", s.addr.Addr())
	subnet := store.SubnetOf(s.addr.Addr())
	o.fatal(o.db.StartLog(subnet, 1, store.LogPos{}))
	o.where = func(netip.Prefix) crawl.Dispatch { return crawl.Dispatch{Peer: "other"} }
	var asked atomic.Int64
	o.remote = func(ctx context.Context, _ string, q store.FetchRequest) (store.FetchReport,
		error) {
		rep, err := e.c.RemoteFetch(ctx, q, nil)
		if asked.Add(1) == 1 {
			return store.FetchReport{}, errors.New("the answer was lost")
		}
		return rep, err
	}
	o.seed(s.url("a.test", "/"))
	o.crawl()
	if got := s.count(); got["/"] != 1 || got["/own"] != 1 || got["/moved"] != 1 ||
		asked.Load() != 4 {
		t.Errorf("%d requests to the estimator for %v", asked.Load(), got)
	}
	if got := e.pending(); len(got) != 0 || e.db.Counters().Pages != 2 ||
		o.db.Counters().Pages != 0 {
		t.Errorf("the estimator has pending %v, counters %+v", got, e.db.Counters())
	}
	type link struct{ depth, hops int }
	want := map[store.URL]link{"http://far.test/": {depth: 1}, "http://far.test/2": {depth: 1},
		"http://else.test/": {depth: 1, hops: 1}}
	logged := map[store.URL]link{}
	o.fatal(o.db.View(func(tx *store.Tx) error {
		return tx.LogRecords(subnet, 0, func(_ uint64, raw []byte) (bool, error) {
			ops, err := store.DecodeOps(raw)
			for _, op := range ops {
				if p := op.Pending; p != nil {
					logged[p.URL] = link{p.Depth, p.Hops}
				}
			}
			return true, err
		})
	}))
	if fmt.Sprint(logged) != fmt.Sprint(want) {
		t.Errorf("logged %v, want %v", logged, want)
	}
	for u := range want {
		o.fatal(o.db.View(func(tx *store.Tx) error {
			waits, err := tx.HasPending(u)
			if !waits {
				t.Errorf("%s is not pending", u)
			}
			return err
		}))
	}
}

// If a subnet is paused during a fetch because it will be handed over, the page's links are
// in its change log, including those to the page's own host.
func TestLinksOfPausedSubnet(t *testing.T) {
	s := newSite(t, 33, 2)
	r := newRig(t, "", 0, nil)
	r.own("a.test", s)
	subnet := store.SubnetOf(s.addr.Addr())
	r.fatal(r.db.StartLog(subnet, 1, store.LogPos{}))
	s.mux.HandleFunc("/{$}", func(w http.ResponseWriter, _ *http.Request) {
		r.fr.BeginPause(subnet)
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, `<a href="/own">x</a>`)
	})
	r.seed(s.url("a.test", "/"))
	r.crawl()
	found := false
	r.fatal(r.db.View(func(tx *store.Tx) error {
		return tx.LogRecords(subnet, 0, func(_ uint64, raw []byte) (bool, error) {
			ops, err := store.DecodeOps(raw)
			for _, op := range ops {
				found = found || op.Pending != nil && op.Pending.URL == s.url("a.test", "/own")
			}
			return true, err
		})
	}))
	if !found || r.pending()["a.test"] != 1 {
		t.Errorf("change log has %v; pending %v", found, r.pending())
	}
}

// The links of a report are limited to what this peer could have found on the page.
func TestReported(t *testing.T) {
	r := newRig(t, "", 0, func(c *crawl.Config) { c.Rules.ObeyCanonical = true })
	many := make([]store.URL, crawl.MaxLinks+5)
	for i := range many {
		many[i] = store.URL(fmt.Sprintf("http://a.test/%d", i))
	}
	long := make([]store.URL, 7000)
	for i := range long {
		long[i] = store.URL(fmt.Sprintf("http://b.test/%s/%d", strings.Repeat("x", 2000), i))
	}
	some := []store.URL{"http://a.test/1", "http://b.test/", "http://a.test/1", "http://b.test/2"}
	for name, tc := range map[string]struct {
		entry       store.Entry
		rep         store.FetchReport
		n           int
		depth, hops int
	}{
		"page": {entry: store.Entry{Depth: 3, Hops: 4},
			rep: store.FetchReport{Outcome: store.OutcomeOK, Links: some}, n: 3, depth: 4},
		"cut page": {rep: store.FetchReport{Outcome: store.OutcomeTooLarge, Links: some},
			n: 3, depth: 1},
		"redirect": {entry: store.Entry{Depth: 3, Hops: 4},
			rep: store.FetchReport{Outcome: store.OutcomeRedirect, Links: some}, n: 1, depth: 3,
			hops: 5},
		"endless": {entry: store.Entry{Hops: crawl.MaxRedirects},
			rep: store.FetchReport{Outcome: store.OutcomeRedirect, Links: some}},
		"canonical": {entry: store.Entry{Depth: 3},
			rep: store.FetchReport{Outcome: store.OutcomeOK, Links: some,
				Content: store.Content{Flags: store.PageNotCanonical}}, n: 1, depth: 3, hops: 1},
		"no page":        {rep: store.FetchReport{Outcome: store.OutcomeHTTPError, Links: some}},
		"unchanged page": {rep: store.FetchReport{Outcome: store.OutcomeNotModified, Links: some}},
		"too many": {rep: store.FetchReport{Outcome: store.OutcomeOK, Links: many},
			n: crawl.MaxLinks, depth: 1},
		"too long": {rep: store.FetchReport{Outcome: store.OutcomeOK, Links: long},
			n: crawl.MaxLinkBytes / len(long[5000]), depth: 1},
	} {
		tc.entry.URL = "http://a.test/"
		got := r.c.ReportedLinks(tc.entry, tc.rep)
		if d := len(got) - tc.n; d < 0 || d > 8 || d > 0 && name != "too long" {
			t.Errorf("%s: %d links, want %d", name, len(got), tc.n)
		}
		for _, l := range got {
			from := ""
			if l.URL.Host() != "a.test" {
				from = "a.test"
			}
			if l.Depth != tc.depth || l.Hops != tc.hops || l.From != from || l.Found.IsZero() ||
				l.Kind != store.KindPage {
				t.Errorf("%s: %+v", name, l)
			}
		}
	}
}

// FuzzReported passes links to the owner. What it accepts is in scope, distinct, and found
// at the page.
func FuzzReported(f *testing.F) {
	f.Add("http://a.test/1\nhttp://b.test/\n\nx\n://\nhttp://a.test/1", uint8(store.OutcomeOK),
		uint16(0), 1, 0)
	f.Add("http://b.test/", uint8(store.OutcomeRedirect), uint16(store.PageNotCanonical), 0, 19)
	r := newRig(f, "", 0, func(c *crawl.Config) { c.Rules.ObeyCanonical = true })
	f.Fuzz(func(t *testing.T, text string, outcome uint8, flags uint16, depth, hops int) {
		e := store.Entry{URL: "http://a.test/", Depth: depth % 1000, Hops: hops}
		rep := store.FetchReport{Outcome: store.Outcome(outcome),
			Content: store.Content{Flags: store.PageFlags(flags)}}
		offered := map[store.URL]bool{}
		for line := range strings.SplitSeq(text, "\n") {
			if u, err := canon.Parse(line); err == nil { // as the Delegate ensures
				rep.Links = append(rep.Links, u)
				offered[u] = true
			}
		}
		seen := map[store.URL]bool{}
		for _, l := range r.c.ReportedLinks(e, rep) {
			if !offered[l.URL] || seen[l.URL] || l.URL.Host() == "" ||
				l.Hops > crawl.MaxRedirects || l.Depth < e.Depth || l.Depth > e.Depth+1 {
				t.Errorf("accepted %+v", l)
			}
			if seen[l.URL] = true; (l.From == "a.test") == (l.URL.Host() == "a.test") {
				t.Errorf("From = %q for %s", l.From, l.URL)
			}
		}
	})
}
