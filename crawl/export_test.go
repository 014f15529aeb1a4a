package crawl

import (
	"time"

	"peerd/crawl/similar"
	"peerd/store"
	"peerd/store/warc"
)

// SetSpaceWait changes the wait for free space.
func (c *Crawler) SetSpaceWait(d time.Duration) { c.spaceWait = d }

// SetCheckInterval changes the time between two checks for due pages and keys.
func (c *Crawler) SetCheckInterval(d time.Duration) { c.checkInterval = d }

// SetArchive replaces the archive. The crawler must not be running.
func (c *Crawler) SetArchive(a *warc.Archive) { c.cfg.Archive = a }

// SaveEvery is the number of URLs that a Gate may forget in a crash.
const SaveEvery = saveEvery

// ForgetRevisitReports discards the remembered answers to revisits.
func (c *Crawler) ForgetRevisitReports() { c.remoteFetches.revisitReports.Purge() }

// ReportedLinks returns the links that are accepted from an estimator's report.
func (c *Crawler) ReportedLinks(e store.Entry, rep store.FetchReport) []store.Pending {
	return c.reportedLinks(e, rep)
}

// Bounds of the links that are taken from a page.
const (
	MaxRedirects = maxRedirects
	MaxLinks     = maxLinks
	MaxLinkBytes = maxLinkBytes
)

// LoadOf is loadOf.
var LoadOf = loadOf

// CheckReport is checkReport.
var CheckReport = checkReport

// Compare is compare, in words.
func Compare(said, found store.FetchReport) string {
	return [...]string{"unclear", "same", "different"}[compare(said, found)]
}

// ChecksAllowed returns how many of n checks of a host are allowed at each time.
func ChecksAllowed(host string, n int, at ...time.Time) (allowed []int) {
	k := newChecker(1)
	for _, now := range at {
		sum := 0
		for i := range n {
			if k.handle(string(rune('a'+i)), host, now) == check {
				sum++
			}
		}
		allowed = append(allowed, sum)
	}
	return allowed
}

// CrawlletPages is the maximum number of pages of a run of a crawllet.
const CrawlletPages = crawlletPages

// CrawlletBytes is the maximum number of bytes of the pages of a run, and MaxCrawllets the number
// of runs at the same time.
const CrawlletBytes, MaxCrawllets = crawlletBytes, maxCrawllets

// TrustCrawllets has the crawllets of a host be trusted, and none of their pages compared.
func (c *Crawler) TrustCrawllets(host string) {
	c.sites.mu.Lock()
	defer c.sites.mu.Unlock()
	c.sites.share = 0
	c.sites.reporter(siteKey{crawlletReporter, host}).agreed = sampleFirst
}

// PluginLinks is the maximum number of links that a plug-in adds to a page.
const PluginLinks = maxPluginLinks

// DigestOf returns the digest of a body.
func DigestOf(body string) store.Digest { return similar.Digest([]byte(body)) }

// doubting returns a checker that doubts n peers.
func doubting(n int, now time.Time) *checker {
	k := newChecker(1)
	for i := range n {
		k.enter(string(rune('a'+i)), CheckResult{At: now})
	}
	return k
}

// AskDoubted returns how many pages doubted peers are asked for, as many as there are pages, of
// which it gets the hosts; their answers come at once, or not at all.
func AskDoubted(hosts []string, answers bool, now time.Time) (asked int) {
	k := doubting(len(hosts), now)
	for _, host := range hosts {
		if k.suspect(host, now) == "" {
			continue
		}
		if asked++; answers {
			k.asked()
		}
	}
	return asked
}

// AskedAt returns when a doubted peer is asked of which no report comes, of the times at which
// this peer is about to fetch a page.
func AskedAt(begin time.Time, at []time.Duration) (asked []time.Duration) {
	k := doubting(1, begin)
	for _, d := range at {
		if k.suspect("a.test", begin.Add(d)) != "" {
			k.asked()
			asked = append(asked, d)
		}
	}
	return asked
}
