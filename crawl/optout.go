package crawl

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"peerd/crawl/deny"
	"peerd/crawl/frontier"
	"peerd/store"
)

// optOuts returns what web sites have asked for; nil: nothing is known.
func (c *Crawler) optOuts() *deny.OptOuts { return c.cfg.Fetcher.OptOuts() }

// checkOptOut reports whether the site of a job has not opted out. If a peer says that it has,
// the next request to its host is for the file that says so. If checkOptOut returns false, the job
// has been returned to the frontier: the URL stays queued, or was dropped. Errors are those of the
// store.
func (c *Crawler) checkOptOut(ctx context.Context, job frontier.Job) (ok bool, err error) {
	u, now := job.Entry.URL, time.Now()
	if until := c.optOuts().Stopped(job.Addr, now); !until.IsZero() {
		c.cfg.Frontier.SetRetryAt(job.Host, until)
		c.cfg.Frontier.Return(job, false)
		return false, nil
	}
	if file := c.optOuts().Due(u, now); file != "" {
		return false, c.readForJob(ctx, job, file)
	}
	denied := c.optOuts().Check(store.URL(u.Origin()+"/"), job.Addr)
	if denied == nil {
		return true, nil
	}
	err = c.drop(job, store.FetchReport{Outcome: store.OutcomeDenied,
		Error: store.ErrorText(denied)})
	c.cfg.Frontier.Return(job, err == nil)
	return false, err
}

// readForJob reads the file of an opt-out instead of fetching the URL of a job, which stays queued.
func (c *Crawler) readForJob(ctx context.Context, job frontier.Job, file store.URL) error {
	ticket, ok, err := c.acquire(ctx)
	if !ok {
		c.cfg.Frontier.Return(job, false)
		return err
	}
	f := robotsFetcher{c: c, job: job, ticket: ticket, hasTicket: true}
	_, err = c.readOptOut(ctx, &f, file)
	if f.redirected.IsValid() {
		return c.redirectJob(job, f.redirected)
	}
	rules, _ := c.robots.Peek(job.Entry.URL.Origin())
	return errors.Join(err, c.releaseCharged(job, f.requests, rules.delay, f.retryAfter))
}

// readOptOut requests the file of an opt-out, and reports whether its site has opted out.
func (c *Crawler) readOptOut(
	ctx context.Context, f *robotsFetcher, file store.URL,
) (out bool, err error) {
	got, failure := f.Fetch(ctx, file, deny.MaxOptOut)
	switch {
	case f.redirected.IsValid() || f.refused != nil || ctx.Err() != nil:
		return false, nil //nolint:nilerr // it was not requested, or not to its end
	case got.Status != http.StatusOK:
		got.Body = nil
	}
	absent := got.Status >= 300 && got.Status < 500 && got.Status != http.StatusTooManyRequests
	reached := failure == nil && (absent || got.Status == http.StatusOK)
	out, changed, err := c.optOuts().Read(file.Origin(), got.Body, reached, time.Now())
	if changed {
		c.log.Info("read opt-out of web site", "url", file, "obeyed", out)
	}
	return out, err
}

// ReadOptOut reads the file of the opt-out of an origin now, and reports whether the site has opted
// out. The request obeys the clocks of the site's host, and looks it up. If no request was sent,
// the error wraps ErrBusy or ErrInvalidRequest.
func (c *Crawler) ReadOptOut(ctx context.Context, origin string) (out bool, err error) {
	site := store.URL(origin + "/")
	if err := c.cfg.Scope.Allows(site, 0); err != nil {
		return false, fmt.Errorf("%w: %w", ErrInvalidRequest, err)
	}
	if c.optOuts() == nil {
		return false, fmt.Errorf("%w: this peer knows no opt-outs", ErrBusy)
	}
	ctx, cancel := context.WithTimeout(ctx, c.cfg.RemoteTimeout)
	defer cancel()
	at, err := c.cfg.Delegate.Resolve(ctx, site.Host())
	if err != nil {
		return false, fmt.Errorf("%w: look up %s: %w", ErrInvalidRequest, site.Host(), err)
	}
	return c.readForPeer(ctx, store.FetchRequest{URL: site, Addr: at[0]},
		store.URL(origin+deny.OptOutPath))
}

// readForPeer reads the file of an opt-out because another peer or a visitor has asked
// for it, or for a URL.
func (c *Crawler) readForPeer(
	ctx context.Context, r store.FetchRequest, file store.URL,
) (out bool, err error) {
	f := c.fetcherForPeer(r)
	out, err = c.readOptOut(ctx, f, file)
	switch {
	case err != nil:
		return false, err
	case f.refused != nil:
		return false, f.refusal(f.refused)
	case ctx.Err() != nil:
		return false, ctx.Err()
	case f.report.Outcome == store.OutcomeDenied || f.report.Outcome == store.OutcomeRefused:
		return false, fmt.Errorf("%w: %s", ErrInvalidRequest, f.report.Error)
	case !f.report.Outcome.Answered():
		return out, fmt.Errorf("crawl: read %s: %s", file, f.report.Error)
	}
	return out, nil
}

// checkForPeer returns nil if another peer's request for a URL may be sent. If a peer says that
// the site has opted out, its file is read first. If it has, the Fetcher does not send the request.
func (c *Crawler) checkForPeer(ctx context.Context, r store.FetchRequest) error {
	if until := c.optOuts().Stopped(r.Addr, time.Now()); !until.IsZero() {
		return fmt.Errorf("%w until %v: %w", ErrBusy, until, deny.ErrStopped)
	}
	file := c.optOuts().Due(r.URL, time.Now())
	if file == "" {
		return nil
	}
	_, err := c.readForPeer(ctx, r, file)
	if errors.Is(err, ErrBusy) || errors.Is(err, ErrInvalidRequest) || ctx.Err() != nil {
		return err
	}
	return nil // what cannot be read is not obeyed
}
