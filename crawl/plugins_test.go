package crawl_test

import (
	"strings"
	"testing"

	"peerd/crawl"
	"peerd/crawl/crawllet/page"
	"peerd/store"
)

// A link that a plug-in finds is fetched if it is in scope, and does not count as one of the page.
func TestPlugins(t *testing.T) {
	r := newRig(t, "", 0, func(c *crawl.Config) {
		c.Plugins = func(p page.Page) []crawl.PluginResult {
			if !strings.HasSuffix(p.URL, "/") || !strings.Contains(string(p.Body), "/linked") ||
				!strings.HasPrefix(p.Type, "text/html") {
				return nil
			}
			return []crawl.PluginResult{{Plugin: "test", Result: page.Result{
				Links: []string{"found", "/linked", "http://other.test/", "mailto:a@b",
					"/found#x"}}}}
		}
	})
	a := newSite(t, 57, 1)
	r.own("a.test", a)
	a.html("/{$}", "/linked")
	a.html("/linked")
	a.html("/found")
	r.seed(a.url("a.test", "/"))
	r.crawl()
	n := a.count()
	if n["/"] != 1 || n["/linked"] != 1 || n["/found"] != 1 {
		t.Errorf("requests %v, want one of each page", n)
	}
	err := r.db.View(func(tx *store.Tx) error {
		p, err := tx.Page(a.url("a.test", "/"))
		if len(p.Links) != 1 {
			t.Errorf("links of the page %v, want its own", p.Links)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}
