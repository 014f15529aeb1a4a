package crawl_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"peerd/crawl"
	"peerd/store"
)

// checking returns an owner that has all pages fetched by another peer, until it is told not to ask
// that one, and checks a share of the reports.
func checking(t *testing.T, s *site, share float64, remote func(store.FetchRequest) (
	store.FetchReport, error)) (o *rig, asked *atomic.Int64) {
	t.Helper()
	asked = new(atomic.Int64)
	o = newRig(t, "", 0, func(c *crawl.Config) { c.CheckReports, c.Workers = share, 1 })
	o.own("a.test", s)
	o.where = func(netip.Prefix) crawl.Dispatch {
		for _, x := range o.observed() {
			if x.peer == "other" && errors.Is(x.err, crawl.ErrNotSent) && lies(o, "other") {
				return crawl.Dispatch{}
			}
		}
		return crawl.Dispatch{Peer: "other"}
	}
	o.remote = func(_ context.Context, _ string, q store.FetchRequest) (store.FetchReport, error) {
		asked.Add(1)
		return remote(q)
	}
	return o, asked
}

// lies reports whether an owner takes a peer for a liar.
func lies(o *rig, peer string) bool {
	r, _ := o.c.Reports(peer)
	return r.Trust == crawl.Liar
}

// pages serves a page "/" with links to n others, and returns the URLs of all.
func pages(s *site, n int) (all []string) {
	var links []any
	for i := range n {
		all = append(all, fmt.Sprintf("/p%d", i))
		links = append(links, all[i])
		s.html(all[i])
	}
	s.html("/", links...)
	return append(all, "/")
}

// TestMadeUpPages verifies that a peer that makes up pages costs no page and no link, and is soon
// not asked.
func TestMadeUpPages(t *testing.T) {
	for name, rep := range map[string]store.FetchReport{
		"empty":    {Outcome: store.OutcomeOK, Status: 200, Bytes: 8},
		"missing":  {Outcome: store.OutcomeHTTPError, Status: 404},
		"redirect": {Outcome: store.OutcomeRedirect, Status: 302},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, 33, 1)
			all := pages(s, 20)
			o, asked := checking(t, s, 0.01, func(store.FetchRequest) (store.FetchReport, error) {
				return rep, nil
			})
			o.seed(s.url("a.test", "/"))
			o.crawl()
			r, _ := o.c.Reports("other")
			got := s.count()
			for _, x := range r.Checks {
				got[strings.TrimPrefix(string(x.URL), string(s.url("a.test", "")))]-- // twice
			}
			for _, p := range all {
				if got[p] != 1 {
					t.Errorf("%s was requested %d times, want once", p, got[p])
				}
			}
			if asked.Load() != 2 || r.Trust != crawl.Liar {
				t.Errorf("asked %d times, %v: %+v; want 2 times, and a liar", asked.Load(),
					r.Trust, o.observed())
			}
			if len(r.Checks) != 2 || r.Checks[0].URL == "" ||
				r.Checks[0].Said == r.Checks[0].Found {
				t.Errorf("the evidence is %+v", r.Checks)
			}
		})
	}
}

// TestReportsOfHonestPeer verifies that a peer is believed after one check, and that the estimation
// counts only after that.
func TestReportsOfHonestPeer(t *testing.T) {
	s := newSite(t, 33, 1)
	all := pages(s, 20)
	e := newRig(t, "", 0, nil)
	e.resolves("a.test", s.addr.Addr())
	o, asked := checking(t, s, 1e-9, func(q store.FetchRequest) (store.FetchReport, error) {
		return e.c.RemoteFetch(t.Context(), q, nil)
	})
	o.seed(s.url("a.test", "/"))
	o.crawl()
	twice := 0
	for _, p := range all {
		if n := s.count()[p]; n == 2 {
			twice++
		} else if n != 1 {
			t.Errorf("%s was requested %d times", p, n)
		}
	}
	if n := o.checked.Load(); n != 1 {
		t.Errorf("%d pages were said to be checks, want 1", n)
	}
	if r, _ := o.c.Reports("other"); twice != 1 || asked.Load() != 21 || r.Trust != crawl.Trusted ||
		r.Unchecked != 20 {
		t.Errorf("%d pages twice, asked %d times, %+v; want one page, 21 times, trusted", twice,
			asked.Load(), r)
	}
	counted := 0
	for _, x := range o.observed() {
		if x.peer == "other" && x.err == nil {
			counted++
		}
	}
	if counted != 21 {
		t.Errorf("%d reports counted, want 21", counted)
	}
}

// TestReportsAreTakenBack verifies that what a peer has reported since it was checked is fetched
// again when it turns out to lie.
func TestReportsAreTakenBack(t *testing.T) {
	s := newSite(t, 33, 1)
	all := pages(s, 400)
	e := newRig(t, "", 0, nil)
	e.resolves("a.test", s.addr.Addr())
	first := true
	o, _ := checking(t, s, 1e-9, func(q store.FetchRequest) (store.FetchReport, error) {
		if first {
			first = false
			return e.c.RemoteFetch(t.Context(), q, nil)
		}
		return store.FetchReport{Outcome: store.OutcomeHTTPError, Status: 404}, nil
	})
	o.seed(s.url("a.test", "/"))
	o.crawl()
	got := s.count()
	r, _ := o.c.Reports("other")
	for _, x := range r.Checks { // by both peers, or twice by this one
		got[strings.TrimPrefix(string(x.URL), string(s.url("a.test", "")))]--
	}
	for _, p := range all {
		if n := got[p]; n != 1 {
			t.Errorf("%s was requested %d times, want once", p, n)
		}
	}
	if !lies(o, "other") {
		t.Error("the peer is no liar")
	}
}

// TestCompareReports verifies what is taken for the same page.
func TestCompareReports(t *testing.T) {
	page := func(text uint64, bytes int64, links ...store.URL) store.FetchReport {
		return store.FetchReport{Outcome: store.OutcomeOK, Status: 200, Bytes: bytes, Links: links,
			Content: store.Content{Fingerprint: text,
				Digest: store.Digest{byte(text), byte(bytes)}}}
	}
	status := func(n int) store.FetchReport {
		return store.FetchReport{Outcome: store.OutcomeHTTPError, Status: n}
	}
	links := []store.URL{"http://a/1", "http://a/2", "http://a/3", "http://a/4"}
	moved := store.FetchReport{Outcome: store.OutcomeRedirect, Status: 302}
	for name, c := range map[string]struct {
		said, found store.FetchReport
		want        string
	}{
		"equal":            {page(7, 100), page(7, 100), "same"},
		"similar texts":    {page(0xff00, 100), page(0xff0f, 300), "same"},
		"same links":       {page(1, 100, links...), page(^uint64(1), 900, links...), "same"},
		"other links":      {page(1, 100), page(^uint64(1), 100, links...), "different"},
		"similar sizes":    {page(1, 100), page(^uint64(1), 105), "unclear"},
		"other sizes":      {page(1, 8), page(^uint64(1), 100), "different"},
		"missing, a page":  {status(404), page(1, 9), "different"},
		"a page, missing":  {page(1, 9), status(410), "different"},
		"both missing":     {status(404), status(410), "same"},
		"busy now":         {page(1, 9), status(503), "unclear"},
		"forbidden there":  {status(403), page(1, 9), "different"},
		"redirect or page": {moved, page(1, 9), "different"},
		"two redirects": {moved, store.FetchReport{Outcome: store.OutcomeRedirect,
			Content: store.Content{Digest: store.Digest{1}}}, "unclear"},
	} {
		if got := crawl.Compare(c.said, c.found); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// TestCheckAllowance verifies that checks are bounded by host, whoever reports.
func TestCheckAllowance(t *testing.T) {
	now := time.Now()
	n := crawl.ChecksAllowed("a.test", 1000, now, now.Add(time.Minute))
	if n[0] != 32 || n[1] != 6 {
		t.Errorf("%d checks at once and %d a minute later, want 32 and 6", n[0], n[1])
	}
}
