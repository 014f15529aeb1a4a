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

	"peerd/crawl/fetch"
	"peerd/crawl/frontier"
	"peerd/crawl/pace"
	"peerd/crawl/revisit"
	"peerd/crawl/scope"
	"peerd/store"
	"peerd/store/warc"
)

// ErrNotSent wraps an error of Delegate.Remote when it is certain that the
// other peer has not begun the fetch.
var ErrNotSent = errors.New("crawl: the request did not reach the estimator")

// errReport is the reason for which a foreign report is taken for none.
var errReport = errors.New("crawl: the estimator's report says nothing")

// A Place says who fetches next in a subnet.
type Place struct {
	Peer string // another peer; "" is this one
	Hold bool   // nobody: the subnet is about to leave
}

// Delegate is what the crawler asks about a subnet's ownership. All its
// methods may be called at once.
type Delegate interface {
	// Where says who fetches the next URL of a subnet.
	Where(subnet netip.Prefix) Place
	// Remote lets another peer fetch; it returns when the fetch is over or
	// cannot be running any more. After an error that wraps ErrNotSent, Where
	// must not name the same peer again at once.
	Remote(ctx context.Context, subnet netip.Prefix, peer string, r store.FetchRequest) (store.FetchReport, error)
	// Observe is told how a request to a subnet went, robots.txt included;
	// peer is "" for this one.
	Observe(subnet netip.Prefix, peer string, r store.FetchReport, err error)
}

// Config says what a Crawler works with.
type Config struct {
	DB       *store.DB
	Frontier *frontier.Frontier
	Fetcher  *fetch.Fetcher
	Scope    *scope.Scope
	Delegate Delegate
	// Deferred is told how many URLs have been put aside for hosts that are
	// not ours, while what they came from still counts as under way.
	Deferred func(byHost map[string]int)
	// Sent says whether a foreign URL was handed to its owner lately.
	Sent func(store.URL) bool
	// Agent is the product token that robots.txt is matched with.
	Agent string
	// Workers is the number of fetches that may be under way at once.
	Workers int
	// MaxTries is the number of fetches after which a URL that failed each
	// time is given up, or all URLs of an origin whose robots.txt did. Ten
	// answers of 429 or 503 count as much.
	MaxTries int
	// BackOff is the wait after a first failure of a host; it doubles with
	// each further one.
	BackOff time.Duration
	// MaxRests is how often a host that answers nothing is put to rest, each time
	// twice as long and an hour at most, before all its URLs are given up.
	MaxRests int
	// Pace is nil for no other pause than the Frontier's and the site's.
	Pace *pace.Book
	// Rules say how pages are read.
	Rules Rules
	// Gate decides on hosts of others; the Frontier asks it for ours. Nil lets
	// all in.
	Gate *Gate
	// Resolve returns an address of a host that is not ours, for a robots.txt
	// that redirects there; nil follows no such redirect.
	Resolve func(ctx context.Context, host string) (netip.Addr, error)
	// Revisit says when to come back to a page; nil never does.
	Revisit *revisit.Policy
	// Archive keeps every answer; nil keeps none.
	Archive *warc.Archive
	// Room says why nothing may be fetched for want of room, and nil when there
	// is enough. With StopWhenFull that ends Run with ErrFull, else it waits.
	Room         func() error
	StopWhenFull bool
	// ErrandWorkers bounds the fetches at other peers' request that may be under
	// way at once; 0 means Workers.
	ErrandWorkers int
	// HostDay bounds the requests to a host on one day (UTC); 0 means none.
	HostDay int64
	// Gap is that of the Frontier: the wait between the requests of a
	// robots.txt that is redirected.
	Gap time.Duration
	// FetchTimeout bounds one request from the first packet to the last.
	FetchTimeout time.Duration
	// ErrandTimeout is the same for a fetch at another peer's request, and how
	// long that of a lost estimator is taken to be running; zero means
	// FetchTimeout. It is shorter, because the owner of a subnet lets
	// nobody else fetch there while an estimator is silent.
	ErrandTimeout time.Duration
	// MaxPages ends the crawl after so many pages of one Run; 0 means never.
	MaxPages int64
	// Logger is nil to discard.
	Logger *slog.Logger
}

// Validate names every fault of c.
func (c Config) Validate() error {
	var errs []error
	fault := func(bad bool, format string, args ...any) {
		if bad {
			errs = append(errs, fmt.Errorf("crawl: "+format, args...))
		}
	}
	fault(c.DB == nil, "DB is missing")
	fault(c.Frontier == nil, "Frontier is missing")
	fault(c.Fetcher == nil, "Fetcher is missing")
	fault(c.Scope == nil, "Scope is missing")
	fault(c.Delegate == nil, "Delegate is missing")
	fault(c.Deferred == nil, "Deferred is missing")
	fault(c.Sent == nil, "Sent is missing")
	fault(c.Agent == "", "Agent is empty")
	fault(c.Workers < 1, "Workers is %d, want at least 1", c.Workers)
	fault(c.MaxTries < 1, "MaxTries is %d, want at least 1", c.MaxTries)
	fault(c.BackOff < 0 || c.BackOff > time.Hour, "BackOff is %v, want 0 to 1h", c.BackOff)
	fault(c.MaxRests < 0, "MaxRests is %d, want 0 or more", c.MaxRests)
	fault(c.ErrandWorkers < 0, "ErrandWorkers is %d, want 0 or more", c.ErrandWorkers)
	fault(c.HostDay < 0, "HostDay is %d, want 0 or more", c.HostDay)
	fault(c.Gap < 0, "Gap is %v, want 0 or more", c.Gap)
	fault(c.ErrandTimeout < 0, "ErrandTimeout is %v, want 0 or more", c.ErrandTimeout)
	fault(c.FetchTimeout <= 0, "FetchTimeout is %v, want more than 0", c.FetchTimeout)
	fault(c.MaxPages < 0, "MaxPages is %d, want 0 or more", c.MaxPages)
	return errors.Join(errs...)
}

// Crawler fetches what its frontier holds. Run it once; its other methods may
// be called at once, and before and during Run.
type Crawler struct {
	cfg      Config
	log      *slog.Logger
	robots   robotsCache
	budget   *budget
	errands  errands
	health   *health
	contents *contents

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
		budget: newBudget(cfg.MaxPages), errands: newErrands(cfg.ErrandWorkers),
		health: newHealth(), contents: newContents(),
	}, nil
}

// Full is closed when MaxPages pages have been fetched and stored. Nothing is
// fetched after that; whoever set the limit ends the Run.
func (c *Crawler) Full() <-chan struct{} { return c.budget.full }

// Run fetches until ctx ends. Fetches under way are then cut off; their URLs
// stay queued. An error is one of the store, and final.
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
				end(c.step(ctx))
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
	if c.cfg.Room != nil && c.cfg.Room() != nil { // it is gone since this worker began to wait
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
	freed, ok := c.budget.take()
	if !ok {
		c.cfg.Frontier.Return(job, false)
		select {
		case <-ctx.Done():
		case <-freed:
		}
		return nil
	}
	req := store.FetchRequest{URL: job.Entry.URL, Addr: job.Addr, Depth: job.Entry.Depth, Kind: job.Entry.Kind, Hops: job.Entry.Hops}
	var page bool
	switch err = c.conditional(&req); {
	case err != nil:
		c.cfg.Frontier.Return(job, false)
	case place.Peer == "" || req.Kind.Sitemap():
		page, err = c.local(ctx, job, req, gap)
	default:
		page, err = c.remote(ctx, job, place.Peer, req, gap)
	}
	c.budget.settle(page)
	return err
}

// local fetches the job's URL from here. It says whether a page came of it.
func (c *Crawler) local(ctx context.Context, job frontier.Job, req store.FetchRequest, gap time.Duration) (page bool, err error) {
	got := c.fetch(ctx, req)
	rep := got.report
	if ctx.Err() != nil && !rep.Outcome.Answered() { // cut off: it says nothing about the URL
		c.cfg.Frontier.Release(job, false, gap, 0)
		return false, nil
	}
	if got.err != nil {
		c.cfg.Frontier.Release(job, false, gap, 0)
		if errors.Is(got.err, warc.ErrFull) {
			return false, nil // the next step finds no room
		}
		return false, got.err
	}
	c.cfg.Delegate.Observe(job.Subnet, "", rep, nil)
	gap = max(gap, c.pause(job, rep))
	rest, dead := c.ail(job, rep.Outcome)
	switch {
	case dead:
		return false, c.forsake(job)
	case rep.Outcome.Transient():
		return false, c.failed(job, rep, gap, rest)
	}
	wait, err := c.commit(got, job)
	c.cfg.Frontier.Release(job, err == nil, gap, wait)
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
		c.cfg.Frontier.Release(job, false, gap, 0)
		return false, nil
	case rep.Outcome.Transient():
		return false, c.failed(job, rep, gap, 0)
	}
	wait, err := c.commitRemote(job, rep)
	c.cfg.Frontier.Release(job, err == nil, gap, wait)
	return err == nil && isPage(rep.Outcome) && !job.Entry.Kind.Revisit(), err
}

// askAgain is the least pause before a lost answer is asked for again.
const askAgain = time.Second

// ask lets an estimator fetch. A lost answer is asked for again, for as long as
// the fetch may be under way: the estimator has it, is still at it and will
// answer both, or has been started anew, and its fetch has died with it; then
// the pause keeps the gap.
func (c *Crawler) ask(ctx context.Context, subnet netip.Prefix, peer string, req store.FetchRequest, gap time.Duration) (store.FetchReport, error) {
	rep, err := c.cfg.Delegate.Remote(ctx, subnet, peer, req)
	if err == nil || errors.Is(err, ErrNotSent) {
		return rep, err
	}
	lost := err
	for end := time.Now().Add(c.cfg.ErrandTimeout); time.Now().Before(end); {
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
// unless the server itself asked for that, or rests.
func (c *Crawler) failed(job frontier.Job, rep store.FetchReport, gap, rest time.Duration) error {
	e, late := job.Entry, throttled(rep.Outcome)
	wait := c.backOff(e.Tries, late, rep.RetryAfter)
	used := max(e.Tries, 0) + c.try(late)
	done := c.spent(used)
	if done {
		wait = rep.RetryAfter
	}
	wait = max(wait, rest)
	e.Tries = used - 1 // Requeue counts one itself
	err := c.cfg.DB.Batch(func(tx *store.Tx) error {
		if err := c.asked(tx, job.Host, wait); err != nil {
			return err
		}
		if done {
			return c.giveUp(tx, job, rep)
		}
		return tx.Requeue(job.Host, e)
	})
	c.cfg.Frontier.Release(job, done && err == nil, gap, wait)
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
	if err := c.after(tx, job, sighting{outcome: rep.Outcome, status: rep.Status}); err != nil {
		return err
	}
	return c.missed(tx, job, rep)
}

// missed records that a URL was not fetched; what is known of an earlier fetch
// stays.
func (c *Crawler) missed(tx *store.Tx, job frontier.Job, rep store.FetchReport) error {
	if _, err := tx.Page(job.Entry.URL); !errors.Is(err, store.ErrNotFound) {
		return err
	}
	return tx.PutPage(store.Page{
		URL: job.Entry.URL, Outcome: rep.Outcome, Status: rep.Status, FetchedAt: time.Now(), Timing: rep.Timing, Depth: job.Entry.Depth,
	})
}
