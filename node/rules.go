package node

import (
	"peerd/crawl"
	"peerd/crawl/canon"
	"peerd/crawl/extract"
	"peerd/node/config"
)

// agent is the product token that robots.txt and robots directives are matched
// with.
const agent = "peerd"

// leastErrands is how many fetches at other peers' request there is room for
// at least, whatever their share: nobody's decision should wait for long.
const leastErrands = 4

// canonRules turns the section [urls] into the crawler's words.
func canonRules(u config.URLs) canon.Rules {
	return canon.Rules{DropSessions: u.DropSessionIDs, DropTracking: u.DropTracking, SortQuery: u.SortQuery}
}

// crawlRules says how pages are read in a network.
func crawlRules(p config.Profile) crawl.Rules {
	kinds := extract.Pages
	for kind, on := range map[extract.Kinds]bool{
		extract.Media: p.Links.Media, extract.Forms: p.Links.Forms, extract.Styles: p.Links.Styles,
	} {
		if on {
			kinds |= kind
		}
	}
	d := p.Duplicates
	return crawl.Rules{
		URLs: canonRules(p.URLs), Kinds: kinds,
		ObeyNofollow: p.Links.ObeyNofollow, ObeyRel: p.Links.ObeyRelNofollow, ObeyCanonical: p.Links.Canonical,
		Sitemaps: p.Links.Sitemaps,
		Content: crawl.ContentRules{
			Exact: d.Exact, Near: d.Near, SoftNotFound: d.SoftNotFound, Mirrors: d.Mirrors, MaxCopies: d.MaxCopies,
		},
	}
}
