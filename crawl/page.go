package crawl

import (
	"context"
	"errors"
	"net/http"
	"time"

	"peerd/crawl/canon"
	"peerd/crawl/extract"
	"peerd/crawl/fetch"
	"peerd/crawl/similar"
	"peerd/crawl/sitemap"
	"peerd/store"
	"peerd/store/warc"
)

const (
	// maxLinks bounds the links taken of one page: the largest indexes of real
	// documentation have some ten thousand.
	maxLinks = 100_000
	// maxLinkBytes bounds the sum of their lengths, whoever fetches the page: the
	// report of an errand, one message, has all of them. As no page is longer than
	// some megabytes, only one whose links are mostly what its base adds is cut.
	maxLinkBytes = 12 << 20
	// maxSitemap bounds a sitemap, in bytes: the limit of the protocol.
	maxSitemap = 50 << 20
	// maxHops is how many redirects in a row are followed: what browsers take
	// (Fetch Standard, HTTP-redirect fetch).
	maxHops = 20
	// maxSitemapDepth is how deep sitemap indexes may name each other.
	maxSitemapDepth = 3
	// sitemapsAtOnce is how many sitemaps may be under way at once: each may
	// take maxSitemap of memory.
	sitemapsAtOnce = 4
)

// Rules say how pages are read; they are the same for all peers of a network.
type Rules struct {
	// URLs turns a canonical URL into the one that names the page.
	URLs canon.Rules
	// Kinds are the references followed.
	Kinds extract.Kinds
	// ObeyNofollow leaves out the links of pages that ask for it, of whatever
	// kind, ObeyRel those that say nofollow, ugc or sponsored themselves,
	// ObeyCanonical all of a page that names another URL as the one to be kept:
	// that URL is fetched instead, as if it were redirected to, even if
	// the page says nofollow, for it is no link but the page's name.
	ObeyNofollow, ObeyRel, ObeyCanonical bool
	// Sitemaps reads those that robots.txt names.
	Sitemaps bool
	// Content looks for duplicates, near-duplicates and soft 404s.
	Content ContentRules
}

// fetched is one answer, with what was read out of it.
type fetched struct {
	report store.FetchReport
	page   store.Page
	kind   store.Kind
	links  []store.Pending // in scope, each once
	hints  []sitemap.Entry // what a sitemap says of pages
	sorry  bool            // the page says that there is none
	counts []string        // names to be counted under
	same   bool            // its body is that of the record that is kept
	err    error           // the archive could not take it
}

// news says whether an answer is to take the place of what is kept of its URL:
// not if it says that nothing has changed, or nothing of the page.
func (f *fetched) news() bool {
	switch f.page.Outcome {
	case store.OutcomeNotModified, store.OutcomeThrottled:
		return false
	case store.OutcomeHTTPError:
		return gone(f.page.Status)
	}
	return !f.same
}

// gone says whether a status means that there is no such page.
func gone(status int) bool { return status == http.StatusNotFound || status == http.StatusGone }

// fetch does one request and reads the answer. It changes nothing but the
// archive, and what is remembered of contents. An errand is done even if the
// archive is full: its owner would have it done again, at the site's cost.
func (c *Crawler) fetch(ctx context.Context, r store.FetchRequest, errand bool) fetched {
	ctx, cancel := context.WithTimeout(ctx, c.cfg.FetchTimeout)
	defer cancel()
	q := fetch.Request{
		URL: r.URL, Addr: r.Addr, Accept: extract.IsHTML, Keep: c.cfg.Archive != nil,
		IfNoneMatch: r.IfNoneMatch, IfModifiedSince: r.IfModifiedSince,
	}
	if r.Kind.Sitemap() {
		q.Accept, q.MaxBody = nil, maxSitemap
	}
	res := c.cfg.Fetcher.Do(ctx, q)
	defer res.Release()
	return c.read(r, &res, errand)
}

// read is what comes of an answer. It keeps nothing of res.
func (c *Crawler) read(r store.FetchRequest, res *fetch.Result, errand bool) fetched {
	got := fetched{
		kind: r.Kind,
		report: store.FetchReport{
			Outcome: res.Outcome, Status: res.Status, Bytes: res.Bytes, Timing: res.Timing, RetryAfter: res.RetryAfter,
		},
		page: store.Page{
			URL: r.URL, Outcome: res.Outcome, Status: res.Status, Bytes: res.Bytes, ContentType: res.ContentType,
			FetchedAt: res.Started, Timing: res.Timing, Depth: r.Depth, Proto: res.Proto,
		},
	}
	if res.TLS != nil {
		got.page.TLS = res.TLS.Version
	}
	content := &got.report.Content
	content.ETag, content.LastModified = clipped(res.Header.Get("ETag")), clipped(res.Header.Get("Last-Modified"))
	switch res.Outcome {
	case store.OutcomeRedirect:
		content.Digest = similar.Digest([]byte(res.Location))
		to, err := canon.Join(r.URL, res.Location)
		if err != nil {
			c.log.Debug("redirected nowhere", "url", r.URL, "err", err)
		} else {
			c.redirect(&got, r, to)
		}
	case store.OutcomeOK, store.OutcomeTooLarge:
		content.Digest = similar.Digest(res.Body)
		if r.Kind.Sitemap() {
			c.readSitemap(&got, res.Body)
		} else {
			c.readPage(&got, r, res)
		}
	}
	got.err = c.archive(&got, res)
	if errand && errors.Is(got.err, warc.ErrFull) {
		c.log.Warn("an answer for another peer does not fit into the archive", "url", r.URL, "err", got.err)
		got.err = nil
	}
	if got.err != nil {
		return got
	}
	if got.err = c.compare(&got); got.err != nil {
		return got
	}
	got.page.Digest, got.page.Fingerprint, got.page.Flags = content.Digest, content.Fingerprint, content.Flags
	got.page.Links = make([]store.URL, len(got.links))
	for i, l := range got.links {
		got.page.Links[i] = l.URL
	}
	return got
}

// redirect follows from r to another URL for the same page.
func (c *Crawler) redirect(got *fetched, r store.FetchRequest, to store.URL) {
	if r.Hops >= maxHops {
		c.cut(got, countHops)
		return
	}
	next := store.Pending{URL: to, Depth: r.Depth, Kind: r.Kind & store.KindSitemap, Hops: r.Hops + 1}
	got.links = c.inScope([]store.Pending{next}, r.URL)
}

// clipped drops a header field that is too long to be kept.
func clipped(v string) string {
	if len(v) > 256 {
		return ""
	}
	return v
}

// readPage reads an HTML page.
func (c *Crawler) readPage(got *fetched, r store.FetchRequest, res *fetch.Result) {
	o := extract.Options{MaxLinks: maxLinks, Kinds: c.cfg.Rules.Kinds, Agent: c.cfg.Agent}
	page := &got.page
	doc, err := extract.Page(res.Body, res.Header, page.URL, o)
	if err != nil {
		c.log.Debug("page could not be read", "url", page.URL, "err", err)
		return
	}
	page.Title = doc.Title
	content := &got.report.Content
	if c.cfg.Rules.Content.Near {
		if p, ok := similar.Fingerprint(res.Body); ok {
			content.Fingerprint = uint64(p)
		}
	}
	if c.cfg.Rules.Content.SoftNotFound {
		got.sorry = similar.SaysNotFound(doc.Title, res.Body)
	}
	flag := func(on bool, f store.PageFlags) {
		if on {
			content.Flags |= f
		}
	}
	other := doc.Canonical != "" && c.cfg.Rules.URLs.Apply(doc.Canonical) != page.URL
	flag(doc.Robots.NoIndex, store.PageNoIndex)
	flag(doc.Robots.NoFollow, store.PageNoFollow)
	flag(doc.Robots.NoArchive, store.PageNoArchive)
	flag(other, store.PageNotCanonical)
	switch depth := page.Depth + 1; {
	case c.cfg.Rules.ObeyCanonical && other:
		c.redirect(got, r, doc.Canonical)
	case c.cfg.Rules.ObeyNofollow && doc.Robots.NoFollow:
	default:
		links := make([]store.Pending, 0, len(doc.Links))
		for _, l := range doc.Links {
			if !c.cfg.Rules.ObeyRel || !l.NoFollow() && !l.HasRel("ugc") && !l.HasRel("sponsored") {
				links = append(links, store.Pending{URL: l.URL, Depth: depth})
			}
		}
		var cut bool
		if got.links, cut = fitting(c.inScope(links, page.URL)); cut {
			c.log.Debug("links left out", "url", page.URL, "taken", len(got.links))
			got.counts = append(got.counts, countLinks)
		}
	}
}

// fitting returns as many of links, from the first on, as may be taken of one
// page, and whether these are not all.
func fitting(links []store.Pending) (some []store.Pending, cut bool) {
	size := 0
	for i, l := range links {
		if size += len(l.URL); size > maxLinkBytes {
			return links[:i], true
		}
	}
	return links, false
}

// readSitemap reads a sitemap: of an index the further ones, else its pages,
// which are as deep as if the site's first page linked to them. A sitemap's own
// depth counts the indexes above it.
func (c *Crawler) readSitemap(got *fetched, body []byte) {
	page := &got.page
	doc, err := sitemap.Parse(body, page.ContentType, page.URL, sitemap.Options{})
	if err != nil {
		c.log.Debug("no sitemap", "url", page.URL, "err", err)
		return
	}
	var links []store.Pending
	if page.Depth < maxSitemapDepth {
		for _, e := range doc.Sitemaps {
			links = append(links, store.Pending{URL: e.URL, Depth: page.Depth + 1, Kind: store.KindSitemap})
		}
	}
	for _, e := range doc.Pages {
		links = append(links, store.Pending{URL: e.URL, Depth: 1})
		if sitemap.Allowed(page.URL, e.URL) && (!e.LastMod.IsZero() || e.ChangeFreq != sitemap.Unsaid) {
			got.hints = append(got.hints, e)
		}
	}
	got.links = c.inScope(links, page.URL)
}

// inScope keeps the links that the network's rules allow, each once, in order,
// under the URL that names its page.
func (c *Crawler) inScope(links []store.Pending, page store.URL) []store.Pending {
	seen := make(map[store.URL]bool, len(links))
	out := links[:0]
	now, host := time.Now(), page.Host()
	for _, l := range links {
		l.URL = c.cfg.Rules.URLs.Apply(l.URL)
		if seen[l.URL] {
			continue
		}
		seen[l.URL] = true
		depth := l.Depth
		if l.Kind.Sitemap() {
			depth = 0 // of indexes, not of links
		}
		if c.cfg.Scope.Allows(l.URL, depth) != nil {
			continue
		}
		l.Found = now
		if l.URL.Host() != host {
			l.From = host
		}
		out = append(out, l)
	}
	return out
}
