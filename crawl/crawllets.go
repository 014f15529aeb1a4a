package crawl

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"path"
	"strings"
	"time"

	"peerd/crawl/canon"
	"peerd/crawl/crawllet"
	"peerd/crawl/crawllet/record"
	"peerd/crawl/extract"
	"peerd/crawl/fetch"
	"peerd/crawl/frontier"
	"peerd/crawl/quota"
	"peerd/internal/backoff"
	"peerd/internal/lru"
	"peerd/internal/order"
	"peerd/store"
	"peerd/store/warc"
)

// A site can run crawllets (package crawllet). If it does, and enough URLs of it are queued, one of
// its jobs runs the reference crawllet there, with the queued URLs and those that were fetched,
// instead of requesting its page. Each page that arrives is committed as if it had been requested
// for its queue entry. A URL that is not in the queue, or of which no whole page arrives, is left
// to the queue, and so are redirects and missing pages.
//
// The site is believed as a peer on its machine is: see sites.go. Until it is trusted, a run is a
// trial of about as many pages as must be requested for that, and none starts while one of them
// waits for its request.

const (
	// crawlletReporter stands for the site among the peers that report its pages.
	crawlletReporter = crawllet.Path
	// minCrawlletURLs is the number of queued URLs from which a run pays.
	minCrawlletURLs = 64
	// trialPages is the maximum number of pages of a run of a site that is not trusted: some of the
	// comparisons say nothing. crawlletPages, crawlletBytes and crawlletTime limit the other runs.
	trialPages    = sampleFirst + sampleFirst/4
	crawlletPages = 2000
	crawlletBytes = 64 << 20 // of pages
	crawlletTime  = 2 * time.Minute
	// crawlletAll is the time of a run with the upload of the module, which the site compiles.
	crawlletAll = 5 * time.Minute
	// maxCrawllets is the number of runs at the same time: each takes up to 30 MiB of memory.
	maxCrawllets = 2
	// A site is asked once in crawlletAskEvery whether it runs crawllets. After a run that has
	// delivered all that it could reach the next one is crawlletRest later, and after failures
	// crawlletRest at first and crawlletAskEvery at most.
	crawlletAskEvery, crawlletRest = 24 * time.Hour, 10 * time.Minute
	maxCrawlletSites               = 4096
	// maxSeedURLs bounds the queued URLs that a crawllet is given, and maxKnownURLs those that were
	// fetched: together less than what sites accept.
	maxSeedURLs, maxKnownURLs = 10_000, 50_000
	maxCrawlletInput          = 7 << 20 // bytes of either
)

// countCrawllet counts pages that were fetched by crawllets.
const countCrawllet = "crawllet_pages"

// Crawllet is the program that fetches pages of sites that run crawllets.
type Crawllet struct {
	Module []byte             // the reference crawllet
	Key    ed25519.PrivateKey // identifies this peer
	Agent  string             // as in User-Agent
}

// crawlletSite is what is known of the crawllets of an origin.
type crawlletSite struct {
	policy   *crawllet.Policy // nil: it has none
	asked    time.Time        // zero: never
	next     time.Time        // no request before
	failures int
}

// crawlletSites are the sites by origin. It is safe for concurrent use.
type crawlletSites struct {
	*lru.Cache[string, crawlletSite]
	slots chan struct{}
}

func newCrawlletSites() *crawlletSites {
	return &crawlletSites{lru.New[string, crawlletSite](maxCrawlletSites),
		make(chan struct{}, maxCrawllets)}
}

// at returns what is known of an origin, and whether a request for a crawllet is due.
func (s *crawlletSites) at(origin string, now time.Time) (site crawlletSite, due bool) {
	site, _ = s.Get(origin)
	if now.Sub(site.asked) >= crawlletAskEvery {
		site.policy = nil
		return site, !now.Before(site.next)
	}
	return site, site.policy != nil && !now.Before(site.next)
}

// succeeded has the next run wait.
func (x *crawlletSite) succeeded(wait time.Duration) {
	x.failures, x.next = 0, time.Now().Add(wait)
}

// failed has the next request wait, for longer with each failure.
func (x *crawlletSite) failed() {
	x.failures++
	x.next = time.Now().Add(backOff(crawlletRest, crawlletAskEvery, x.failures-1))
}

// tryCrawllet uses the crawllets of a job's site, if it offers them and this is the time: it asks
// for the policy, or runs a crawllet. It reports whether it has ended the job. Errors come from the
// store.
func (c *Crawler) tryCrawllet(
	ctx context.Context, job frontier.Job, gap time.Duration,
) (ended bool, err error) {
	u, now := job.Entry.URL, time.Now()
	if c.cfg.Crawllet == nil || job.Entry.Kind != store.KindPage ||
		c.cfg.Frontier.Queued(job.Host) < minCrawlletURLs {
		return false, nil
	}
	origin := u.Origin()
	site, due := c.crawllets.at(origin, now)
	rules, ok := c.robots.Peek(origin)
	if !due || !ok || rules.rules == nil ||
		!rules.rules.Allowed(c.cfg.Agent, store.URL(origin+crawllet.Path)) {
		return false, nil
	}
	trust, waiting := c.sites.state(siteKey{crawlletReporter, job.Host}, now)
	if trust == Liar || waiting {
		return false, nil
	}
	select {
	case c.crawllets.slots <- struct{}{}:
	default:
		return false, nil
	}
	r := crawlletRun{c: c, job: job, site: site, rules: rules, limit: trialPages}
	if trust == Trusted {
		r.limit = crawlletPages
	}
	ended, err = r.start(ctx, origin)
	<-c.crawllets.slots // before the host is released, because its next job may need the slot
	if ended {
		err = r.release(gap, err)
	}
	return ended, err
}

// crawlletRun is one use of a site's crawllets. It is used by one goroutine.
type crawlletRun struct {
	c     *Crawler
	job   frontier.Job
	site  crawlletSite
	rules originRules
	limit int // of pages

	requests int64
	queued   map[store.URL]store.Entry // of the host, that can be delivered
	read     map[int]uint64            // by place in the queue, the last entry that was read
	pushed   bool                      // the queue may have more
	taken    int                       // pages that arrived and were of use
	gone     bool                      // the job's entry has left the queue
}

// start asks for the policy or runs a crawllet. It reports whether the job has ended. Errors come
// from the store.
func (r *crawlletRun) start(ctx context.Context, origin string) (ended bool, err error) {
	c := r.c
	run := r.site.policy != nil
	if run {
		if err := r.readQueue(); err != nil {
			return true, err
		}
		if len(r.queued) < minCrawlletURLs {
			r.site.succeeded(crawlletRest) // most URLs are not of files
			c.crawllets.Add(origin, r.site)
			return false, nil
		}
	}
	// The run ends with the right to fetch here. What has arrived is kept.
	own, cancel := context.WithTimeout(ctx, crawlletAll)
	defer cancel()
	go func() {
		select {
		case <-c.cfg.Frontier.Leaving(r.job.Host):
			cancel()
		case <-own.Done():
		}
	}()

	t := c.cfg.Fetcher.Transport(r.job.Addr, crawlletAll)
	defer t.Close()
	client := &crawllet.Client{HTTP: crawllet.NewHTTPClient(&crawlletWeb{run: r, to: t}),
		Key: c.cfg.Crawllet.Key, Agent: c.cfg.Crawllet.Agent}
	if run {
		err = r.run(own, client)
	} else {
		r.ask(own, client, origin)
	}
	if own.Err() == nil || errors.Is(own.Err(), context.DeadlineExceeded) && ctx.Err() == nil {
		c.crawllets.Add(origin, r.site)
	}
	return true, err
}

// release charges the host for the requests and ends the job. err is how the run ended.
func (r *crawlletRun) release(gap time.Duration, err error) error {
	wait, late := r.c.chargeSeparately(r.job.Host, r.requests, gap)
	if r.gone {
		r.job.Entry.Key = nil
	}
	r.c.release(r.job, false, gap, r.c.hostWait(wait, err))
	return errors.Join(err, late)
}

// crawlletWeb sends the requests of a run as all others of this peer: each takes a ticket of the
// quota, and the gap passes before the next.
type crawlletWeb struct {
	run *crawlletRun
	to  http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (w *crawlletWeb) RoundTrip(q *http.Request) (*http.Response, error) {
	c := w.run.c
	var ticket quota.Ticket
	ok := true
	var err error
	if w.run.requests == 0 {
		ticket, ok, err = c.cfg.Quota.Acquire(time.Now())
	} else if err = backoff.Sleep(q.Context(), max(c.cfg.Gap, w.run.rules.delay)); err == nil {
		ticket, err = c.cfg.Quota.Borrow(time.Now())
	}
	if err == nil && !ok {
		err = errQuota
	}
	if err != nil {
		return nil, err
	}
	w.run.requests++
	res, err := w.to.RoundTrip(q)
	if err != nil {
		ticket.Done(0)
		return nil, err
	}
	res.Body = &countedBody{ReadCloser: res.Body, ticket: ticket}
	return res, nil
}

// countedBody is a body of which the bytes count towards the quota when it is closed.
type countedBody struct {
	io.ReadCloser
	ticket quota.Ticket
	n      int64
}

func (b *countedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.n += int64(n)
	return n, err
}

func (b *countedBody) Close() error {
	b.ticket.Done(b.n)
	b.ticket = quota.Ticket{} // bodies may be closed twice
	return b.ReadCloser.Close()
}

// ask asks the site whether it runs crawllets.
func (r *crawlletRun) ask(ctx context.Context, client *crawllet.Client, origin string) {
	ctx, cancel := context.WithTimeout(ctx, r.c.cfg.FetchTimeout)
	defer cancel()
	p, err := client.Discover(ctx, origin)
	switch {
	case err == nil:
		r.site = crawlletSite{policy: &p, asked: time.Now()}
		r.c.log.Info("found that web site runs crawllets", "policy", origin+crawllet.Path,
			"prefix", p.Prefix)
	case errors.Is(err, crawllet.Unsupported) || errors.Is(err, crawllet.BadReply):
		r.site = crawlletSite{asked: time.Now()}
	default:
		r.site.failed()
		r.c.log.Debug("failed to ask web site for crawllets", "origin", origin, "err", err)
	}
}

// run runs the crawllet and commits what arrives. Its error comes from the store or the archive.
func (r *crawlletRun) run(ctx context.Context, client *crawllet.Client) error {
	c, began := r.c, time.Now()
	known, err := r.known()
	if err != nil {
		return err
	}
	seeds := r.seeds()
	prefix := r.site.policy.Prefix
	got, err := client.Run(ctx, *r.site.policy, crawllet.Job{
		Module: c.cfg.Crawllet.Module, Seeds: seeds, Known: known,
		Args: crawllet.Args{Prefix: prefix, Pages: r.limit}.List(),
		Limits: crawllet.Limits{Pages: uint32(r.limit), Output: crawlletBytes,
			Wall: uint32(crawlletTime / time.Second)},
	})
	records := 0
	var ended error
	if err == nil {
		records, ended, err = r.takeAll(got)
		got.Close()
	} else {
		ended, err = err, nil
	}
	full := records >= r.limit || errors.Is(ctx.Err(), context.DeadlineExceeded)
	for _, limit := range []error{crawllet.PageLimit, crawllet.OutputLimit, crawllet.Deadline,
		crawllet.CPULimit, crawllet.MemoryLimit, errCrawlletLimit} {
		full = full || errors.Is(ended, limit)
	}
	switch {
	case full && r.taken > 0:
		r.site.succeeded(0)
	case ended == nil:
		r.site.succeeded(crawlletRest)
	default:
		r.site.failed()
	}
	c.log.Info("ran crawllet", "prefix", prefix, "queued", len(seeds), "known", len(known),
		"records", records, "pages", r.taken, "took", time.Since(began).Round(time.Millisecond),
		"err", ended)
	return err
}

// errCrawlletLimit ends a run that has sent more than it was asked for.
var errCrawlletLimit = errors.New("crawl: a crawllet has sent more than the limit")

// errCrawlletStopped ends a run because this peer may not, or cannot, store its pages now.
var errCrawlletStopped = errors.New("crawl: stopped to take pages of a crawllet")

// takeAll takes the records of a run. ended is why there are no more, nil after all. err comes from
// the store or the archive.
func (r *crawlletRun) takeAll(run *crawllet.Run) (records int, ended, err error) {
	size := 0
	for {
		rec, next := run.Next()
		switch {
		case errors.Is(next, io.EOF):
			return records, nil, nil
		case next != nil:
			return records, next, nil
		case records == r.limit || size > crawlletBytes:
			return records, errCrawlletLimit, nil
		}
		records++
		size += len(rec.Body)
		err := r.take(rec)
		switch {
		case errors.Is(err, errCrawlletStopped):
			return records, err, nil
		case err != nil:
			return records, err, err
		}
	}
}

// take commits the page of a record, or holds it for a comparison. A record that is of no use is
// ignored.
func (r *crawlletRun) take(rec record.Record) error {
	c, now := r.c, time.Now()
	if rec.Status != http.StatusOK || rec.Cut || len(rec.Body) == 0 ||
		int64(len(rec.Body)) > c.cfg.Fetcher.MaxBody() || !extract.IsHTML(rec.Type) {
		return nil
	}
	u, err := canon.Parse(rec.URL)
	if err != nil {
		return nil //nolint:nilerr // it cannot be in the queue
	}
	e, ok, err := r.entry(c.cfg.Rules.URLs.Apply(u))
	if !ok || err != nil {
		return err
	}
	delete(r.queued, e.URL)
	if !r.rules.rules.Allowed(c.cfg.Agent, e.URL) || c.checks.claimed(e.URL) {
		return nil
	}
	job := r.job
	job.Entry = e
	if reason, err := c.exhausted(job); reason != "" || err != nil {
		return err
	}
	if err := errors.Join(c.cfg.Fetcher.Denied(e.URL, job.Addr), c.checkSpace()); err != nil {
		return fmt.Errorf("%w: %w", errCrawlletStopped, err)
	}
	req := store.FetchRequest{URL: e.URL, Addr: job.Addr, Depth: e.Depth, Hops: e.Hops, File: true}
	res := SiteFile{Body: rec.Body, Type: rec.Type,
		Modified: time.Unix(rec.Modified, 0)}.answer(job.Addr)
	if !c.sites.believes(siteKey{crawlletReporter, job.Host}, e, rand.Float64(), now) {
		got := c.evaluate(req, &res, false)
		got.report.Links = urlsOf(got.links)
		c.sites.hold(e.URL, crawlletReporter, got.report, now)
		r.taken++
		return nil
	}
	if _, ok := c.budget.take(); !ok {
		return fmt.Errorf("%w: enough pages were fetched", errCrawlletStopped)
	}
	page, err := r.commit(job, req, &res)
	c.budget.settle(page)
	return err
}

// commit stores a page. It reports whether it has.
func (r *crawlletRun) commit(
	job frontier.Job, req store.FetchRequest, res *fetch.Result,
) (page bool, err error) {
	c := r.c
	got := c.read(req, res, false)
	if got.err != nil {
		if errors.Is(got.err, warc.ErrNoSpace) {
			return false, fmt.Errorf("%w: %w", errCrawlletStopped, got.err)
		}
		return false, got.err
	}
	got.counts = append(got.counts, countCrawllet)
	_, err = c.commit(got, job, 0)
	c.forgetUnstored(job.Entry.URL, err)
	if err != nil {
		return false, err
	}
	c.cfg.Frontier.Removed(r.job, 1)
	r.taken++
	r.gone = r.gone || job.Entry.URL == r.job.Entry.URL
	r.pushed = true
	next := store.Entry{Depth: job.Entry.Depth + 1}.Place()
	if _, ok := r.read[next]; !ok {
		r.read[next] = 0
	}
	return true, nil
}

// urlList is one of the two lists of URLs of a run: at most maxCrawlletInput bytes, and so many
// URLs.
type urlList struct {
	urls []string
	size int // bytes
	most int // URLs
}

// add adds a URL, if there is space. It reports whether there may be more.
func (l *urlList) add(u store.URL) bool {
	if len(l.urls) == l.most || l.size+len(u)+1 > maxCrawlletInput {
		return false
	}
	l.urls = append(l.urls, string(u))
	l.size += len(u) + 1
	return true
}

// seeds returns the queued URLs in the order of the queue.
func (r *crawlletRun) seeds() []string {
	inOrder := func(a, b store.Entry) int { return bytes.Compare(a.Key, b.Key) }
	list := urlList{most: maxSeedURLs}
	for _, e := range order.SortedFunc(maps.Values(r.queued), inOrder) {
		if !list.add(e.URL) {
			break
		}
	}
	return list.urls
}

// readQueue reads the entries of the queue that a crawllet can deliver.
func (r *crawlletRun) readQueue() error {
	r.queued, r.read = map[store.URL]store.Entry{}, map[int]uint64{}
	return r.c.cfg.DB.View(func(tx *store.Tx) error {
		return tx.Queue(r.job.Host, nil, r.note)
	})
}

// note notes an entry of the queue, and reports whether there may be more.
func (r *crawlletRun) note(e store.Entry) (bool, error) {
	place, seq := e.Position()
	r.read[place] = seq
	if e.Kind == store.KindPage && r.isFile(e.URL) {
		r.queued[e.URL] = e
	}
	return len(r.queued) < maxSeedURLs, nil
}

// isFile reports whether a URL may be that of a page in a file below the prefix of the site.
func (r *crawlletRun) isFile(u store.URL) bool {
	name, ok := strings.CutPrefix(string(u), r.site.policy.Prefix)
	if !ok || len(u) >= record.MaxURL || strings.Contains(name, "?") {
		return false
	}
	switch strings.ToLower(path.Ext(path.Base(name))) {
	case "", ".html", ".htm", ".xhtml":
		return true
	}
	return false
}

// entry returns the queue entry of a URL, which may have been queued since the queue was read.
func (r *crawlletRun) entry(u store.URL) (e store.Entry, ok bool, err error) {
	if e, ok = r.queued[u]; ok || !r.pushed {
		return e, ok, nil
	}
	r.pushed = false
	err = r.c.cfg.DB.View(func(tx *store.Tx) error {
		for place, last := range r.read {
			if err := tx.QueueAt(r.job.Host, place, last, r.note); err != nil {
				return err
			}
		}
		return nil
	})
	e, ok = r.queued[u]
	return e, ok, err
}

// known returns URLs of the site that this peer has fetched.
func (r *crawlletRun) known() ([]string, error) {
	list := urlList{most: maxKnownURLs}
	err := r.c.cfg.DB.View(func(tx *store.Tx) error {
		return tx.PageURLs(r.job.Host, func(u store.URL) (bool, error) {
			if _, waits := r.queued[u]; waits || !r.isFile(u) {
				return true, nil
			}
			return list.add(u), nil
		})
	})
	return list.urls, err
}
