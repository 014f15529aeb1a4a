package node

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"peerd/node/admin"
)

// A trace follows a URL from the queue over its fetch to the archive, and says why another URL is
// not crawled.
func TestTrace(t *testing.T) {
	slow := make(chan struct{})
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/robots.txt":
			fmt.Fprint(w, "User-agent: *\nDisallow: /private\n")
			return
		case "/slow":
			<-slow
		}
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprintf(w, "<title>page %s</title>text", r.URL.Path)
	}))
	defer site.Close()
	release := sync.OnceFunc(func() { close(slow) })
	defer release()
	at, err := url.Parse(site.URL)
	if err != nil {
		t.Fatal(err)
	}
	o := options(t)
	o.Config.Strategy = "keep"
	o.Config.Archive.Enabled = true
	o.Config.Crawl.Resolve = map[string][]netip.Addr{
		"site.test": {netip.MustParseAddr("127.0.0.1")}}
	o.Profile.Scope.Exclude = []string{`/excluded`}
	if _, err := AddDenied(o.Home, "denied.test"); err != nil {
		t.Fatal(err)
	}
	n := newNode(t, o)
	defer running(t, n)()
	base := "http://site.test:" + at.Port()
	trace := func(path string) admin.Trace {
		t.Helper()
		tr, err := n.Trace(t.Context(), base+path)
		if err != nil || tr.URL != base+path || tr.Unplaced != "" {
			t.Fatalf("trace of %s = %+v, %v", path, tr, err)
		}
		return tr
	}
	seed := func(paths ...string) {
		t.Helper()
		for _, p := range paths {
			if _, err := n.Seed(t.Context(), []string{base + p}); err != nil {
				t.Fatal(err)
			}
		}
	}
	place := func(path string, want admin.URLPlace) {
		t.Helper()
		until(t, time.Minute, path+" is "+string(want), func() bool {
			return trace(path).Here.Place == want
		})
	}
	if here := trace("/slow").Here; here.Place != admin.PlaceNone || here.Seen {
		t.Errorf("a URL that was never seen: %+v", here)
	}
	seed("/slow")
	place("/slow", admin.PlaceInFlight)
	seed("/a", "/private")
	place("/private", admin.PlaceQueued)
	if tr := trace("/private"); tr.Here.Ahead != 2 || tr.Placement == nil || !tr.Placement.Own ||
		tr.Placement.Subnet != "127.0.0.0/24" || tr.Here.HostState != "answering" {
		t.Errorf("a queued URL: %+v", tr)
	}
	release()
	until(t, time.Minute, "everything is done", n.Idle)
	tr := trace("/a").Here
	if tr.Place != admin.PlaceNone || tr.Page == nil || tr.Page.Status != http.StatusOK ||
		len(tr.Captures) != 1 || tr.Captures[0].Status != "200" || tr.Captures[0].At.IsZero() ||
		tr.CapturesUnread != "" || !strings.HasPrefix(tr.Why, "It was fetched") {
		t.Errorf("a URL that was fetched: %+v", tr)
	}
	tr = trace("/private").Here
	if tr.GivenUp == nil || tr.GivenUp.Outcome != "robots_denied" {
		t.Errorf("a URL that robots.txt forbids: %+v", tr)
	}
	if out := trace("/excluded"); out.OutOfScope == "" || out.Placement != nil {
		t.Errorf("a URL out of scope: %+v", out)
	}
	denied, err := n.Trace(t.Context(), "http://denied.test/")
	if err != nil || !strings.Contains(denied.Denied, "denied.test") || denied.Unplaced == "" {
		t.Errorf("a denied URL without an address: %+v, %v", denied, err)
	}
	if _, err := n.Trace(t.Context(), "mailto:a@a.test"); !errors.Is(err, admin.ErrBadRequest) {
		t.Errorf("no URL: %v", err)
	}
}

// A peer that is not the owner asks the owner.
func TestTraceAsksOwner(t *testing.T) {
	t.Parallel()
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, "text")
	}))
	defer site.Close()
	at, err := url.Parse(site.URL)
	if err != nil {
		t.Fatal(err)
	}
	o := options(t)
	o.Config.Strategy = "keep"
	o.Config.Crawl.Resolve = map[string][]netip.Addr{
		"site.test": {netip.MustParseAddr("127.0.0.1")}}
	first := newNode(t, o)
	defer running(t, first)()
	page := "http://site.test:" + at.Port() + "/a"
	if _, err := first.Seed(t.Context(), []string{page}); err != nil {
		t.Fatal(err)
	}
	until(t, time.Minute, "the page is fetched", func() bool {
		return first.db.Counters().Pages == 1 && first.Idle()
	})
	other := options(t)
	other.Config.Strategy, other.Config.Crawl.Resolve = "keep", o.Config.Crawl.Resolve
	other.Config.Bootstrap = first.Addrs()[:1]
	second := newNode(t, other)
	defer running(t, second)()
	var tr admin.Trace
	until(t, time.Minute, "the second peer knows the owner", func() bool {
		tr, err = second.Trace(t.Context(), page)
		return err != nil || tr.AtOwner != nil || tr.Unanswered != ""
	})
	if s := tr.AtOwner; err != nil || s == nil || s.Page == nil || s.Page.Status != 200 ||
		s.Page.Outcome != "ok" || !s.Seen || s.HostState != "answering" ||
		!strings.HasPrefix(s.Why, "It was fetched") || tr.Here.Page != nil {
		t.Errorf("trace = %+v, at the owner %+v, %v", tr, tr.AtOwner, err)
	}
}

// What is sent to another peer arrives there.
func TestSentState(t *testing.T) {
	at := time.UnixMilli(1_800_000_000_000).UTC()
	for place := range placesSent {
		s := admin.URLState{Place: place, Ahead: 4, Seen: true, NextVisit: &at, HostRetry: &at,
			HostState: "throttled", Page: &admin.Page{URL: "u", FetchedAt: at, Status: 200,
				Outcome: "ok", Bytes: 5, TookMs: 2, Estimation: true},
			GivenUp: &admin.GivenUp{URL: "u", At: at, First: at, Status: 404, Tries: 2,
				Outcome: "http_error", Error: "no"}}
		got := receivedState("u", sentState(s))
		if got.Why == "" {
			t.Errorf("%s: no reason", place)
		}
		got.Why, got.CapturesUnread = "", ""
		if !reflect.DeepEqual(got, s) {
			t.Errorf("%s: got %+v, want %+v", place, got, s)
		}
	}
}
