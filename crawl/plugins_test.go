package crawl_test

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"peerd/crawl"
	"peerd/crawl/crawllet/page"
	"peerd/store"
)

// A link that a plug-in finds is fetched if it is in scope, and does not count as one of the page.
func TestPlugins(t *testing.T) {
	r := newRig(t, "", 0, nil)
	r.plugins = func(p page.Page) []crawl.PluginResult {
		if !strings.HasSuffix(p.URL, "/") || !strings.Contains(string(p.Body), "/linked") ||
			!strings.HasPrefix(p.Type, "text/html") {
			return nil
		}
		return []crawl.PluginResult{{Plugin: "test", Result: page.Result{
			Links: []string{"found", "/linked", "http://other.test/", "mailto:a@b",
				"/found#x"}}}}
	}
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

// A plug-in adds a limited number of links to a page, and none to a page that another peer has
// requested: that compares the links.
func TestPluginLimits(t *testing.T) {
	var calls atomic.Int64
	r := newRig(t, "", 0, nil)
	r.plugins = func(page.Page) []crawl.PluginResult {
		calls.Add(1)
		var found page.Result
		for i := range crawl.PluginLinks + 5 {
			found.Links = append(found.Links, fmt.Sprintf("http://far.test/%d", i))
		}
		return []crawl.PluginResult{{Plugin: "test", Result: found}}
	}
	a := newSite(t, 57, 2)
	r.own("a.test", a)
	a.html("/{$}")
	r.seed(a.url("a.test", "/"))
	r.crawl()
	if n := r.pending()["far.test"]; n != crawl.PluginLinks || calls.Load() != 1 {
		t.Errorf("%d links of %d calls, want %d of one", n, calls.Load(), crawl.PluginLinks)
	}
	b := newSite(t, 57, 3)
	r.resolves("b.test", b.addr.Addr())
	b.html("/{$}", "/linked")
	rep, err := r.c.RemoteFetch(t.Context(), store.FetchRequest{URL: b.url("b.test", "/"),
		Addr: b.addr.Addr()}, nil)
	if err != nil || len(rep.Links) != 1 || calls.Load() != 1 {
		t.Errorf("a page for another peer: %+v, %v, %d calls", rep, err, calls.Load())
	}
}
