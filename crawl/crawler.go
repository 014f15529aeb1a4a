package crawl

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"peerd/crawl/frontier"
	"peerd/store"
)

// errReport is the reason for which a foreign report is taken for none.
var errReport = errors.New("crawl: the estimator's report says nothing")

// Crawler fetches what its frontier holds. Run it once; its other methods may
// be called at once, and before and during Run.
type Crawler struct {
	cfg      Config
	log      *slog.Logger
	robots   robotsCache
	budget   *budget
	errands  errands
	lately   *lately
	health   *health
	contents *contents
	sitemaps chan struct{} // places for sitemaps under way: they may be large
	roomWait time.Duration
	stalled  atomic.Bool // the store had no room the last time that was seen

	complained atomic.Pointer[time.Time] // when it was last said that there is no room
}

// New makes a Crawler, or returns all that is wrong with cfg. It starts
// nothing.
func New(cfg Config) (*Crawler, error) {
	if cfg.ErrandTimeout == 0 {
		cfg.ErrandTimeout = cfg.FetchTimeout
	}
	if cfg.ErrandWorkers == 0 {
		cfg.ErrandWorkers = cfg.Workers
	}
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	log := cfg.Logger
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Crawler{
		cfg: cfg, log: log, robots: newRobotsCache(4096),
		budget: newBudget(cfg.MaxPages), errands: newErrands(cfg.ErrandWorkers), lately: newLately(),
		health: newHealth(), contents: newContents(), sitemaps: make(chan struct{}, sitemapsAtOnce), roomWait: roomWait,
	}, nil
}

// Full is closed when MaxPages pages have been fetched and stored. Nothing is
// fetched after that; whoever set the limit ends the Run.
func (c *Crawler) Full() <-chan struct{} { return c.budget.full }

// Run fetches until ctx ends. Fetches under way are then cut off; their URLs
// stay queued. An error is one of the store, and final; that it is full is none,
// without Config.StopWhenFull: then nothing is fetched until it takes something
// again.
func (c *Crawler) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var wg sync.WaitGroup
	var once sync.Once
	var failure error
	end := func(err error) {
		if err == nil || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
			return
		}
		once.Do(func() { failure = fmt.Errorf("crawl: %w", err) })
		cancel()
	}
	for range c.cfg.Workers {
		wg.Go(func() {
			for ctx.Err() == nil {
				end(c.stall(c.step(ctx)))
			}
		})
	}
	if c.cfg.Revisit != nil {
		wg.Go(func() { end(c.runRevisits(ctx)) })
	}
	wg.Wait()
	return failure
}

// holdWait is how long a host rests whose subnet nobody may fetch from now.
// Its owner shuts the subnet anyway; this only keeps a slip from spinning.
const holdWait = 100 * time.Millisecond

// step takes one job to its end. Its error is one of the store, or ctx's end.
func (c *Crawler) step(ctx context.Context) error {
	if err := c.room(ctx); err != nil {
		return err
	}
	job, err := c.cfg.Frontier.Next(ctx)
	if err != nil {
		return err
	}
	if c.noRoom() != nil { // it is gone since this worker began to wait
		c.cfg.Frontier.Return(job, false)
		return nil
	}
	gap, ok, err := c.admit(ctx, job)
	if !ok {
		return err
	}
	place := c.cfg.Delegate.Where(job.Subnet)
	if place.Hold {
		c.cfg.Frontier.Release(job, false, gap, holdWait)
		return nil
	}
	if place.Connect {
		return c.measure(ctx, job, place.Peer, gap)
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
	page, err := c.do(ctx, job, place, gap)
	c.budget.settle(page)
	return err
}

// do has a job's URL fetched. It says whether a page came of it.
func (c *Crawler) do(ctx context.Context, job frontier.Job, place Place, gap time.Duration) (page bool, err error) {
	req := store.FetchRequest{URL: job.Entry.URL, Addr: job.Addr, Depth: job.Entry.Depth, Kind: job.Entry.Kind, Hops: job.Entry.Hops}
	due, err := c.conditional(&req)
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
			return c.local(ctx, job, req, gap)
		default:
			c.cfg.Frontier.Release(job, false, gap, holdWait)
			return false, nil
		}
	case place.Peer == "":
		return c.local(ctx, job, req, gap)
	}
	return c.remote(ctx, job, place.Peer, req, gap)
}

// local fetches the job's URL from here. It says whether a page came of it.
func (c *Crawler) local(ctx context.Context, job frontier.Job, req store.FetchRequest, gap time.Duration) (page bool, err error) {
	ticket, ok, err := c.afford(ctx)
	if !ok {
		c.cfg.Frontier.Return(job, false)
		return false, err
	}
	got := c.fetch(ctx, req, false)
	ticket.Done(got.report.Bytes)
	rep := got.report
	if ctx.Err() != nil && !rep.Outcome.Answered() { // cut off: it says nothing about the URL
		c.cfg.Frontier.Release(job, false, gap, 0)
		return false, nil
	}
	if got.err != nil {
		return false, c.notKept(ctx, job, gap, got.err)
	}
	c.cfg.Delegate.Observe(job.Subnet, "", rep, nil)
	gap = max(gap, c.pause(job, rep))
	rest, dead := c.ail(job, rep.Outcome)
	switch {
	case dead:
		return false, c.forsake(job, rep)
	case rep.Outcome.Transient():
		return false, c.failed(job, rep, gap, rest)
	}
	wait, err := c.commit(got, job, gap)
	c.unstored(job.Entry.URL, err)
	c.cfg.Frontier.Release(job, err == nil, gap, c.held(wait, err))
	return err == nil && isPage(rep.Outcome) && job.Entry.Kind == store.KindPage, err
}

// pause is what the server is due for an answer.
func (c *Crawler) pause(job frontier.Job, rep store.FetchReport) time.Duration {
	if c.cfg.Pace == nil || !rep.Outcome.Answered() {
		return 0
	}
	return c.cfg.Pace.Observe(job.Addr, rep.Timing.Total())
}

// remote lets an estimator do the job.
func (c *Crawler) remote(ctx context.Context, job frontier.Job, peer string, req store.FetchRequest, gap time.Duration) (page bool, err error) {
	rep, err := c.ask(ctx, job.Subnet, peer, req, gap)
	waited := err != nil
	if err == nil {
		rep, err = plausible(rep)
	}
	if err != nil && ctx.Err() != nil { // it was us who broke off
		c.cfg.Frontier.Release(job, false, gap, 0)
		return false, nil
	}
	c.cfg.Delegate.Observe(job.Subnet, peer, rep, err)
	switch {
	case errors.Is(err, ErrNotSent):
		c.cfg.Frontier.Return(job, false)
		return false, nil
	case err != nil:
		c.log.Info("an estimator was lost", "peer", peer, "url", job.Entry.URL, "err", err)
		if !waited { // it answers nonsense and may be fetching still
			gap = max(gap, c.cfg.ErrandTimeout)
		}
		wait, err := c.chargeAlone(job.Host, 1, gap)
		c.cfg.Frontier.Release(job, false, gap, wait)
		return false, err
	case rep.Outcome.Transient():
		return false, c.failed(job, rep, gap, 0)
	}
	wait, err := c.commitRemote(job, rep, gap)
	c.cfg.Frontier.Release(job, err == nil, gap, c.held(wait, err))
	return err == nil && isPage(rep.Outcome) && !job.Entry.Kind.Revisit(), err
}

// askAgain is the least pause before a lost answer is asked for again.
const askAgain = time.Second

// ask lets an estimator fetch. A lost answer is asked for again, for as long as
// the fetch may be under way: the estimator has it, is still at it and will
// answer both, or has been started anew, and its fetch has died with it; then
// the pause keeps the gap.
func (c *Crawler) ask(ctx context.Context, subnet netip.Prefix, peer string, req store.FetchRequest, gap time.Duration) (store.FetchReport, error) {
	// Counted from the first request: one that was met by silence took all the time
	// that the subnet may stand still for it.
	end := time.Now().Add(c.cfg.ErrandTimeout)
	rep, err := c.cfg.Delegate.Remote(ctx, subnet, peer, req)
	if err == nil || errors.Is(err, ErrNotSent) {
		return rep, err
	}
	lost := err
	for time.Now().Before(end) {
		c.log.Debug("an estimator is asked again", "peer", peer, "url", req.URL, "err", err)
		select {
		case <-ctx.Done():
			return rep, lost
		case <-time.After(min(max(gap, c.cfg.Gap, askAgain), time.Until(end))):
		}
		if rep, err = c.cfg.Delegate.Remote(ctx, subnet, peer, req); err == nil {
			return rep, nil
		}
	}
	return rep, lost
}

// maxRetryAfter bounds the wait that an estimator says the server asked for;
// our own fetches are bounded alike.
const maxRetryAfter = 24 * time.Hour

// plausible checks what another peer reports: an outcome that is none must not
// cost the URL, nor an endless wait its host.
func plausible(rep store.FetchReport) (store.FetchReport, error) {
	if rep.Outcome == store.OutcomeNone || rep.Outcome.String() == "unknown" {
		return store.FetchReport{}, fmt.Errorf("%w: outcome %d", errReport, rep.Outcome)
	}
	rep.RetryAfter = min(max(rep.RetryAfter, 0), maxRetryAfter)
	return rep, nil
}

// isPage says whether an outcome counts as a page.
func isPage(o store.Outcome) bool { return o == store.OutcomeOK || o == store.OutcomeTooLarge }

// failed puts a job back to be tried again later, or gives it up after the
// last try. A URL that was given up does not hold its host back any longer,
// unless the server itself asked for that. While the host rests, a try is a
// look whether it is back, and no fault of the URL.
func (c *Crawler) failed(job frontier.Job, rep store.FetchReport, gap, rest time.Duration) error {
	e, late := job.Entry, throttled(rep.Outcome)
	wait := c.backOff(e.Tries, late, rep.RetryAfter)
	used := max(e.Tries, 0) + c.try(late)
	done := c.spent(used)
	switch {
	case rest > 0:
		wait, used, done = max(rest, rep.RetryAfter), max(e.Tries, 0), false
	case done:
		wait = rep.RetryAfter
	}
	wait = max(wait, gap)
	e.Tries = used - 1 // Requeue counts one itself
	hold := wait
	err := c.cfg.DB.Batch(func(tx *store.Tx) (err error) {
		if hold, err = c.charge(tx, job.Host, 1, wait); err != nil {
			return err
		}
		if done {
			return c.giveUp(tx, job, rep)
		}
		return tx.Requeue(job.Host, e)
	})
	c.cfg.Frontier.Release(job, done && err == nil, gap, c.held(max(hold, wait), err))
	return err
}

// drop gives a job's URL up without a request.
func (c *Crawler) drop(job frontier.Job, o store.Outcome) error {
	return c.cfg.DB.Batch(func(tx *store.Tx) error { return c.giveUp(tx, job, store.FetchReport{Outcome: o}) })
}

// giveUp takes a URL out of the queue for good: recorded, counted and logged.
func (c *Crawler) giveUp(tx *store.Tx, job frontier.Job, rep store.FetchReport) error {
	c.log.Debug("url given up", "url", job.Entry.URL, "outcome", rep.Outcome.String())
	if rep.Outcome == store.OutcomeRobotsDenied {
		tx.Count(store.Counters{RobotsDenied: 1})
	} else {
		tx.Count(store.Counters{Failed: 1})
	}
	if err := tx.Remove(job.Host, job.Entry); err != nil {
		return err
	}
	if err := c.after(tx, job.Entry, sighting{outcome: rep.Outcome, status: rep.Status}); err != nil {
		return err
	}
	return c.missed(tx, job.Entry, rep)
}

// missed records that a URL was not fetched; what is known of an earlier fetch
// stays.
func (c *Crawler) missed(tx *store.Tx, e store.Entry, rep store.FetchReport) error {
	if _, err := tx.Page(e.URL); !errors.Is(err, store.ErrNotFound) {
		return err
	}
	return tx.PutPage(store.Page{
		URL: e.URL, Outcome: rep.Outcome, Status: rep.Status, FetchedAt: time.Now(), Timing: rep.Timing, Depth: e.Depth,
	})
}
