package crawl

import (
	"maps"
	"slices"
	"strings"

	"peerd/crawl/canon"
	"peerd/crawl/crawllet/page"
	"peerd/crawl/fetch"
	"peerd/store"
	"peerd/store/warc"
)

const (
	// maxPluginLinks bounds the links that a plug-in adds to a page.
	maxPluginLinks = 1000
	// maxPluginFields bounds the fields that it adds, and maxPluginField each, in bytes.
	maxPluginFields, maxPluginField = 16, 2048
)

// PluginResult is what a plug-in has found in a page.
type PluginResult struct {
	Plugin string
	page.Result
}

// plugIn has the plug-ins process a page that was read as HTML, and returns the links to follow
// that they have found beyond those of the page. Their fields become metadata of the archive. What
// other peers report is compared with the page itself, so neither is part of got.report.
func (c *Crawler) plugIn(got *fetched, res *fetch.Result) (links []store.Pending) {
	if got.doc == nil || len(res.Body) > page.MaxBody {
		return nil
	}
	all := c.cfg.Delegate.Plugins(page.Page{URL: string(got.page.URL), Type: got.page.ContentType,
		Body: res.Body})
	follow := !c.cfg.Rules.ObeyNofollow || got.report.Content.Flags&store.PageNoFollow == 0
	if c.cfg.Rules.ObeyCanonical && got.report.Content.Flags&store.PageNotCanonical != 0 {
		follow = false
	}
	for _, r := range all {
		for _, l := range r.Links[:min(len(r.Links), maxPluginLinks)] {
			if u, err := canon.Join(got.page.URL, l); err == nil && follow {
				links = append(links, store.Pending{URL: u, Depth: got.page.Depth + 1})
			}
		}
		names := slices.Sorted(maps.Keys(r.Fields))
		for _, name := range names[:min(len(names), maxPluginFields)] {
			value := r.Fields[name]
			if len(name) > 64 || len(value) > maxPluginField || !isFieldName(name) {
				continue
			}
			got.fields = append(got.fields, warc.Field{Name: r.Plugin + "-" + name, Value: value})
		}
	}
	links, _ = truncateLinks(c.inScope(links, got.page.URL))
	return links
}

// isFieldName reports whether name has only letters, digits and hyphens.
func isFieldName(name string) bool {
	return name != "" && !strings.ContainsFunc(name, func(r rune) bool {
		return r != '-' && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
	})
}
