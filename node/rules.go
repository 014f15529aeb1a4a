package node

import (
	"peerd/crawl"
	"peerd/crawl/canon"
	"peerd/crawl/extract"
	"peerd/node/config"
)

// robotsAgent is the product token in robots.txt and robots directives.
const robotsAgent = "peerd"

// minRemoteFetches is the minimum number of workers for remote fetches, whatever their share, so
// that no estimation waits for long.
const minRemoteFetches = 4

// crawlRules converts the rules about the content of pages.
func crawlRules(p config.Profile) crawl.Rules {
	kinds := extract.Pages
	for kind, on := range map[extract.Kinds]bool{
		extract.Media: p.Links.Media, extract.Forms: p.Links.Forms, extract.Styles: p.Links.Styles,
	} {
		if on {
			kinds |= kind
		}
	}
	d, u := p.Duplicates, p.URLs
	return crawl.Rules{
		URLs: canon.Rules{DropSessions: u.DropSessionIDs, DropTracking: u.DropTracking,
			SortQuery: u.SortQuery},
		Kinds:        kinds,
		ObeyNofollow: p.Links.ObeyNofollow, ObeyRel: p.Links.ObeyRelNofollow,
		ObeyCanonical: p.Links.Canonical,
		Sitemaps:      p.Links.Sitemaps,
		Content:       crawl.ContentRules{Exact: d.Exact, MaxCopies: d.MaxCopies},
	}
}
