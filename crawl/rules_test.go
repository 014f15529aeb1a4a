package crawl_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"peerd/crawl"
	"peerd/store"
)

// Pages and links may ask not to be followed; the rules decide whether that is obeyed.
func TestPageRules(t *testing.T) {
	const (
		nofollow  = `<meta name="robots" content="nofollow">`
		canonical = `<link rel="canonical" href="/kept">`
		links     = `<a href="/plain">x</a><a rel="nofollow" href="/no">x</a>` +
			`<a rel="UGC" href="/ugc">x</a><a rel="sponsored" href="/ad">x</a>`
	)
	type set = crawl.Rules
	for name, tc := range map[string]struct {
		rules set
		head  string
		tag   string // X-Robots-Tag
		want  string
		flags store.PageFlags
	}{
		"nothing obeyed": {set{}, nofollow + canonical, "", "/ad /kept /no /plain /ugc",
			store.PageNoFollow | store.PageNotCanonical},
		"nofollow": {set{ObeyNofollow: true}, nofollow, "", "", store.PageNoFollow},
		"nofollow by header": {set{ObeyNofollow: true}, "", "peerd: nofollow", "",
			store.PageNoFollow},
		"nofollow for another": {set{ObeyNofollow: true}, "", "other: nofollow",
			"/ad /no /plain /ugc", 0},
		"nofollow has a link": {set{ObeyNofollow: true}, nofollow + canonical, "", "",
			store.PageNoFollow | store.PageNotCanonical},
		"rel": {set{ObeyRel: true}, "", "", "/plain", 0},
		"canonical": {set{ObeyCanonical: true}, canonical, "", "/kept",
			store.PageNotCanonical},
		"canonical of itself": {set{ObeyCanonical: true}, `<link rel="canonical" href="/start">`,
			"", "/ad /no /plain /ugc", 0},
		"canonical, nofollow": {set{ObeyCanonical: true, ObeyNofollow: true}, nofollow + canonical,
			"", "/kept", store.PageNoFollow | store.PageNotCanonical},
		"noindex, noarchive": {set{}, `<meta name="robots" content="noindex,noarchive">`, "",
			"/ad /no /plain /ugc", store.PageNoIndex | store.PageNoArchive},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, "", 0, func(c *crawl.Config) { c.Rules = tc.rules })
			s := newSite(t, 61, 1)
			r.own("a.test", s)
			s.mux.HandleFunc("/start", func(w http.ResponseWriter, _ *http.Request) {
				if tc.tag != "" {
					w.Header().Set("X-Robots-Tag", tc.tag)
				}
				w.Header().Set("Content-Type", "text/html")
				fmt.Fprint(w, "<head>", tc.head, "</head>", links)
			})
			r.seed(s.url("a.test", "/start"))
			r.crawl()
			n := s.count()
			delete(n, "/robots.txt")
			delete(n, "/start")
			var got []string
			for p := range n {
				got = append(got, p)
			}
			slices.Sort(got)
			if strings.Join(got, " ") != tc.want {
				t.Errorf("followed %v, want %q", got, tc.want)
			}
			p, _ := r.page(s.url("a.test", "/start"))
			out := slices.DeleteFunc(p.Links, func(u store.URL) bool { return u == p.URL })
			if p.Flags != tc.flags || len(out) != len(got) {
				t.Errorf("stored %+v", p)
			}
			if q, ok := r.page(s.url("a.test", "/kept")); ok && tc.rules.ObeyCanonical &&
				q.Depth != 0 {
				t.Errorf("the canonical page has depth %d", q.Depth)
			}
		})
	}
}

// Chains of up to twenty redirects are followed, and so are chains of canonical URLs.
func TestRedirectChains(t *testing.T) {
	next := func(q *http.Request) string {
		var n int
		fmt.Sscanf(q.URL.Path, "/r%d", &n)
		return fmt.Sprintf("/r%d", n+1)
	}
	for name, h := range map[string]http.HandlerFunc{
		"redirect": func(w http.ResponseWriter, q *http.Request) {
			http.Redirect(w, q, next(q), http.StatusFound)
		},
		"canonical": func(w http.ResponseWriter, q *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			fmt.Fprintf(w, `<link rel="canonical" href=%q>`, next(q))
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, "", 0, func(c *crawl.Config) { c.Rules.ObeyCanonical = true })
			s := newSite(t, 62, 1)
			r.own("a.test", s)
			s.mux.HandleFunc("/", h)
			s.text("/robots.txt", "")
			r.seed(s.url("a.test", "/r0"))
			r.crawl()
			if n := s.count(); n["/r20"] != 1 || n["/r21"] != 0 || len(n) != 22 {
				t.Errorf("requests %v", n)
			}
			if n := r.db.NamedCounters()["redirects"]; n != 1 {
				t.Errorf("%d chains were cut", n)
			}
		})
	}
}

// A URL that is known to be seen is not processed again.
func TestKnownSeen(t *testing.T) {
	var mu sync.Mutex
	asked := map[store.URL]int{}
	r := newRig(t, "", 0, func(c *crawl.Config) {
		c.Delegate.(*rig).sent = func(u store.URL) bool {
			mu.Lock()
			defer mu.Unlock()
			asked[u]++
			return false
		}
	})
	s := newSite(t, 63, 1)
	r.own("a.test", s)
	const n = 20
	for i := range n {
		s.html(fmt.Sprintf("/%d", i), "/menu", fmt.Sprintf("/%d", i+1))
	}
	s.html("/menu", "/0")
	r.seed(s.url("a.test", "/0"))
	r.crawl()
	if k := asked[s.url("a.test", "/menu")]; k != 1 {
		t.Errorf("the common link was processed %d times", k)
	}
	for p, k := range s.count() {
		if k != 1 {
			t.Errorf("%s got %d requests, want 1", p, k)
		}
	}
}

// A page leads to a limited number of hosts that are addresses, with any number of pages each.
func TestLiterals(t *testing.T) {
	r := newRig(t, "", 0, nil)
	s := newSite(t, 83, 1)
	var links []any
	for i := range 200 {
		links = append(links, fmt.Sprintf("http://[2a00:1::%x]/", i+1),
			fmt.Sprintf("http://[2a00:1::%x]/more", i+1), fmt.Sprintf("http://n%d.test/", i))
	}
	s.html("/", links...)
	r.own("a.test", s)
	r.seed(s.url("a.test", "/"))
	r.crawl()
	names, addrs := 0, 0
	for host, n := range r.pending() {
		if strings.HasSuffix(host, ".test") {
			names++
		} else if addrs++; n != 2 {
			t.Errorf("%d URLs of %s are pending, want 2", n, host)
		}
	}
	if names != 200 || addrs != 64 {
		t.Errorf("%d names and %d addresses are pending, want 200 and 64", names, addrs)
	}
}
