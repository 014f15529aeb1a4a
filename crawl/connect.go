package crawl

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"peerd/crawl/frontier"
	"peerd/store"
)

// measure has a connection opened to a job's server, by this peer or another,
// and gives the job back. To the server that is a request like any other: it
// moves the clocks and counts for the host's day.
func (c *Crawler) measure(ctx context.Context, job frontier.Job, peer string, gap time.Duration) error {
	req := store.FetchRequest{URL: job.Entry.URL, Addr: job.Addr}
	var rep store.FetchReport
	var err error
	if peer == "" {
		rep, err = c.connect(ctx, req)
	} else {
		rep, err = c.cfg.Delegate.Connect(ctx, job.Subnet, peer, req)
	}
	if ctx.Err() != nil { // cut off: it says nothing about the server
		c.cfg.Frontier.Release(job, false, gap, 0)
		return nil
	}
	c.cfg.Delegate.Observe(job.Subnet, peer, rep, err)
	switch {
	case errors.Is(err, ErrNotSent):
		c.cfg.Frontier.Return(job, false)
		return nil
	case err != nil && peer == "":
		c.cfg.Frontier.Release(job, false, gap, 0)
		return err
	case err != nil: // the other may be at it still
		c.log.Info("a peer that was to connect was lost", "peer", peer, "url", job.Entry.URL, "err", err)
		gap = max(gap, c.cfg.ErrandTimeout)
	}
	wait, err := c.chargeAlone(job.Host, 1, gap)
	c.cfg.Frontier.Release(job, false, gap, wait)
	return err
}

// connect opens a connection from here. The error is one of the store.
func (c *Crawler) connect(ctx context.Context, r store.FetchRequest) (store.FetchReport, error) {
	o, took, err := c.cfg.Fetcher.Connect(ctx, r.URL, r.Addr)
	if err != nil {
		c.log.Debug("no connection", "url", r.URL, "addr", r.Addr, "err", err)
	}
	err = c.cfg.DB.Batch(func(tx *store.Tx) error {
		tx.Count(store.Counters{Connects: 1})
		return nil
	})
	return store.FetchReport{Outcome: o, Timing: store.Timing{Connect: took}}, err
}

// Connect opens a connection to the URL's server at another owner's request,
// and closes it. Nothing was sent if it fails with ErrBusy, as it does when it
// is asked again before Config.Gap has passed, or with ErrErrand; any other
// error, of ctx or the store, leaves that open.
func (c *Crawler) Connect(ctx context.Context, r store.FetchRequest) (store.FetchReport, error) {
	if err := c.cfg.Scope.Allows(r.URL, 0); err != nil {
		return store.FetchReport{}, fmt.Errorf("%w: %w", ErrErrand, err)
	}
	if c.cfg.Quota.Wait(time.Now()) > 0 {
		return store.FetchReport{}, fmt.Errorf("%w: no more requests for now", ErrBusy)
	}
	if !c.lately.pass(r.Addr.Unmap(), time.Now(), c.cfg.Gap) {
		return store.FetchReport{}, fmt.Errorf("%w: connected a moment ago", ErrBusy)
	}
	select {
	case c.lately.places <- struct{}{}:
		defer func() { <-c.lately.places }()
	default:
		return store.FetchReport{}, ErrBusy
	}
	timed, cancel := context.WithTimeout(ctx, c.cfg.ErrandTimeout)
	defer cancel()
	rep, err := c.connect(timed, r)
	if err == nil && rep.Outcome == store.OutcomeNone {
		err = fmt.Errorf("crawl: connection cut off: %w", context.Canceled)
	}
	return rep, err
}

const (
	// latelyHeld is of how many addresses is known when they were connected to.
	latelyHeld = 4096
	// connectsAtOnce is how many connections for others may be under way: they
	// hold no page in memory.
	connectsAtOnce = 64
)

// lately holds back a second connection to an address within a gap, whoever
// asks for it. Its methods may be called at once.
type lately struct {
	places chan struct{}

	mu   sync.Mutex
	when *lru.Cache[netip.Addr, time.Time]
}

func newLately() *lately {
	when, err := lru.New[netip.Addr, time.Time](latelyHeld)
	if err != nil {
		panic(err) // only for a size <= 0
	}
	return &lately{places: make(chan struct{}, connectsAtOnce), when: when}
}

// pass says whether a may be connected to now, and notes it.
func (l *lately) pass(a netip.Addr, now time.Time, gap time.Duration) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if last, ok := l.when.Get(a); ok && now.Sub(last) < gap {
		return false
	}
	l.when.Add(a, now)
	return true
}
