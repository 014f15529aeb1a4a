package crawl

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"peerd/crawl/deny"
	"peerd/crawl/frontier"
	"peerd/crawl/hsts"
	"peerd/crawl/pace"
	"peerd/crawl/ping"
	"peerd/internal/backoff"
	"peerd/store"
)

// errInvalidReport is wrapped when the report of another peer cannot be used.
var errInvalidReport = errors.New("crawl: invalid report of an estimator")

// Crawler fetches the URLs in its frontier. Run may be called once. The other methods are
// safe for concurrent use, before and during Run.
type Crawler struct {
	cfg           Config
	log           *slog.Logger
	robots        robotsCache
	elsewhere     robotsElsewhere
	hsts          *hsts.Set // hosts that want TLS
	budget        *pageBudget
	remoteFetches remoteFetches
	connects      chan struct{}             // slots for connections for other peers
	forgiven      atomic.Pointer[time.Time] // end of the last outage of the network
	contents      *contentIndex
	sitemaps      chan struct{} // slots for sitemaps in progress, which may be large
	addrRest      time.Duration // the longest that an address is left alone after a request
	spaceWait     time.Duration
	checkInterval time.Duration
	storeFull     atomic.Bool // the last write failed for lack of space

	checks *checker     // of what other peers report
	sites  *siteReports // of peers on the machines of sites

	crawllets *crawlletSites

	pings *ping.Sites // keys of sites that say what has changed

	loggedNoSpace atomic.Pointer[time.Time] // when lack of space was last logged
}

// New returns a Crawler, or an error that lists every fault of cfg. It starts no goroutine.
func New(cfg Config) (*Crawler, error) {
	cfg.RemoteTimeout = cmp.Or(cfg.RemoteTimeout, cfg.FetchTimeout)
	cfg.RemoteWorkers = cmp.Or(cfg.RemoteWorkers, cfg.Workers)
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	log := cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	secure, err := loadHSTS(cfg.DB)
	if err != nil {
		return nil, fmt.Errorf("crawl: %w", err)
	}
	return &Crawler{
		cfg: cfg, log: log, robots: newRobotsCache(), elsewhere: newRobotsElsewhere(),
		hsts:   secure,
		budget: newPageBudget(cfg.MaxPages), remoteFetches: newRemoteFetches(cfg.RemoteWorkers),
		connects: make(chan struct{}, maxConcurrentConnects), contents: newContentIndex(),
		sitemaps:  make(chan struct{}, maxConcurrentSitemaps),
		addrRest:  max(maxAddrRest, cfg.RemoteTimeout, cfg.Pace.Longest()),
		spaceWait: spaceWait, checkInterval: checkInterval,
		checks: newChecker(cfg.CheckReports), sites: newSiteReports(),
		crawllets: newCrawlletSites(), pings: ping.NewSites(),
	}, nil
}

// LimitReached returns a channel that is closed when MaxPages pages have been fetched and
// stored. Nothing is fetched after that; the caller must end Run.
func (c *Crawler) LimitReached() <-chan struct{} { return c.budget.exhausted }

// Run fetches until ctx ends. Fetches in progress are then canceled and their URLs stay
// queued. An error comes from the store and is final. A full store is an error only with
// Config.StopWhenFull; otherwise fetching pauses until the store accepts writes again.
func (c *Crawler) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	for range c.cfg.Workers {
		group.Go(func() error {
			for ctx.Err() == nil {
				if err := final(c.handleStoreFull(c.step(ctx))); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if c.cfg.Revisit != nil || c.cfg.TryDelay > 0 {
		group.Go(func() error { return final(c.runRevisits(ctx)) })
	}
	if c.cfg.Revisit != nil {
		group.Go(func() error { return final(c.runPings(ctx)) })
	}
	return group.Wait()
}

// final returns the error with which Run ends because of err, or nil if err is that of a context.
func final(err error) error {
	if err == nil || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return nil
	}
	return fmt.Errorf("crawl: %w", err)
}

// retryWait is the wait of a host in a subnet in which no peer may fetch now. The owner
// pauses the subnet as well; the wait only prevents a busy loop in between.
const retryWait = 100 * time.Millisecond

// step takes one job and finishes it. Its error comes from the store or ctx.
func (c *Crawler) step(ctx context.Context) error {
	if err := c.waitForSpace(ctx); err != nil {
		return err
	}
	job, err := c.cfg.Frontier.Next(ctx)
	if err != nil {
		return err
	}
	if !c.hasSpace() { // out of space since this worker began to wait
		c.cfg.Frontier.Return(job, false)
		return nil
	}
	if done, err := c.upgrade(job); done {
		return err
	}
	if ok, err := c.checkOptOut(ctx, job); !ok {
		return err
	}
	reason, err := c.exhausted(job)
	switch {
	case err != nil:
		c.cfg.Frontier.Return(job, false)
		return err
	case reason != "":
		return c.deferOrDrop(job, reason)
	}
	gap, ok, err := c.checkRobots(ctx, job)
	if !ok {
		return err
	}
	d := c.cfg.Delegate.Dispatch(job.Subnet)
	if d.Hold {
		c.release(job, false, gap, retryWait)
		return nil
	}
	if d.Connect {
		return c.measure(ctx, job, d.Peer, gap)
	}
	freed, ok := c.budget.take()
	if !ok {
		c.cfg.Frontier.Return(job, false)
		select {
		case <-ctx.Done():
		case <-freed:
		}
		return nil
	}
	page, err := c.runJob(ctx, job, d, gap)
	c.budget.settle(page)
	return err
}

// runJob fetches a job's URL, here or through another peer. It reports whether the fetch
// yielded a page.
func (c *Crawler) runJob(
	ctx context.Context, job frontier.Job, d Dispatch, gap time.Duration,
) (page bool, err error) {
	req := store.FetchRequest{
		URL: job.Entry.URL, Addr: job.Addr, Depth: job.Entry.Depth,
		Kind: job.Entry.Kind, Hops: job.Entry.Hops,
		CompareText: c.cfg.Gate != nil && c.cfg.Gate.CompareText(job.Entry, job.Epoch),
	}
	due, err := c.prepareRevisit(&req)
	switch {
	case err != nil:
		c.cfg.Frontier.Return(job, false)
		return false, err
	case !due:
		err = c.cfg.DB.Batch(func(tx *store.Tx) error { return tx.Remove(job.Host, job.Entry) })
		c.cfg.Frontier.Return(job, err == nil)
		return false, err
	case req.Kind.Sitemap():
		select {
		case c.sitemaps <- struct{}{}:
			defer func() { <-c.sitemaps }()
			return c.fetchLocally(ctx, job, req, gap)
		default:
			c.release(job, false, gap, retryWait)
			return false, nil
		}
	case c.checks.claimed(job.Entry.URL):
		req.CompareText, req.IfNoneMatch, req.IfModifiedSince = true, "", ""
		return c.fetchLocally(ctx, job, req, gap)
	}
	if peer := c.checks.suspect(job.Host, time.Now()); peer != "" {
		defer c.checks.asked()
		return c.fetchRemotely(ctx, job, peer, req, gap, followUp)
	}
	if d.Peer == "" {
		if ended, err := c.tryCrawllet(ctx, job, gap); ended {
			return false, err
		}
		return c.fetchOrAsk(ctx, job, req, gap)
	}
	how := c.checks.handle(d.Peer, job.Host, time.Now())
	switch how {
	case instead:
		return c.fetchLocally(ctx, job, req, gap)
	case askOther:
		c.cfg.Delegate.Observe(job.Subnet, d.Peer, store.FetchReport{}, errNotAsked)
		c.cfg.Frontier.Return(job, false)
		return false, nil
	}
	return c.fetchRemotely(ctx, job, d.Peer, req, gap, how)
}

// fetchLocally fetches a job's URL from this peer. It reports whether the fetch yielded a
// page.
func (c *Crawler) fetchLocally(
	ctx context.Context, job frontier.Job, req store.FetchRequest, gap time.Duration,
) (page bool, err error) {
	ticket, ok, err := c.acquire(ctx)
	if !ok {
		c.cfg.Frontier.Return(job, false)
		return false, err
	}
	began := time.Now()
	got := c.fetch(ctx, req, false)
	ticket.Done(got.report.Bytes)
	if got.redirected.IsValid() {
		return false, c.redirectJob(job, got.redirected)
	}
	rep := got.report
	if ctx.Err() != nil && !rep.Outcome.Answered() { // canceled: says nothing about the URL
		c.release(job, false, gap, 0)
		return false, nil
	}
	if errors.Is(got.cause, deny.ErrOptedOut) || errors.Is(got.cause, deny.ErrStopped) {
		c.cfg.Frontier.Return(job, false) // it has just asked for that: see checkOptOut
		return false, nil
	}
	if got.err != nil {
		return false, c.archiveFailed(ctx, job, rep, gap, got.err)
	}
	c.reportNetwork(job.Addr, rep, got.cause)
	c.cfg.Delegate.Observe(job.Subnet, "", rep, nil)
	gap = max(gap, c.serverPause(job, rep))
	if findingOf(rep).failed() {
		return false, c.requeueFailed(job, rep, began, gap, true)
	}
	rep.Links = got.page.Links
	twice, err := c.checkSite(job.Entry.URL, rep)
	if twice || err != nil || c.checks.lookTwice(job.Entry.URL, rep, time.Now()) {
		return false, errors.Join(err, c.releaseCharged(job, 1, gap, c.askedWait(rep)))
	}
	wait, err := c.commit(got, job, max(gap, c.askedWait(rep)))
	c.forgetUnstored(job.Entry.URL, err)
	c.release(job, err == nil, gap, c.hostWait(wait, err))
	if err == nil {
		err = c.checkClaim(job, rep)
	}
	return err == nil && isPage(rep.Outcome) && job.Entry.Kind == store.KindPage, err
}

// serverPause returns how long the server must be left alone after a request for a page, and tells
// the frontier what the answer shows of its load.
func (c *Crawler) serverPause(job frontier.Job, rep store.FetchReport) time.Duration {
	pause, trend := c.observePace(job.Addr, rep)
	c.cfg.Frontier.Observe(job, loadOf(rep, trend))
	return pause
}

// fetchRemotely has an estimator fetch a job's URL. It reports whether the fetch yielded a
// page.
func (c *Crawler) fetchRemotely(
	ctx context.Context, job frontier.Job, peer string, req store.FetchRequest, gap time.Duration,
	how handling,
) (page bool, err error) {
	began := time.Now()
	rep, err := c.requestFetch(ctx, job.Subnet, peer, req, gap)
	unanswered := err != nil
	if err == nil {
		rep, err = checkReport(rep)
	}
	if err != nil && ctx.Err() != nil {
		c.release(job, false, gap, 0)
		return false, nil //nolint:nilerr // canceled by this peer: says nothing about the other
	}
	failed := err == nil && findingOf(rep).failed()
	switch {
	case failed && how == followUp:
		c.cfg.Delegate.Observe(job.Subnet, peer, store.FetchReport{}, errDoubted)
		return false, c.releaseCharged(job, 1, gap, 0)
	case err == nil && !failed && how != believe:
		c.checks.hold(peer, job.Entry.URL, rep, time.Now())
		return false, c.releaseCharged(job, 1, gap, c.askedWait(rep))
	}
	c.cfg.Delegate.Observe(job.Subnet, peer, rep, err)
	switch {
	case errors.Is(err, errRobotsElsewhere): // it has perhaps just requested the file
		c.release(job, false, gap, 0)
		return false, nil
	case errors.Is(err, ErrNotSent):
		c.cfg.Frontier.Return(job, false)
		return false, nil
	case err != nil:
		c.log.Info("lost estimator", "peer", peer, "url", job.Entry.URL, "err", err)
		if !unanswered { // an invalid answer: the estimator may still be fetching
			gap = max(gap, c.cfg.RemoteTimeout)
		}
		return false, c.releaseCharged(job, 1, gap, 0)
	case failed:
		if loadOf(rep, pace.Usual) == frontier.LoadStrained {
			c.cfg.Frontier.Strained(job.Addr)
		}
		return false, c.requeueFailed(job, rep, began, gap, false)
	}
	wait, err := c.commitRemote(job, rep, 1, max(gap, c.askedWait(rep)))
	if err == nil {
		c.checks.believed(peer, job.Entry)
	}
	c.release(job, err == nil, gap, c.hostWait(wait, err))
	return err == nil && isPage(rep.Outcome) && !job.Entry.Kind.Revisit(), err
}

// minRepeatPause is the minimum pause before a request to an estimator is repeated.
const minRepeatPause = time.Second

// requestFetch asks an estimator to fetch. It repeats a request without an answer for as
// long as the fetch may be running. An estimator that is still fetching answers both
// requests. One that was restarted has lost the fetch and starts another, for which the
// pause keeps the gap.
func (c *Crawler) requestFetch(
	ctx context.Context, subnet netip.Prefix, peer string, req store.FetchRequest,
	gap time.Duration,
) (store.FetchReport, error) {
	// The time counts from the first request: a request that timed out has used all the
	// time for which the subnet may be blocked.
	end := time.Now().Add(c.cfg.RemoteTimeout)
	rep, err := c.cfg.Delegate.RequestFetch(ctx, subnet, peer, req)
	if err == nil || errors.Is(err, ErrNotSent) {
		return rep, err
	}
	firstErr := err
	for time.Now().Before(end) {
		c.log.Debug("repeated request to estimator", "peer", peer, "url", req.URL, "err", err)
		pause := min(max(gap, c.cfg.Gap, minRepeatPause), time.Until(end))
		if backoff.Sleep(ctx, pause) != nil {
			return rep, firstErr
		}
		if rep, err = c.cfg.Delegate.RequestFetch(ctx, subnet, peer, req); err == nil {
			return rep, nil
		}
	}
	return rep, firstErr
}

// maxRetryAfter bounds the Retry-After that an estimator reports, as it is bounded for our
// own fetches.
const maxRetryAfter = 24 * time.Hour

// errRobotsElsewhere is returned for a report that the robots.txt forbids the URL: this peer has
// read it before it asked, and found that it does not.
var errRobotsElsewhere = fmt.Errorf("%w: the estimator was forbidden what is allowed here",
	ErrNotSent)

// checkReport validates the report of another peer. An unknown outcome must not cost the
// URL, nor must what that peer denies, and an endless wait must not block its host.
func checkReport(rep store.FetchReport) (store.FetchReport, error) {
	if rep.Outcome == store.OutcomeDenied {
		return store.FetchReport{}, fmt.Errorf("%w: the estimator denies the host", ErrNotSent)
	}
	if rep.Outcome == store.OutcomeRobotsDenied {
		return store.FetchReport{}, errRobotsElsewhere
	}
	if rep.Outcome == store.OutcomeNone || rep.Outcome.String() == "unknown" {
		return store.FetchReport{}, fmt.Errorf("%w: outcome %d", errInvalidReport, rep.Outcome)
	}
	rep.RetryAfter = min(max(rep.RetryAfter, 0), maxRetryAfter)
	rep.Error = store.CutErrorText(rep.Error)
	return rep, nil
}

// isPage reports whether an outcome counts as a page.
func isPage(o store.Outcome) bool { return o == store.OutcomeOK || o == store.OutcomeTooLarge }

// exhausted returns the reason not to fetch a URL that was queued before other pages showed
// that it belongs to a trap, or "".
func (c *Crawler) exhausted(job frontier.Job) (reason string, err error) {
	if c.cfg.Gate == nil {
		return "", nil
	}
	return c.cfg.Gate.Exhausted(c.cfg.DB, job.Entry, job.Epoch)
}

// deferOrDrop moves a URL that seems to belong to a trap behind all others of its host, and
// drops it if it still does when its turn comes. It stays seen.
func (c *Crawler) deferOrDrop(job frontier.Job, reason string) error {
	if !job.Entry.Deferred() {
		err := c.cfg.DB.Batch(func(tx *store.Tx) error { return tx.Defer(job.Host, job.Entry) })
		if err != nil {
			c.cfg.Frontier.Return(job, false)
			return err
		}
		c.cfg.Frontier.Defer(job)
		return nil
	}
	c.log.Debug("dropped url", "url", job.Entry.URL, "reason", reason)
	err := c.cfg.DB.Batch(func(tx *store.Tx) error {
		tx.Count(store.Counters{Dropped: 1})
		tx.CountNamed(reason, 1)
		return tx.Remove(job.Host, job.Entry)
	})
	c.cfg.Frontier.Return(job, err == nil)
	return err
}
