package crawllet

import (
	"context"
	"net/netip"

	"peerd/crawl/crawllet/record"
	"peerd/node"
	"peerd/node/config"
	nodecrawllet "peerd/node/crawllet"
)

// Ordinary crawls sites page by page with the crawl of peerd, without pauses: one request at a time
// to a host, and hosts beside each other.
func Ordinary(ctx context.Context, urls ...string) (node.Summary, error) {
	c, rules := config.Default(), config.DefaultProfile()
	c.Crawl.MinDelay.Duration, rules.Politeness.DelayFactor = 0, 0
	rules.Links.Sitemaps = false
	c.Crawl.AllowNet = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	return node.Crawl(ctx, node.CrawlOptions{
		Seeds: urls, Scope: "host", Config: c, Rules: rules, UserAgent: config.UserAgent(""),
	})
}

// AtSource has a crawllet crawl a site, as peerd crawllet fetch does. Each record is passed to
// to, which may be nil.
func AtSource(
	ctx context.Context, url, module string, summaries bool, to func(record.Record),
) (nodecrawllet.FetchResult, error) {
	return nodecrawllet.Fetch(ctx, nodecrawllet.FetchOptions{
		URL: url, Module: module, To: target(to), Summaries: summaries,
	})
}

// target is a nodecrawllet.Target.
type target func(record.Record)

func (t target) Write(r record.Record) error {
	if t != nil {
		t(r)
	}
	return nil
}
