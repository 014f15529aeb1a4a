package crawl

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"peerd/crawl/fetch"
	"peerd/crawl/frontier"
	"peerd/crawl/scope"
	"peerd/store"
)

// ErrNotSent wraps an error of Delegate.Remote when it is certain that the
// other peer has not begun the fetch.
var ErrNotSent = errors.New("crawl: the request did not reach the estimator")

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
	// cannot be running any more.
	Remote(ctx context.Context, subnet netip.Prefix, peer string, r store.FetchRequest) (store.FetchReport, error)
	// Observe is told how a fetch in a subnet went; peer is "" for this one.
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
	// time is given up.
	MaxTries int
	// BackOff is the wait after a first failure of a host; it doubles with
	// each further one.
	BackOff time.Duration
	// FetchTimeout bounds one fetch from the first packet to the last; as long
	// a lost estimator's fetch is taken to be running.
	FetchTimeout time.Duration
	// MaxPages ends the crawl after so many pages; 0 means never.
	MaxPages int64
	Logger   *slog.Logger
}

// Crawler fetches what its frontier holds. Run it once.
type Crawler struct {
	cfg     Config
	log     *slog.Logger
	robots  robotsCache
	pages   atomic.Int64 // taken or being taken, against MaxPages
	full    chan struct{}
	once    sync.Once
	errands chan struct{} // places for fetches at other peers' request
	running sync.Map      // URLs of errands under way
}

// New makes a Crawler. It starts nothing.
func New(cfg Config) *Crawler {
	log := cfg.Logger
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Crawler{
		cfg: cfg, log: log, robots: newRobotsCache(4096),
		full: make(chan struct{}), errands: make(chan struct{}, max(cfg.Workers, 1)),
	}
}

// Full is closed when MaxPages pages have been taken.
func (c *Crawler) Full() <-chan struct{} { return c.full }

// Run fetches until ctx ends. Fetches under way are then cut off; their URLs
// stay queued. An error is one of the store, and final.
func (c *Crawler) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	for range max(c.cfg.Workers, 1) {
		wg.Go(func() {
			for ctx.Err() == nil {
				if err := c.step(ctx); err != nil && ctx.Err() == nil {
					cancel(fmt.Errorf("crawl: %w", err))
				}
			}
		})
	}
	wg.Wait()
	if err := context.Cause(ctx); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// step takes one job to its end. Its error is one of the store.
func (c *Crawler) step(ctx context.Context) error {
	job, err := c.cfg.Frontier.Next(ctx)
	if err != nil {
		return err
	}
	rules, did, err := c.rules(ctx, job)
	if err != nil {
		c.cfg.Frontier.Return(job, false)
		return err
	}
	gap := rules.delay
	switch {
	case ctx.Err() != nil:
		c.cfg.Frontier.Release(job, false, gap, 0)
		return nil
	case rules.failures >= robotsTries:
		err := c.giveUp(job, store.OutcomeRobotsUnreachable)
		if did {
			c.cfg.Frontier.Release(job, err == nil, gap, 0)
		} else {
			c.cfg.Frontier.Return(job, err == nil)
		}
		return err
	case rules.failures > 0:
		c.cfg.Frontier.Release(job, false, gap, c.backOff(rules.failures-1, false))
		return nil
	case did: // robots.txt was a request like any other: the gap comes first
		c.cfg.Frontier.Release(job, false, gap, 0)
		return nil
	case !rules.allowed(c.cfg.Agent, job.Entry.URL):
		err := c.giveUp(job, store.OutcomeRobotsDenied)
		c.cfg.Frontier.Return(job, err == nil)
		return err
	}
	place := c.cfg.Delegate.Where(job.Subnet)
	if place.Hold || !c.reserve() {
		c.cfg.Frontier.Return(job, false)
		if !place.Hold {
			<-ctx.Done() // the page budget is spent: whoever set it ends the run
		}
		return nil
	}
	req := store.FetchRequest{URL: job.Entry.URL, Addr: job.Addr, Depth: job.Entry.Depth}
	if place.Peer != "" {
		return c.remote(ctx, job, place.Peer, req, gap)
	}
	got := c.fetch(ctx, req)
	if ctx.Err() != nil {
		c.unreserve()
		c.cfg.Frontier.Release(job, false, gap, 0)
		return nil
	}
	if got.report.Outcome != store.OutcomeOK && got.report.Outcome != store.OutcomeTooLarge {
		c.unreserve()
	}
	c.cfg.Delegate.Observe(job.Subnet, "", got.report, nil)
	if got.report.Outcome.Transient() {
		return c.failed(job, got.report, gap)
	}
	err = c.commit(got, &job, "")
	c.cfg.Frontier.Release(job, err == nil, gap, 0)
	return err
}

// remote lets an estimator do the job.
func (c *Crawler) remote(ctx context.Context, job frontier.Job, peer string, req store.FetchRequest, gap time.Duration) error {
	rep, err := c.cfg.Delegate.Remote(ctx, job.Subnet, peer, req)
	c.cfg.Delegate.Observe(job.Subnet, peer, rep, err)
	if err != nil || (rep.Outcome != store.OutcomeOK && rep.Outcome != store.OutcomeTooLarge) {
		c.unreserve()
	}
	switch {
	case errors.Is(err, ErrNotSent):
		c.cfg.Frontier.Return(job, false)
		return nil
	case err != nil: // the estimator may be fetching still: wait it out
		c.log.Info("an estimator was lost", "peer", peer, "url", job.Entry.URL, "err", err)
		c.cfg.Frontier.Release(job, false, max(gap, c.cfg.FetchTimeout), 0)
		return nil
	case rep.Outcome.Transient():
		return c.failed(job, rep, gap)
	}
	err = c.commitRemote(job, rep)
	c.cfg.Frontier.Release(job, err == nil, gap, 0)
	return err
}

// failed puts a job back to be tried again later, or gives it up after the
// last try.
func (c *Crawler) failed(job frontier.Job, rep store.FetchReport, gap time.Duration) error {
	var err error
	done := job.Entry.Tries+1 >= c.cfg.MaxTries
	if done {
		err = c.giveUp(job, rep.Outcome)
	} else {
		err = c.cfg.DB.Update(func(tx *store.Tx) error { return tx.Requeue(job.Host, job.Entry) })
	}
	done = done && err == nil
	c.cfg.Frontier.Release(job, done, gap, max(rep.RetryAfter, c.backOff(job.Entry.Tries, done)))
	return err
}

// backOff doubles from the configured wait, with a third of jitter; a URL that
// was given up does not hold its host back any longer.
func (c *Crawler) backOff(tries int, done bool) time.Duration {
	if done {
		return 0
	}
	d := c.cfg.BackOff << min(tries, 6)
	return d + time.Duration(rand.Int64N(int64(d)/3+1))
}

// giveUp takes a URL out of the queue for good, counted and logged.
func (c *Crawler) giveUp(job frontier.Job, o store.Outcome) error {
	c.log.Debug("url given up", "url", job.Entry.URL, "outcome", o.String())
	return c.cfg.DB.Update(func(tx *store.Tx) error {
		if o == store.OutcomeRobotsDenied {
			tx.Count(store.Counters{RobotsDenied: 1})
		} else {
			tx.Count(store.Counters{Failed: 1})
		}
		return tx.Remove(job.Host, job.Entry)
	})
}

// reserve takes one page off the budget; unreserve gives it back.
func (c *Crawler) reserve() bool {
	if c.cfg.MaxPages <= 0 {
		return true
	}
	if c.pages.Add(1) <= c.cfg.MaxPages {
		return true
	}
	c.pages.Add(-1)
	return false
}

func (c *Crawler) unreserve() {
	if c.cfg.MaxPages > 0 {
		c.pages.Add(-1)
	}
}
