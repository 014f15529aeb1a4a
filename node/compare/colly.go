package main

import (
	"context"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/gocolly/colly/v2"
)

// crawlColly lets Colly do the same work with n requests at once. Its settings
// are its defaults but for what would hold it back: the connections kept open
// are as many as the requests, and a link that is not followed is sorted out
// before Colly sees it, which is cheaper than its own filters.
func crawlColly(ctx context.Context, seeds []string, n int) (tally, error) {
	r, err := newRule(seeds)
	if err != nil {
		return tally{}, err
	}
	c := colly.NewCollector(colly.Async(true), colly.UserAgent(agentColly), colly.MaxBodySize(maxBody), colly.StdlibContext(ctx))
	c.WithTransport(transport(n))
	c.SetRequestTimeout(30 * time.Second)
	if err := c.Limit(&colly.LimitRule{DomainGlob: "*", Parallelism: n}); err != nil {
		return tally{}, err
	}
	var pages, failed atomic.Int64
	c.OnHTML("a[href], area[href], link[href]", visit(r, "href"))
	c.OnHTML("frame[src], iframe[src]", visit(r, "src"))
	c.OnResponse(func(res *colly.Response) {
		if strings.HasPrefix(res.Headers.Get("Content-Type"), "text/html") {
			pages.Add(1)
		}
	})
	c.OnError(func(res *colly.Response, _ error) {
		if res.StatusCode == 0 { // else it is the server's answer
			failed.Add(1)
		}
	})
	for _, s := range seeds {
		if err := c.Visit(s); err != nil {
			return tally{}, err
		}
	}
	c.Wait()
	return tally{Pages: pages.Load(), Failed: failed.Load()}, ctx.Err()
}

// visit follows the link in attr of an element.
func visit(r rule, attr string) colly.HTMLCallback {
	return func(e *colly.HTMLElement) {
		s := e.Request.AbsoluteURL(e.Attr(attr))
		if s == "" {
			return
		}
		s, _, _ = strings.Cut(s, "#")
		if u, err := url.Parse(s); err == nil && r.follows(u) {
			_ = e.Request.Visit(s) // its errors are "seen already"; the others OnError counts
		}
	}
}
