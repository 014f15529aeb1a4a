package crawl

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"peerd/crawl/frontier"
	"peerd/crawl/robots"
	"peerd/store"
)

// What other peers request is subject to the same politeness as what this peer requests for
// itself, whatever they say: to the clocks of the frontier, to the addresses that this peer finds
// for the host, and to the robots.txt that it has read itself.

// reserve takes the clocks for a request to a host at the address that another peer or another site
// named; beside is the job that needs it, if any (frontier.Frontier.Reserve). Errors of the
// clocks and of the look-up wrap ErrBusy, or ErrInvalidRequest if this peer does not find the
// address; the others are those of ctx.
func (c *Crawler) reserve(
	ctx context.Context, beside frontier.Job, host string, addr netip.Addr,
) (*frontier.Reservation, error) {
	until := time.Now().Add(c.cfg.RemoteTimeout / 2)
	timed, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	found, err := c.cfg.Delegate.Resolve(timed, host)
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil:
		return nil, fmt.Errorf("%w: look up %s: %w", ErrBusy, host, err)
	case !slices.ContainsFunc(found, func(a netip.Addr) bool { return a.Unmap() == addr.Unmap() }):
		return nil, fmt.Errorf("%w: %s is not an address of %s here", ErrInvalidRequest, addr, host)
	}
	clocks, err := c.cfg.Frontier.Reserve(ctx, beside, host, addr, until)
	if errors.Is(err, frontier.ErrNotYet) {
		err = fmt.Errorf("%w: %w", ErrBusy, err)
	}
	return clocks, err
}

// releaseClocks ends a reservation of a request that was sent. delay is that of the robots.txt.
func (c *Crawler) releaseClocks(
	r *frontier.Reservation, addr netip.Addr, delay time.Duration, rep store.FetchReport,
) {
	wait := rep.RetryAfter
	pause, trend := c.observePace(addr, rep)
	if loadOf(rep, trend) == frontier.LoadStrained {
		c.cfg.Frontier.Strained(addr)
	}
	if findingOf(rep).failed() {
		wait = max(wait, c.cfg.BackOff)
	}
	r.Release(min(max(delay, pause), c.addrRest), max(delay, wait))
}

// fetchReserved fetches a URL for another peer if its robots.txt allows that, which is requested
// first if this peer does not know it. If no request was sent, the error wraps ErrBusy or
// ErrInvalidRequest.
func (c *Crawler) fetchReserved(
	ctx context.Context, r store.FetchRequest, waits func() bool,
) (fetched, error) {
	if err := c.checkForPeer(ctx, r); err != nil {
		return fetched{}, err
	}
	rules, f, err := c.robotsForPeer(ctx, r)
	if err != nil {
		return fetched{}, err
	}
	if rules.rules == nil {
		return fetched{report: f.unreachable()}, nil
	}
	if !rules.rules.Allowed(c.cfg.Agent, r.URL) {
		return fetched{report: store.FetchReport{Outcome: store.OutcomeRobotsDenied}}, nil
	}
	if r.File {
		return c.readFile(r)
	}
	clocks, err := c.reserve(ctx, frontier.Job{}, r.URL.Host(), r.Addr)
	if err != nil {
		return fetched{}, f.refusal(err)
	}
	if waits != nil && !waits() {
		clocks.Cancel()
		return fetched{}, errNotWaiting
	}
	if err := f.takeTicket(); err != nil {
		clocks.Cancel()
		return fetched{}, f.refusal(err)
	}
	got := c.fetch(ctx, r, true)
	f.ticket.Done(got.report.Bytes)
	c.releaseClocks(clocks, r.Addr, rules.delay, got.report)
	f.completeTiming(&got)
	return got, nil
}

// errNotWaiting is returned if the peer that asked for a URL does not wait any more when its turn
// has come: after a cut or a restart that peer or its successor fetches it.
var errNotWaiting = errors.New("crawl: the owner does not wait any more")

// errQuota is returned if the quota of this peer allows no request for another one.
var errQuota = fmt.Errorf("%w: request quota used up", ErrBusy)

// robotsForPeer returns the rules for a request of another peer. What is requested for that is
// kept in memory only, because the host is not ours.
func (c *Crawler) robotsForPeer(
	ctx context.Context, r store.FetchRequest,
) (rules originRules, f *robotsFetcher, err error) {
	host, origin := r.URL.Host(), r.URL.Origin()
	f = c.fetcherForPeer(r)
	got, ok := f.Valid(origin)
	if !ok {
		got, ok = c.elsewhere.valid(origin)
	}
	if !ok {
		got, _ = robots.Get(ctx, f, origin)
		switch {
		case f.refused != nil:
			return rules, f, f.refusal(f.refused)
		case ctx.Err() != nil && got.Unreachable && f.report.Outcome == store.OutcomeNone:
			return rules, f, ctx.Err()
		}
		c.elsewhere.add(append(f.sharing(got), origin), got)
	}
	if got.Unreachable {
		return rules, f, nil
	}
	rules = c.effectiveRules(got.Compile(), got.Expires)
	if f.requests > 0 {
		c.cfg.Frontier.DelayHost(host, time.Now().Add(rules.delay))
	}
	return rules, f, nil
}

// fetcherForPeer returns what fetches files of a site for a request that is not of our queues.
func (c *Crawler) fetcherForPeer(r store.FetchRequest) *robotsFetcher {
	return &robotsFetcher{c: c, remote: true, job: frontier.Job{Host: r.URL.Host(), Addr: r.Addr,
		Subnet: store.SubnetOf(r.Addr), Entry: store.Entry{URL: r.URL}}}
}

// refusal returns the error of a request that could not be sent. After a request for the
// robots.txt it does not say that nothing was sent.
func (f *robotsFetcher) refusal(err error) error {
	if f.requests == 0 {
		return err
	}
	return fmt.Errorf("crawl: after robots.txt: %v", err) //nolint:errorlint // see above
}

// completeTiming adds the times of the connection to a page for which the request for the
// robots.txt has just opened it: both are one sample of the server.
func (f *robotsFetcher) completeTiming(got *fetched) {
	if t := &got.report.Timing; f.opened != nil && t.Reused {
		t.DNS, t.Connect, t.TLS, t.Reused = f.opened.DNS, f.opened.Connect, f.opened.TLS, false
		got.page.Timing = *t
	}
}
