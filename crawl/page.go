package crawl

import (
	"context"
	"errors"
	"net/http"
	"net/netip"
	"slices"
	"time"

	"peerd/crawl/canon"
	"peerd/crawl/extract"
	"peerd/crawl/fetch"
	"peerd/crawl/frontier"
	"peerd/crawl/similar"
	"peerd/crawl/sitemap"
	"peerd/store"
	"peerd/store/warc"
)

const (
	// maxLinks is the maximum number of links taken from a page. The largest index pages of
	// real documentation have about ten thousand.
	maxLinks = 100_000
	// maxLinkBytes is the maximum total length of the links taken from a page, because the
	// report of a remote fetch carries all of them in one message.
	maxLinkBytes = extract.MaxLinkBytes
	// maxSitemap is the maximum size of a sitemap in bytes, as defined by the protocol.
	maxSitemap = 50 << 20
	// maxLiterals is the maximum number of links of a page to hosts that are addresses instead of
	// names. Addresses cost their author nothing, and few sites have no name.
	maxLiterals = 64
	// maxRedirects is the length of the longest chain of redirects that is followed.
	// Browsers use the same limit (Fetch Standard, HTTP-redirect fetch).
	maxRedirects = 20
	// maxSitemapDepth is the maximum nesting of sitemap indexes.
	maxSitemapDepth = 3
	// maxConcurrentSitemaps is the maximum number of sitemaps in progress. Each may take
	// maxSitemap bytes of memory.
	maxConcurrentSitemaps = 4
)

// Rules define how pages are read. They are the same for all peers of a network.
type Rules struct {
	// URLs maps a canonical URL to the one that names the page.
	URLs canon.Rules
	// Kinds are the kinds of references to follow.
	Kinds extract.Kinds
	// ObeyNofollow drops all links of pages that say nofollow. ObeyRel drops single links
	// marked nofollow, ugc or sponsored. ObeyCanonical drops the links of a page that names
	// another canonical URL and follows that URL like a redirect, even if the page says
	// nofollow.
	ObeyNofollow, ObeyRel, ObeyCanonical bool
	// Sitemaps reads the sitemaps that robots.txt names.
	Sitemaps bool
	// Content handles pages with the same content.
	Content ContentRules
}

// fetched is an answer and what was read from it.
type fetched struct {
	report    store.FetchReport
	page      store.Page
	doc       *extract.Document // nil if the answer was not read as HTML
	kind      store.Kind
	links     []store.Pending // in scope, without duplicates
	hints     []sitemap.Entry // from a sitemap
	counts    []string        // named counters to increment
	source    string          // where the page was read if it was not requested, or ""
	unchanged bool            // the body equals that of the stored record
	cause     error           // why there is no complete answer
	// redirected is the address of the host that answered instead; nothing was requested.
	redirected netip.Addr
	fields     []warc.Field // of plug-ins, for the archive
	err        error        // the answer could not be archived
}

// replacesRecord reports whether an answer replaces the stored record of its URL. It does
// not if it says that the page is unchanged, or nothing about the page.
func (f *fetched) replacesRecord() bool {
	switch f.page.Outcome {
	case store.OutcomeNotModified, store.OutcomeThrottled:
		return false
	case store.OutcomeHTTPError:
		return isGone(f.page.Status)
	}
	return !f.unchanged
}

// isGone reports whether a status means that the page does not exist.
func isGone(status int) bool { return status == http.StatusNotFound || status == http.StatusGone }

// fetch makes one request and reads the answer. It changes only the archive and the index
// of contents. With remote set, only r.Addr is dialled, because the owner keeps the clocks of
// the addresses, and a full archive is not an error, because the owner would repeat the fetch
// and burden the site again.
func (c *Crawler) fetch(ctx context.Context, r store.FetchRequest, remote bool) fetched {
	q := fetch.Request{
		URL: r.URL, Addr: r.Addr, HTML: true, KeepRaw: c.cfg.Archive != nil,
		IfNoneMatch: r.IfNoneMatch, IfModifiedSince: r.IfModifiedSince,
		Timeout: c.cfg.FetchTimeout,
	}
	if r.Kind.Sitemap() {
		q.HTML, q.MaxBody = false, maxSitemap
	}
	if !remote {
		q.More = c.otherAddrs(r.URL.Host(), store.SubnetOf(r.Addr))
	}
	res := c.cfg.Fetcher.Do(ctx, q)
	defer res.Release()
	if errors.Is(res.Err, fetch.ErrOtherAddr) {
		return fetched{redirected: res.Addr}
	}
	return c.read(r, &res, remote)
}

// otherAddrs looks up the addresses of a host in its home subnet.
func (c *Crawler) otherAddrs(host string, home netip.Prefix) fetch.Addrs {
	return func(ctx context.Context) []netip.Addr {
		all, err := c.cfg.Delegate.Resolve(ctx, host)
		if err != nil {
			c.log.Debug("failed to look up other addresses", "host", host, "err", err)
		}
		return slices.DeleteFunc(all, func(a netip.Addr) bool { return store.SubnetOf(a) != home })
	}
}

// redirectJob returns a job to the frontier because another address of its host has answered.
func (c *Crawler) redirectJob(job frontier.Job, addr netip.Addr) error {
	c.log.Info("changed host address", "host", job.Host, "from", job.Addr, "to", addr)
	return c.cfg.Frontier.Redirect(job, addr)
}

// read evaluates an answer and archives it. It does not retain res.
func (c *Crawler) read(r store.FetchRequest, res *fetch.Result, remote bool) fetched {
	got := c.evaluate(r, res, remote)
	own := len(got.links)
	if !remote {
		got.links = append(got.links, c.plugIn(&got, res)...)
	}
	got.err = c.archive(&got, res)
	if remote && errors.Is(got.err, warc.ErrNoSpace) {
		c.log.Warn("failed to archive answer for another peer: archive is full",
			"url", r.URL, "err", got.err)
		got.err = nil
	}
	if got.err != nil {
		return got
	}
	if got.err = c.compareContent(&got); got.err != nil {
		return got
	}
	content := &got.report.Content
	got.page.Digest, got.page.Flags = content.Digest, content.Flags
	got.page.Fingerprint = content.Fingerprint
	got.page.Links = urlsOf(got.links[:min(own, len(got.links))])
	return got
}

// urlsOf returns the URLs of links.
func urlsOf(links []store.Pending) []store.URL {
	urls := make([]store.URL, len(links))
	for i, l := range links {
		urls[i] = l.URL
	}
	return urls
}

// evaluate reads an answer, and changes nothing.
func (c *Crawler) evaluate(r store.FetchRequest, res *fetch.Result, remote bool) fetched {
	got := fetched{
		kind: r.Kind, source: sourceOf(r, remote),
		report: store.FetchReport{
			Outcome: res.Outcome, Status: res.Status, Bytes: res.Bytes, Timing: res.Timing,
			RetryAfter: res.RetryAfter, Error: store.ErrorText(res.Err),
		},
		cause: res.Err,
		page: store.Page{
			URL: r.URL, Outcome: res.Outcome, Status: res.Status, Bytes: res.Bytes,
			ContentType: res.ContentType, FetchedAt: res.Started, Timing: res.Timing,
			Depth: r.Depth, Proto: res.Proto, Error: store.ErrorText(res.Err),
		},
	}
	if res.TLS != nil {
		got.page.TLS = res.TLS.Version
	}
	c.noteHSTS(r.URL, res)
	content := &got.report.Content
	content.ETag = headerValue(res.Header.Get("ETag"))
	content.LastModified = headerValue(res.Header.Get("Last-Modified"))
	switch res.Outcome {
	case store.OutcomeRedirect:
		content.Digest = similar.Digest([]byte(res.Location))
		to, err := canon.Join(r.URL, res.Location)
		if err != nil {
			c.log.Debug("ignored invalid redirect", "url", r.URL, "err", err)
		} else {
			c.redirect(&got, r, to)
		}
	case store.OutcomeOK, store.OutcomeTooLarge:
		content.Digest = similar.Digest(res.Body)
		if r.Kind.Sitemap() {
			c.readSitemap(&got, res.Body)
		} else {
			c.readPage(&got, r, res, remote)
		}
	}
	return got
}

// sourceOf returns where the page of a request is read: "" if it is requested.
func sourceOf(r store.FetchRequest, remote bool) string {
	switch {
	case !r.File:
		return ""
	case remote:
		return "file"
	}
	return "crawllet"
}

// redirect follows from r to another URL of the same page.
func (c *Crawler) redirect(got *fetched, r store.FetchRequest, to store.URL) {
	if r.Hops >= maxRedirects {
		c.dropLinks(got, countRedirects)
		return
	}
	next := store.Pending{
		URL: to, Depth: r.Depth, Kind: r.Kind & store.KindSitemap, Hops: r.Hops + 1,
	}
	got.links = c.inScope([]store.Pending{next}, r.URL)
}

// headerValue returns v, or "" if it is too long to store.
func headerValue(v string) string {
	if len(v) > 256 {
		return ""
	}
	return v
}

// maxCompared is how many bytes of the text of a page are compared with those of others.
const maxCompared = 1 << 20

// readPage reads an HTML page.
func (c *Crawler) readPage(
	got *fetched, r store.FetchRequest, res *fetch.Result, remote bool,
) {
	o := extract.Options{MaxLinks: maxLinks, Kinds: c.cfg.Rules.Kinds, Agent: c.cfg.Agent,
		Text: c.cfg.MaxText}
	compares := r.CompareText || r.File || remote && c.cfg.Gate != nil
	if compares {
		o.Text = max(o.Text, maxCompared)
	}
	page := &got.page
	doc, err := extract.Page(res.Body, res.Header, page.URL, o)
	if err != nil {
		c.log.Debug("failed to read page", "url", page.URL, "err", err)
		return
	}
	page.Title, got.doc = doc.Title, &doc
	content := &got.report.Content
	if compares {
		text := doc.Text[:min(len(doc.Text), maxCompared)]
		content.Fingerprint = uint64(similar.TextHash(text, page.URL))
	}
	flag := func(on bool, f store.PageFlags) {
		if on {
			content.Flags |= f
		}
	}
	other := doc.Canonical != "" && c.cfg.Rules.URLs.Apply(doc.Canonical) != page.URL
	flag(!doc.Robots.MayIndex(time.Now()), store.PageNoIndex)
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
		if got.links, cut = truncateLinks(c.inScope(links, page.URL)); cut || doc.Dropped > 0 {
			c.log.Debug("dropped links beyond the limit", "url", page.URL, "taken", len(got.links))
			got.counts = append(got.counts, countLinks)
		}
	}
}

// truncateLinks returns the first links, as many as may be taken from one page, and whether
// any were left out.
func truncateLinks(links []store.Pending) (first []store.Pending, cut bool) {
	size := 0
	for i, l := range links {
		if size += len(l.URL); size > maxLinkBytes {
			return links[:i], true
		}
	}
	return links, false
}

// readSitemap reads a sitemap or sitemap index. The pages of a sitemap get depth 1, as if
// the first page of the site linked to them. The depth of a sitemap itself is the number of
// indexes above it.
func (c *Crawler) readSitemap(got *fetched, body []byte) {
	page := &got.page
	doc, err := sitemap.Parse(body, page.ContentType, page.URL, sitemap.Options{})
	if err != nil {
		c.log.Debug("failed to read sitemap", "url", page.URL, "err", err)
		return
	}
	var links []store.Pending
	if page.Depth < maxSitemapDepth {
		for _, e := range doc.Sitemaps {
			links = append(links, store.Pending{
				URL: e.URL, Depth: page.Depth + 1, Kind: store.KindSitemap,
			})
		}
	}
	for _, e := range doc.Pages {
		links = append(links, store.Pending{URL: e.URL, Depth: 1})
		if sitemap.Allowed(page.URL, e.URL) && !e.LastMod.IsZero() {
			got.hints = append(got.hints, e)
		}
	}
	got.links = c.inScope(links, page.URL)
}

// inScope returns the links that are in scope, in order and without duplicates, each as the
// URL that names its page. Links to more than maxLiterals addresses are left out.
func (c *Crawler) inScope(links []store.Pending, page store.URL) []store.Pending {
	seen := make(map[store.URL]struct{}, len(links))
	out := links[:0]
	now, host := time.Now(), page.Host()
	literals := map[string]bool{}
	for _, l := range links {
		l.URL = c.secure(c.cfg.Rules.URLs.Apply(l.URL), now)
		known := len(seen)
		if seen[l.URL] = struct{}{}; len(seen) == known {
			continue
		}
		depth := l.Depth
		if l.Kind.Sitemap() {
			depth = 0 // counts indexes, not links
		}
		if c.cfg.Scope.Allows(l.URL, depth) != nil {
			continue
		}
		l.Found = now
		if to := l.URL.Host(); to != host {
			l.From = host
			if _, err := netip.ParseAddr(to); err == nil {
				if literals[to] = true; len(literals) > maxLiterals {
					delete(literals, to)
					continue
				}
			}
		}
		out = append(out, l)
	}
	return out
}
