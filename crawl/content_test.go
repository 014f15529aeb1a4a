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

// prose returns a text of n words that has little in common with texts of other seeds.
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
		rules crawl.ContentRules
		exact int64
	}{
		"off": {crawl.ContentRules{}, 0},
		"on":  {crawl.ContentRules{Exact: true}, 1},
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
			n := r.db.NamedCounters()
			if n["duplicate"] != tc.exact {
				t.Errorf("named counters are %v", n)
			}
			flags := func(p string) store.PageFlags {
				page, _ := r.page(s.url("a.test", p))
				return page.Flags
			}
			if flags("/first")|flags("/third")|flags("/fourth") != 0 ||
				(flags("/second") == store.PageDuplicate) != (tc.exact > 0) {
				t.Errorf("flags %v %v %v %v", flags("/first"), flags("/second"), flags("/third"),
					flags("/fourth"))
			}
		})
	}
}

// A site that answers every path with the same page, with relative links, does not become
// endless, nor when its pages are revisited.
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
	r.until("each page is revisited", func() bool {
		n := s.count()
		return n["/"] >= 3 && n["/x/x/x/"] >= 3
	})
	stop()
	if n := s.count(); len(n) != 1+most+1 {
		t.Errorf("requests %v", n)
	}
	if n := r.db.NamedCounters()["copies"]; n != 1 {
		t.Errorf("counted %d pages", n)
	}
}
