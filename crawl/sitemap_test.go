package crawl_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"peerd/crawl"
	"peerd/crawl/scope"
	"peerd/store"
)

// urlset returns a sitemap of pages, index one of sitemaps.
func urlset(urls ...store.URL) string { return locs("urlset", "url", urls) }
func index(urls ...store.URL) string  { return locs("sitemapindex", "sitemap", urls) }

func locs(root, item string, urls []store.URL) string {
	var b strings.Builder
	fmt.Fprintf(&b, `<?xml version="1.0"?><%s xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">`,
		root)
	for _, u := range urls {
		fmt.Fprintf(&b, "<%s><loc>%s</loc></%s>", item, u, item)
	}
	fmt.Fprintf(&b, "</%s>", root)
	return b.String()
}

func zipped(text string) string {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	fmt.Fprint(w, text)
	w.Close()
	return b.String()
}

func withSitemaps(c *crawl.Config) { c.Rules.Sitemaps = true }

func TestSitemaps(t *testing.T) {
	r := newRig(t, "", 0, func(c *crawl.Config) {
		withSitemaps(c)
		shallow, err := scope.Compile(scope.Rules{Mode: scope.ModeAny, MaxDepth: 1}, nil)
		if err != nil {
			t.Fatal(err)
		}
		c.Scope = shallow
	})
	a, b := newSite(t, 56, 1), newSite(t, 56, 2)
	r.own("a.test", a)
	r.own("b.test", b)
	au := func(p string) store.URL { return a.url("a.test", p) }
	a.text("/robots.txt", fmt.Sprintf("Sitemap: %s\nSitemap: /rel.txt\nSitemap: %s\n",
		au("/index.xml"), b.url("b.test", "/cross.xml")))
	a.text("/index.xml", index(au("/zipped.xml.gz"), au("/deep1.xml"), au("/index.xml"),
		au("/broken.xml")))
	a.text("/zipped.xml.gz", zipped(urlset(au("/one"), au("/two"))))
	a.text("/rel.txt", string(au("/listed"))+"\n")
	a.text("/broken.xml", "<html><a href='/never'>")
	for i := 1; i < 6; i++ { // an endless chain of indexes
		a.text(fmt.Sprintf("/deep%d.xml", i), index(au(fmt.Sprintf("/deep%d.xml", i+1))))
	}
	b.text("/cross.xml", urlset(au("/crossed")))
	for _, p := range []string{"/one", "/two", "/listed", "/crossed"} {
		a.html(p, "/too-deep")
	}
	a.html("/{$}")
	r.seed(au("/"))
	r.crawl()
	n := a.count()
	for _, p := range []string{"/robots.txt", "/index.xml", "/zipped.xml.gz", "/rel.txt", "/one",
		"/two", "/listed", "/crossed", "/deep3.xml", "/broken.xml"} {
		if n[p] != 1 {
			t.Errorf("%s got %d requests, want 1", p, n[p])
		}
	}
	if n["/deep4.xml"] != 0 || n["/never"] != 0 || n["/too-deep"] != 0 ||
		b.count()["/cross.xml"] != 1 {
		t.Errorf("requests %v, %v", n, b.count())
	}
	if c := r.db.Counters(); c.Pages != 5 {
		t.Errorf("counted %d pages; sitemaps must not count", c.Pages)
	}
}

// Sitemaps may be large: only some are in progress at a time, the others wait, and none is
// lost.
func TestSitemapsAtOnce(t *testing.T) {
	r := newRig(t, "", 0, withSitemaps)
	var now, most atomic.Int64
	for i := range byte(8) {
		s := newSite(t, 57, i+1)
		host := fmt.Sprintf("s%d.test", i)
		r.own(host, s)
		s.text("/robots.txt", "Sitemap: /map.xml")
		s.mux.HandleFunc("/map.xml", func(w http.ResponseWriter, _ *http.Request) {
			n := now.Add(1)
			for old := most.Load(); n > old && !most.CompareAndSwap(old, n); old = most.Load() {
			}
			time.Sleep(20 * time.Millisecond) // so that they could overlap
			now.Add(-1)
			fmt.Fprint(w, urlset(s.url(host, "/found")))
		})
		s.html("/found")
		r.seed(s.url(host, "/found"))
		defer func() {
			if n := s.count(); n["/map.xml"] != 1 || n["/found"] != 1 {
				t.Errorf("requests %v", n)
			}
		}()
	}
	r.crawl()
	if most.Load() > 4 {
		t.Errorf("%d sitemaps in progress at once", most.Load())
	}
}

// A sitemap that says that a page has changed brings its visit forward, unless the sitemap
// is in another directory.
func TestSitemapHint(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]bool{"/map.xml": true, "/elsewhere/map.xml": false} {
		t.Run(path[1:], func(t *testing.T) {
			t.Parallel()
			soon := hourly
			soon.Min = 5 * time.Minute // so that the page is due early, but not within the test
			r := newRig(t, "", 0, visiting(soon))
			s := newSite(t, 58, byte(len(path)))
			r.own("a.test", s)
			s.html("/{$}")
			s.html("/page")
			u := s.url("a.test", "/page")
			r.seed(u)
			r.crawl()
			before, _ := r.visit(u)
			fetched := time.Now().Unix()
			r.until("the second has passed", func() bool { return time.Now().Unix() > fetched })
			s.text(path, fmt.Sprintf(
				"<urlset><url><loc>%s</loc><lastmod>%s</lastmod></url></urlset>", u,
				time.Now().UTC().Format("2006-01-02T15:04:05Z")))
			r.fatal(r.c.Route([]store.Pending{{URL: s.url("a.test", path),
				Kind: store.KindSitemap}}))
			r.crawl()
			after, _ := r.visit(u)
			if early := after.Due.Before(before.Due.Add(-10 * time.Minute)); early != want {
				t.Errorf("due %v before the hint, %v after it", before.Due, after.Due)
			}
			if h := r.host("a.test"); want && h.DueAt.Sub(after.Due).Abs() > time.Second {
				t.Errorf("host is due %v, page %v", h.DueAt, after.Due)
			}
			if s.count()["/page"] != 1 {
				t.Errorf("requests %v", s.count())
			}
		})
	}
}

// A sitemap with hints for tens of thousands of pages does not exceed a transaction.
func TestSitemapManyHints(t *testing.T) {
	t.Parallel()
	const n = 20_000
	r := newRig(t, t.TempDir(), 0, visiting(hourly))
	s := newSite(t, 59, 1)
	r.own("a.test", s)
	var b strings.Builder
	b.WriteString("<urlset>")
	for i := range n {
		fmt.Fprintf(&b,
			"<url><loc>%s</loc><lastmod>%s</lastmod><changefreq>hourly</changefreq></url>",
			s.url("a.test", fmt.Sprintf("/%d", i)),
			time.Now().UTC().Add(-time.Hour).Format("2006-01-02T15:04:05Z"))
	}
	b.WriteString("</urlset>")
	s.text("/map.xml", b.String())
	// All pages are known and due in an hour.
	for i := 0; i < n; i += 1000 {
		r.fatal(r.db.Update(func(tx *store.Tx) error {
			for k := i; k < i+1000; k++ {
				u := s.url("a.test", fmt.Sprintf("/%d", k))
				if err := tx.PutVisit(store.Visit{URL: u,
					Due: time.Now().Add(time.Hour)}); err != nil {
					return err
				}
				if err := tx.MarkSeen(u); err != nil {
					return err
				}
			}
			return nil
		}))
	}
	r.fatal(r.c.Route([]store.Pending{{URL: s.url("a.test", "/map.xml"), Kind: store.KindSitemap}}))
	stop := r.start()
	r.until("the sitemap is read", func() bool { return r.db.Counters().Fetches >= 1 })
	stop()
	if v, _ := r.visit(s.url("a.test", fmt.Sprintf("/%d", n-1))); len(v.History) == 0 {
		t.Error("the last page has no hint")
	}
}
