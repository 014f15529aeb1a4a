package crawl_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"peerd/crawl"
	"peerd/store"
)

func contentRules(rules crawl.ContentRules) func(*crawl.Config) {
	return func(c *crawl.Config) { c.Rules.Content = rules }
}

// prose is a text of n words that has little in common with one of another seed.
func prose(seed, n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "w%dx%d ", seed, i)
	}
	return b.String()
}

func (s *site) page(path, title, body string) {
	s.mux.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprintf(w, "<title>%s</title>%s", title, body)
	})
}

func TestDuplicates(t *testing.T) {
	for name, tc := range map[string]struct {
		rules       crawl.ContentRules
		exact, near int64
	}{
		"off":   {crawl.ContentRules{}, 0, 0},
		"exact": {crawl.ContentRules{Exact: true}, 1, 0},
		"near":  {crawl.ContentRules{Near: true}, 0, 1},
		"both":  {crawl.ContentRules{Exact: true, Near: true}, 1, 1},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, "", 0, contentRules(tc.rules))
			s, other := newSite(t, 71, 1), newSite(t, 71, 2)
			r.own("a.test", s)
			r.own("b.test", other)
			s.page("/first", "x", prose(1, 3000))
			s.page("/second", "x", prose(1, 3000))
			s.page("/third", "x", prose(1, 3000)+"more")
			s.page("/fourth", "x", prose(4, 3000))
			other.page("/first", "x", prose(1, 3000))
			for _, p := range []string{"/first", "/second", "/third", "/fourth"} {
				r.seed(s.url("a.test", p))
			}
			r.seed(other.url("b.test", "/first")) // of another host
			r.crawl()
			n := r.db.Named()
			if n["duplicate"] != tc.exact || n["near_duplicate"] != tc.near {
				t.Errorf("counted %v", n)
			}
			flags := func(p string) store.PageFlags {
				page, _ := r.page(s.url("a.test", p))
				return page.Flags
			}
			if flags("/first")|flags("/fourth") != 0 ||
				(flags("/second") == store.PageDuplicate) != (tc.exact > 0) || (flags("/third") == store.PageNearDuplicate) != (tc.near > 0) {
				t.Errorf("flags %v %v %v %v", flags("/first"), flags("/second"), flags("/third"), flags("/fourth"))
			}
		})
	}
}

// A site that answers every path with the same page, relative links and all, is
// no site without end; nor does it become one when its pages are looked at again.
func TestCopies(t *testing.T) {
	t.Parallel()
	const most = 3
	r := newRig(t, "", 0, func(c *crawl.Config) {
		c.Rules.Content = crawl.ContentRules{MaxCopies: most}
		c.Revisit = &eager
	})
	s := newSite(t, 72, 1)
	r.own("a.test", s)
	s.text("/robots.txt", "")
	s.page("/", "x", `<a href="x/">deeper</a>`)
	r.seed(s.url("a.test", "/"))
	stop := r.start()
	r.until("each page was looked at again", func() bool {
		n := s.count()
		return n["/"] >= 3 && n["/x/x/x/"] >= 3
	})
	stop()
	if n := s.count(); len(n) != 1+most+1 {
		t.Errorf("requests %v", n)
	}
	if n := r.db.Named()["copies"]; n != 1 {
		t.Errorf("%d pages counted", n)
	}
}

// A page that says 200 and means 404 leads nowhere.
func TestSoftNotFound(t *testing.T) {
	r := newRig(t, "", 0, contentRules(crawl.ContentRules{SoftNotFound: true}))
	s := newSite(t, 73, 1)
	r.own("a.test", s)
	s.text("/robots.txt", "")
	s.mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, `<title>Page not found</title>Sorry <a href="x/">try</a>`)
	})
	for i := range 8 {
		r.seed(s.url("a.test", fmt.Sprintf("/%d/", i)))
	}
	r.crawl()
	n := r.db.Named()["soft_404"]
	if got := len(s.count()); n < 3 || got > 1+8+8 {
		t.Errorf("%d soft 404s, requests %v", n, s.count())
	}
	if p, _ := r.page(s.url("a.test", "/7/")); p.Flags&store.PageSoftNotFound == 0 || len(p.Links) != 0 {
		t.Errorf("kept %+v", p)
	}
}

// A host that has shown to be a mirror of another is not followed any further.
func TestMirror(t *testing.T) {
	const pages = 40
	r := newRig(t, "", 0, contentRules(crawl.ContentRules{Mirrors: true}))
	first, mirror, other := newSite(t, 74, 1), newSite(t, 74, 2), newSite(t, 74, 3)
	for host, s := range map[string]*site{"first.test": first, "mirror.test": mirror, "other.test": other} {
		r.own(host, s)
		for i := range pages {
			text := prose(i, 20)
			if s == other {
				text = prose(-i, 20)
			}
			s.page(fmt.Sprintf("/%d", i), "x", fmt.Sprintf(`%s<a href="/%d">next</a>`, text, i+1))
		}
	}
	r.seed(first.url("first.test", "/0"))
	r.crawl()
	r.seed(mirror.url("mirror.test", "/0"), other.url("other.test", "/0"))
	r.crawl()
	if n := len(mirror.count()); n < 15 || n > 20 {
		t.Errorf("%d requests to the mirror", n)
	}
	if r.db.Named()["mirror"] != 1 || len(first.count()) != pages+2 || len(other.count()) != pages+2 {
		t.Errorf("counted %v; %d and %d requests to the others", r.db.Named(), len(first.count()), len(other.count()))
	}
}
