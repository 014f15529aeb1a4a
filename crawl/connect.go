package crawl

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"peerd/crawl/frontier"
	"peerd/store"
)

// measure opens a connection to a job's server, from this peer or through another one, and
// returns the job. For politeness this counts as a request: it moves the clocks and counts
// towards the host's daily limit.
func (c *Crawler) measure(
	ctx context.Context, job frontier.Job, peer string, gap time.Duration,
) error {
	req := store.FetchRequest{URL: job.Entry.URL, Addr: job.Addr}
	var rep store.FetchReport
	var err error
	if peer == "" {
		rep, err = c.connect(ctx, req)
	} else {
		rep, err = c.cfg.Delegate.RequestConnect(ctx, job.Subnet, peer, req)
	}
	if ctx.Err() != nil {
		c.release(job, false, gap, 0)
		return nil //nolint:nilerr // canceled: the error says nothing about the server
	}
	c.cfg.Delegate.Observe(job.Subnet, peer, rep, err)
	switch {
	case errors.Is(err, ErrNotSent):
		c.cfg.Frontier.Return(job, false)
		return nil
	case err != nil && peer == "":
		c.release(job, false, gap, 0)
		return err
	case err != nil: // the other peer may still be connecting
		c.log.Info("lost peer that was asked to connect",
			"peer", peer, "url", job.Entry.URL, "err", err)
		gap = max(gap, c.cfg.RemoteTimeout)
	}
	return c.releaseCharged(job, 1, gap, 0)
}

// connect opens a connection from this peer. The error comes from the store.
func (c *Crawler) connect(ctx context.Context, r store.FetchRequest) (store.FetchReport, error) {
	o, took, err := c.cfg.Fetcher.Connect(ctx, r.URL, r.Addr)
	if err != nil {
		c.log.Debug("failed to connect", "url", r.URL, "addr", r.Addr, "err", err)
	}
	err = c.cfg.DB.Batch(func(tx *store.Tx) error {
		tx.Count(store.Counters{Connects: 1})
		return nil
	})
	return store.FetchReport{Outcome: o, Timing: store.Timing{Connect: took}}, err
}

// reachWait bounds the wait for the clocks of an address, and then that for its answer.
const reachWait = time.Second

// Reach returns the first of addrs at which the server of u accepts a connection, tried one after
// the other. An address that has answered within the time recent is not connected to again. Each
// connection takes the clocks of its address, because for politeness it counts as a request. Reach
// returns false if no address answers, or if the clocks do not allow a connection soon: an address
// in use is not taken for a silent one.
func (c *Crawler) Reach(
	ctx context.Context, u store.URL, addrs []netip.Addr, recent time.Duration,
) (netip.Addr, bool) {
	for _, a := range c.cfg.Fetcher.Rank(u, addrs) {
		switch ok, err := c.answers(ctx, u, a, recent); {
		case ok:
			return a, true
		case err != nil:
			c.log.Debug("did not connect to address", "url", u, "addr", a, "err", err)
			return netip.Addr{}, false
		}
	}
	return netip.Addr{}, false
}

// answers reports whether an address accepts a connection. The error is that of the clocks or of
// the store.
func (c *Crawler) answers(
	ctx context.Context, u store.URL, a netip.Addr, recent time.Duration,
) (bool, error) {
	if c.cfg.Fetcher.Answered(u, a, recent) {
		return true, nil
	}
	clocks, err := c.cfg.Frontier.ReserveAddr(ctx, a, time.Now().Add(reachWait))
	known := c.cfg.Fetcher.Answered(u, a, recent) // by now, because of another host
	switch {
	case err != nil && known:
		return true, nil
	case err != nil:
		return false, err
	case known:
		clocks.Cancel()
		return true, nil
	}
	defer clocks.Release(0, 0)
	timed, cancel := context.WithTimeout(ctx, reachWait)
	defer cancel()
	rep, err := c.connect(timed, store.FetchRequest{URL: u, Addr: a})
	return rep.Outcome == store.OutcomeOK, err
}

// Connect opens a connection to the URL's server for another owner and closes it, as soon as the
// clocks allow, as RemoteFetch. Nothing was sent if the error wraps ErrInvalidRequest or ErrBusy.
// After any other error, of ctx or the store, a connection may have been opened.
func (c *Crawler) Connect(ctx context.Context, r store.FetchRequest) (store.FetchReport, error) {
	if err := c.cfg.Scope.Allows(r.URL, 0); err != nil {
		return store.FetchReport{}, fmt.Errorf("%w: %w", ErrInvalidRequest, err)
	}
	if c.cfg.Quota.Wait(time.Now()) > 0 {
		return store.FetchReport{}, errQuota
	}
	select {
	case c.connects <- struct{}{}:
		defer func() { <-c.connects }()
	default:
		return store.FetchReport{}, ErrBusy
	}
	clocks, err := c.reserve(ctx, frontier.Job{}, r.URL.Host(), r.Addr)
	if err != nil {
		return store.FetchReport{}, err
	}
	defer clocks.Release(0, 0)
	timed, cancel := context.WithTimeout(ctx, c.cfg.RemoteTimeout)
	defer cancel()
	rep, err := c.connect(timed, r)
	if err == nil && rep.Outcome == store.OutcomeNone {
		err = fmt.Errorf("crawl: connect canceled: %w", context.Canceled)
	}
	return rep, err
}

// maxConcurrentConnects is the maximum number of concurrent connections for other peers. They
// hold no page in memory.
const maxConcurrentConnects = 64
