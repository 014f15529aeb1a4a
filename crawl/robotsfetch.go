package crawl

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"time"

	"peerd/crawl/fetch"
	"peerd/crawl/frontier"
	"peerd/crawl/pace"
	"peerd/crawl/quota"
	"peerd/crawl/resolve"
	"peerd/crawl/robots"
	"peerd/internal/backoff"
	"peerd/store"
)

// robotsFetcher fetches one robots.txt and its redirects, with the gap in between: from the address
// of the job, or from that of the host to which it is redirected (RFC 9309, section 2.3.1.2,
// requires that redirects are followed across authorities). Another peer may own that host; it
// costs the host about one request in the lifetime of its file (robotsElsewhere).
type robotsFetcher struct {
	c      *Crawler
	job    frontier.Job
	remote bool // for another peer: the job holds no clock, and only its address is dialled

	ticket     quota.Ticket // of the next request, if it has one
	hasTicket  bool
	requests   int64      // sent so far
	elsewhere  []string   // origins of other hosts from which files were requested
	redirected netip.Addr // another address of the job's host that answered
	status     int        // of the last response
	retryAfter time.Duration
	report     store.FetchReport // of the last request
	refused    error             // why the last request could not be sent
	opened     *store.Timing     // of the request that opened a connection to the job's origin
}

// unreachable returns the report of URLs that cannot be fetched because the file is unreachable.
func (f *robotsFetcher) unreachable() store.FetchReport {
	rep := f.report
	switch {
	case rep.Outcome == store.OutcomeTLS, rep.Outcome == store.OutcomeDenied:
	case rep.Status != 0:
		rep.Outcome = store.OutcomeRobotsUnreachable
		rep.Error = fmt.Sprintf("status %d", rep.Status)
	default:
		rep.Outcome = store.OutcomeRobotsUnreachable
	}
	rep.Error = store.CutErrorText("robots.txt: " + rep.Error)
	return rep
}

// sharing returns the origins of other hosts for which a result holds as well: their files redirect
// to the same one. After too many redirects there are none, because from there they are fewer.
func (f *robotsFetcher) sharing(got robots.Result) []string {
	if got.Status >= 300 && got.Status <= 399 {
		return nil
	}
	return f.elsewhere
}

// throttled reports whether the last response asked to send the request later.
func (f *robotsFetcher) throttled() bool {
	return f.status == http.StatusTooManyRequests || f.retryAfter > 0
}

// absent is the response for a robots.txt that cannot exist.
var absent = robots.Response{Status: http.StatusNotFound}

// Fetch sends one request.
func (f *robotsFetcher) Fetch(
	ctx context.Context, u store.URL, maxBody int64,
) (robots.Response, error) {
	host, c := u.Host(), f.c
	q := fetch.Request{
		URL: u, Addr: f.job.Addr, MaxBody: maxBody, KeepRaw: c.cfg.Archive != nil,
		Timeout: c.cfg.FetchTimeout,
	}
	switch {
	case host != f.job.Host:
		all, err := c.cfg.Delegate.Resolve(ctx, host)
		if ctx.Err() != nil || errors.Is(err, resolve.ErrTemporary) ||
			errors.Is(err, resolve.ErrBusy) { // it says nothing about the file
			f.report = store.FetchReport{Outcome: store.OutcomeDNS, Error: store.ErrorText(err)}
			return robots.Response{}, err
		}
		if err != nil {
			return absent, nil //nolint:nilerr // there is no such host, so no file
		}
		q.Addr, q.More = all[0], func(context.Context) []netip.Addr { return all[1:] }
		if isRobots(u) {
			f.elsewhere = append(f.elsewhere, u.Origin())
		}
	case !f.remote:
		q.More = c.otherAddrs(host, f.job.Subnet)
	}
	got, other, err := f.exchange(ctx, q)
	switch {
	case !other.IsValid():
		return got, err
	case host == f.job.Host:
		f.redirected = other
		f.ticket.Done(0)
		return robots.Response{}, err
	}
	q.Addr, q.More = other, nil
	got, _, err = f.exchange(ctx, q)
	return got, err
}

// exchange sends a request as soon as the clocks allow. If other is valid, it was not sent, because
// only that address of the host has answered.
func (f *robotsFetcher) exchange(
	ctx context.Context, q fetch.Request,
) (got robots.Response, other netip.Addr, err error) {
	end, err := f.await(ctx, q.URL.Host(), q.Addr)
	if err != nil {
		return got, other, err
	}
	got, other, err = f.send(ctx, q)
	if !other.IsValid() {
		f.requests++
		f.hasTicket = false
	}
	end(!other.IsValid())
	return got, other, err
}

// await waits until a request may be sent to a host at an address, and takes a ticket for it. The
// clocks of the job's host are held by the job, unless another peer has requested it; those of any
// other host are reserved. end must be called when the request has ended.
func (f *robotsFetcher) await(
	ctx context.Context, host string, addr netip.Addr,
) (end func(sent bool), err error) {
	c := f.c
	if own := host == f.job.Host; !f.remote && (own || f.job.Subnet.Contains(addr)) {
		if f.requests > 0 {
			if err := backoff.Sleep(ctx, c.cfg.Gap); err != nil {
				return nil, err
			}
		}
		if own {
			return func(bool) {}, f.takeTicket()
		}
	}
	clocks, err := c.reserve(ctx, f.job, host, addr)
	if err != nil {
		f.refused = err
		f.report = store.FetchReport{Outcome: store.OutcomeRobotsUnreachable,
			Error: store.ErrorText(err)}
		return nil, err
	}
	if err := f.takeTicket(); err != nil {
		f.refused = err
		clocks.Cancel()
		return nil, err
	}
	return func(sent bool) {
		if sent {
			c.releaseClocks(clocks, addr, 0, f.report)
		} else { // another address was connected to
			clocks.Release(0, 0)
		}
	}, nil
}

// takeTicket takes a ticket for the next request, unless there is one. Only that of the first
// request may be refused.
func (f *robotsFetcher) takeTicket() (err error) {
	ok := true
	switch now := time.Now(); {
	case f.hasTicket:
	case f.requests == 0:
		f.ticket, ok, err = f.c.cfg.Quota.Acquire(now)
	default:
		f.ticket, err = f.c.cfg.Quota.Borrow(now)
	}
	f.hasTicket = err == nil && ok
	switch {
	case err != nil:
		return fmt.Errorf("%w: %w", ErrBusy, err)
	case !ok:
		return errQuota
	}
	return nil
}

// send sends a request and reads the response. If other is valid, it was not sent.
func (f *robotsFetcher) send(
	ctx context.Context, q fetch.Request,
) (got robots.Response, other netip.Addr, err error) {
	u, addr := q.URL, q.Addr
	res := f.c.cfg.Fetcher.Do(ctx, q)
	defer res.Release()
	f.c.noteHSTS(u, &res)
	if errors.Is(res.Err, fetch.ErrOtherAddr) {
		return got, res.Addr, res.Err
	}
	f.ticket.Done(res.Bytes)
	page := store.Page{URL: u, Outcome: res.Outcome, Timing: res.Timing}
	if err := f.c.archive(&fetched{page: page}, &res); err != nil {
		f.c.log.Warn("failed to archive robots.txt", "url", u, "err", err)
	}
	f.observe(&res, ctx.Err() == nil && addr == f.job.Addr && !f.remote)
	if t := res.Timing; u.Origin() == f.job.Entry.URL.Origin() && addr == f.job.Addr && !t.Reused {
		f.opened = &t
	}
	if res.Outcome == store.OutcomeRefused &&
		(addr != f.job.Addr || errors.Is(res.Err, fetch.ErrForbiddenPort)) {
		return absent, other, nil // the address or port may not be dialled, so no file
	}
	if !res.Outcome.Answered() {
		if res.Err == nil {
			res.Err = errors.New(res.Outcome.String())
		}
		f.c.log.Debug("failed to fetch robots.txt",
			"url", u, "outcome", res.Outcome.String(), "err", res.Err)
		return got, other, res.Err
	}
	return robots.Response{Status: res.Status, Location: res.Location, Header: res.Header,
		Body: bytes.Clone(res.Body)}, other, nil
}

// observe records the result of a request, and reports it if it concerns the job's host.
func (f *robotsFetcher) observe(res *fetch.Result, host bool) {
	f.status, f.retryAfter = res.Status, res.RetryAfter
	f.report = store.FetchReport{
		Outcome: res.Outcome, Status: res.Status, Bytes: res.Bytes, Timing: res.Timing,
		RetryAfter: res.RetryAfter, Error: store.ErrorText(res.Err), File: true,
	}
	if !host {
		return
	}
	if loadOf(f.report, pace.Usual) == frontier.LoadStrained {
		f.c.cfg.Frontier.Strained(f.job.Addr)
	}
	if found := findingOf(f.report); found.failed() && found != foundThrottled {
		// It may have moved before its first page.
		f.c.cfg.Delegate.Unresponsive(f.job.Host, f.report.Outcome)
	}
	f.c.reportNetwork(f.job.Addr, f.report, res.Err)
	f.c.cfg.Delegate.Observe(f.job.Subnet, "", f.report, nil)
}

// Valid returns the result of another origin if no request for it is due. What the store has of a
// host that is not ours is part of a copy, and its owner may have made it up.
func (f *robotsFetcher) Valid(origin string) (robots.Result, bool) {
	if host := store.URL(origin).Host(); f.c.cfg.Frontier.Owns(host) {
		known, err := f.c.loadRobots(origin)
		ok := err == nil && known.UnreachableSince.IsZero() && time.Now().Before(validUntil(known))
		if ok || host == f.job.Host {
			return known, ok
		}
	}
	return f.c.elsewhere.valid(origin)
}

// robotsElsewhere has the robots.txt of other hosts, by origin: of those to which the files of our
// hosts redirect, and of those from which this peer fetches for other peers. Many hosts may
// redirect to one, and many pages be ordered of one, which then gets a request in each lifetime of
// its file. It is only in memory: the subnets of those hosts may belong to other peers.
type robotsElsewhere struct{ originCache[robots.Result] }

const (
	robotsElsewhereCached = 4096
	robotsElsewhereBytes  = 4 << 20 // of all files
)

func newRobotsElsewhere() robotsElsewhere {
	return robotsElsewhere{newOriginCache(robotsElsewhereCached, robotsElsewhereBytes,
		func(r robots.Result) int64 { return int64(len(r.Body)) })}
}

// add adds the result for some origins, which may be the same by redirects.
func (c robotsElsewhere) add(origins []string, got robots.Result) {
	if got.Unreachable {
		return
	}
	for _, o := range origins {
		c.put(o, got)
	}
}

// valid returns the result for an origin that has not expired.
func (c robotsElsewhere) valid(origin string) (robots.Result, bool) {
	got, ok := c.Get(origin)
	return got, ok && time.Now().Before(got.Expires)
}

// isRobots reports whether u is the robots.txt of its origin.
func isRobots(u store.URL) bool { return string(u) == u.Origin()+"/robots.txt" }
