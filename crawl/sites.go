package crawl

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"peerd/crawl/fetch"
	"peerd/crawl/frontier"
	"peerd/internal/lru"
	"peerd/store"
)

// A peer on the machine of a web site can report the site's pages from their files, if the site's
// robots.txt names it. The owner of the site's subnet asks it before it requests a page. A report
// counts as a fetch, but the owner requests the first sampleFirst pages of each peer and site
// itself, and then a share of them, and compares. No peer learns which. With one lie in ten pages
// none of sampleFirst shows with probability 0.9^50 = 0.5 %.
//
// A page that the peer does not report is requested as every other, and a peer cannot report that
// a page has gone, so it can withhold none that the owner knows.
//
// One difference suffices, if the page is different a second time, after the usual wait. The peer
// is not asked again: that would tell it to correct a lie. A difference does not count if the
// owner's two copies differ, too: the page is another one each time, or has just changed.

const (
	// sampleFirst is the number of pages that are all requested, and sampleShare the share after.
	sampleFirst, sampleShare = 50, 0.03
	// maxSites bounds the peers and sites that are remembered, and maxReported the pages of one
	// that are requested again when the peer turns out to lie.
	maxSites, maxReported = 64, 1024
	// maxLooks bounds the pages of which a report waits for this peer's own request.
	maxLooks = 256
	// After refusals times that a peer has reported nothing it is asked again after a second, and
	// after maxRefusedWait at most. A site may have pages that are no files.
	refusals, maxRefusedWait = 8, time.Hour
)

// countSiteReports counts pages that were reported from files and not requested.
const countSiteReports = "site_reports"

// SiteFile is the file of a page.
type SiteFile struct {
	Body     []byte
	Type     string // as in Content-Type
	Modified time.Time
}

// siteKey is a peer and a host of which it reports pages.
type siteKey struct{ peer, host string }

// silence is how often in succession a peer has reported nothing of a site.
type silence struct {
	times int
	until time.Time
}

// siteReports decides which reports of peers on the machines of sites are believed. Its methods
// are safe for concurrent use.
type siteReports struct {
	share float64 // sampleShare

	mu     sync.Mutex
	peers  *lru.Simple[siteKey, *reporter]
	silent *lru.Simple[siteKey, silence]
	looks  map[store.URL]claim
}

func newSiteReports() *siteReports {
	return &siteReports{share: sampleShare, looks: map[store.URL]claim{},
		peers:  lru.NewSimple[siteKey, *reporter](maxSites, nil),
		silent: lru.NewSimple[siteKey, silence](maxReporters, nil)}
}

// reporter returns the state of a peer at a site; the caller holds mu.
func (s *siteReports) reporter(k siteKey) *reporter {
	r, ok := s.peers.Get(k)
	if !ok {
		r = &reporter{site: true}
		s.peers.Add(k, r)
	}
	return r
}

// choose returns which of the peers that a site names is asked for its pages; "" if none is.
func (s *siteReports) choose(host string, named []string, now time.Time) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, peer := range named {
		k := siteKey{peer, host}
		if f, _ := s.silent.Get(k); now.Before(f.until) {
			continue
		}
		if r, ok := s.peers.Get(k); !ok || r.trust(now) != Liar {
			return peer
		}
	}
	return ""
}

// asked notes whether a peer that was asked has reported a page.
func (s *siteReports) asked(k siteKey, reported bool, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if reported {
		s.silent.Remove(k)
		return
	}
	f, _ := s.silent.Get(k)
	if f.times++; f.times >= refusals {
		f.until = now.Add(min(time.Second<<min(f.times-refusals, 20), maxRefusedWait))
	}
	s.silent.Add(k, f)
}

// waits reports whether a page is to be requested because of a report of it, which is not so old
// that the page may have changed.
func (s *siteReports) waits(u store.URL, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	l, ok := s.looks[u]
	if ok && now.Sub(l.at) > claimFor {
		delete(s.looks, u)
		return false
	}
	return ok
}

// state returns the trust in a peer at a site, and whether a report of it waits for this peer's own
// request.
func (s *siteReports) state(k siteKey, now time.Time) (t Trust, waiting bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for u, l := range s.looks {
		if l.peer == k.peer && u.Host() == k.host && now.Sub(l.at) <= claimFor {
			waiting = true
			break
		}
	}
	if r, ok := s.peers.Get(k); ok {
		t = r.trust(now)
	}
	return t, waiting
}

// believes reports whether a report counts without a look, and remembers it if so. draw is a random
// number in [0, 1).
func (s *siteReports) believes(k siteKey, e store.Entry, draw float64, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.reporter(k)
	if r.trust(now) != Trusted || draw < s.share {
		return false
	}
	r.unchecked = append(r.unchecked, again(e))
	r.unchecked = r.unchecked[max(0, len(r.unchecked)-maxReported):]
	return true
}

// hold keeps a report until this peer has requested the page. It forgets reports if there are too
// many: their pages count as requested.
func (s *siteReports) hold(u store.URL, peer string, said store.FetchReport, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for other := range s.looks {
		if len(s.looks) < maxLooks {
			break
		}
		delete(s.looks, other)
	}
	s.looks[u] = claim{peer: peer, rep: said, at: now}
}

// compare compares what this peer has found with the report of it, if there is one. It returns the
// result and the peer, or whether there must be a second look. If the peer has lied it also returns
// what must be requested.
func (s *siteReports) compare(u store.URL, found store.FetchReport, now time.Time) (
	x CheckResult, peer string, twice bool, queue []store.Entry,
) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l, ok := s.looks[u]
	if !ok {
		return x, "", false, nil
	}
	delete(s.looks, u)
	if now.Sub(l.at) > claimFor {
		return x, "", false, nil
	}
	r := s.reporter(siteKey{l.peer, u.Host()})
	result := compareFile(l.rep, found, r.limit())
	switch {
	case result == unclear:
		return x, "", false, nil
	case result == different && l.first == nil:
		l.first = &found
		s.looks[u] = l
		return x, "", true, nil
	case result == different && compareFile(*l.first, found, apart) != same:
		return x, "", false, nil // the page is another one each time
	}
	x = CheckResult{At: now, URL: u, Agrees: result == same, Said: summary(l.rep),
		Found: summary(found)}
	if l.rep.Content.Digest == found.Content.Digest {
		r.exact++
	}
	return x, l.peer, false, r.enter(x)
}

// limit returns in how many bits the text of a file may differ from that of the page. Most sites
// send files unchanged: if this one does, less is allowed.
func (r *reporter) limit() int {
	if 2*r.exact > r.agreed {
		return alike
	}
	return apart
}

// of returns what is known of a peer's reports of sites.
func (s *siteReports) of(peer string, now time.Time) (all []SiteTrust) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, k := range s.peers.Keys() {
		if r, ok := s.peers.Peek(k); ok && k.peer == peer {
			t := r.trust(now)
			all = append(all, SiteTrust{k.host, t, append([]CheckResult(nil), r.results...)})
		}
	}
	return all
}

// SiteTrust is what is known of the reports of a peer about a site on its machine.
type SiteTrust struct {
	Host   string
	Trust  Trust
	Checks []CheckResult // the newest last
}

// SiteReports returns what is known of a peer's reports of sites on its machine.
func (c *Crawler) SiteReports(peer string) []SiteTrust { return c.sites.of(peer, time.Now()) }

// speakers returns the peers that the robots.txt of u's origin names.
func (c *Crawler) speakers(u store.URL) []string {
	if r, ok := c.robots.Peek(u.Origin()); ok && r.rules != nil {
		return r.rules.Peers()
	}
	return nil
}

// fetchOrAsk has a peer on the machine of the job's site report the page, if there is one, and
// requests the page if that does not suffice. It reports whether there was a page.
func (c *Crawler) fetchOrAsk(
	ctx context.Context, job frontier.Job, req store.FetchRequest, gap time.Duration,
) (page bool, err error) {
	u := job.Entry.URL
	look := func() (bool, error) {
		req.CompareText, req.IfNoneMatch, req.IfModifiedSince = true, "", ""
		return c.fetchLocally(ctx, job, req, gap)
	}
	if c.sites.waits(u, time.Now()) {
		return look()
	}
	peer := c.sites.choose(job.Host, c.speakers(u), time.Now())
	if peer == "" {
		return c.fetchLocally(ctx, job, req, gap)
	}
	ask, key := req, siteKey{peer, job.Host}
	ask.File, ask.IfNoneMatch, ask.IfModifiedSince = true, "", ""
	rep, err := c.cfg.Delegate.RequestFetch(ctx, job.Subnet, peer, ask)
	if err == nil {
		rep, err = checkReport(rep)
	}
	if err == nil && !isPage(rep.Outcome) {
		err = fmt.Errorf("%w: %v from a file", errInvalidReport, rep.Outcome)
	}
	if err != nil && ctx.Err() != nil {
		c.cfg.Frontier.Return(job, false)
		return false, nil //nolint:nilerr // canceled by this peer
	}
	c.sites.asked(key, err == nil, time.Now())
	switch {
	case err != nil:
		c.log.Debug("page was not reported from a file", "url", u, "peer", peer, "err", err)
		return c.fetchLocally(ctx, job, req, gap)
	case !c.sites.believes(key, job.Entry, rand.Float64(), time.Now()):
		c.sites.hold(u, peer, rep, time.Now())
		return look()
	}
	_, err = c.commitRemote(job, rep, 0, 0)
	c.cfg.Frontier.Return(job, err == nil)
	return err == nil && !job.Entry.Kind.Revisit(), err
}

// checkSite compares an answer with what another peer has reported of its page, if one has. It
// reports whether the page must be looked at once more before the answer is stored.
func (c *Crawler) checkSite(u store.URL, found store.FetchReport) (twice bool, err error) {
	x, peer, twice, queue := c.sites.compare(u, found, time.Now())
	if peer == "" || x.Agrees {
		return twice, nil
	}
	c.log.Warn("found another page than was reported from its file", "url", u, "peer", peer,
		"said", x.Said, "found", x.Found, "queued_again", len(queue))
	return false, c.fetchAgain(queue)
}

// readFile answers the request of another peer with the file of a page on this machine.
func (c *Crawler) readFile(r store.FetchRequest) (fetched, error) {
	f, err := c.cfg.Delegate.File(r.URL)
	if err != nil {
		return fetched{}, fmt.Errorf("%w: %w", ErrInvalidRequest, err)
	}
	res := f.answer(r.Addr)
	return c.read(r, &res, true), nil
}

// answer returns the answer with which a web server at an address would send the file.
func (f SiteFile) answer(addr netip.Addr) fetch.Result {
	modified := f.Modified.UTC().Format(http.TimeFormat)
	return fetch.Result{
		Outcome: store.OutcomeOK, Status: http.StatusOK, ContentType: f.Type, Body: f.Body,
		Bytes: int64(len(f.Body)), Started: time.Now(), Addr: addr,
		Header: http.Header{"Content-Type": {f.Type}, "Last-Modified": {modified}},
		Remote: netip.AddrPortFrom(addr, 0), Raw: f.Body,
		ResponseHead: fmt.Appendf(nil, "HTTP/1.1 200 OK\r\nContent-Type: %s\r\n"+
			"Content-Length: %d\r\nLast-Modified: %s\r\n\r\n", f.Type, len(f.Body), modified),
	}
}
