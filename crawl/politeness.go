package crawl

import (
	"context"
	"errors"
	"net/http"
	"net/netip"
	"time"

	"peerd/crawl/frontier"
	"peerd/crawl/pace"
	"peerd/crawl/quota"
	"peerd/internal/backoff"
	"peerd/store"
)

// day is a day in UTC, as in store.DayOf.
const day = 24 * time.Hour

// minStoredWait is the shortest wait of a host that is stored to survive a restart.
const minStoredWait = 10 * time.Second

// charge counts n requests to one of our hosts, whatever their result, and stores long
// waits. It returns how long to leave the host alone: wait, or longer if its daily limit is
// reached. A host that is no longer ours is not charged.
func (c *Crawler) charge(
	tx *store.Tx, host string, n int64, wait time.Duration,
) (time.Duration, error) {
	if c.cfg.MaxRequestsPerHostDay == 0 && wait < minStoredWait {
		return wait, nil
	}
	h, err := tx.Host(host)
	if errors.Is(err, store.ErrNotFound) {
		return wait, nil
	}
	if err != nil {
		return wait, err
	}
	now := time.Now()
	if c.cfg.MaxRequestsPerHostDay > 0 {
		today := store.DayOf(now)
		if h.Day != today {
			h.Day, h.DayCount = today, 0
		}
		if h.DayCount += n; h.DayCount >= c.cfg.MaxRequestsPerHostDay {
			wait = max(wait, now.Truncate(day).Add(day).Sub(now))
		}
	}
	if at := now.Add(wait); wait >= minStoredWait && at.After(h.NextAt) {
		h.NextAt = at
	}
	return wait, nil
}

// chargeSeparately is charge in its own transaction, if one is needed.
func (c *Crawler) chargeSeparately(
	host string, n int64, wait time.Duration,
) (longer time.Duration, err error) {
	if c.cfg.MaxRequestsPerHostDay == 0 && wait < minStoredWait {
		return wait, nil
	}
	err = c.cfg.DB.Batch(func(tx *store.Tx) (err error) {
		longer, err = c.charge(tx, host, n, wait)
		return err
	})
	return c.hostWait(max(longer, wait), err), err
}

// maxAddrRest is for how long an address is left alone because of the Crawl-delay of a host there.
// A host that does not answer takes as much of its time.
const maxAddrRest = time.Minute

// release ends a job for which a request was sent, as Frontier.Release. A gap that is longer than
// any pause of a server is the Crawl-delay of the host, which need not hold up all others at its
// address.
func (c *Crawler) release(job frontier.Job, done bool, gap, hostWait time.Duration) {
	c.cfg.Frontier.Release(job, done, min(gap, c.addrRest), max(gap, hostWait))
}

// releaseCharged charges a host for n requests, and ends a job; its entry stays queued. The host
// waits for wait if that is longer than gap. The error comes from the store.
func (c *Crawler) releaseCharged(job frontier.Job, n int64, gap, wait time.Duration) error {
	wait, err := c.chargeSeparately(job.Host, n, max(gap, wait))
	c.release(job, false, gap, wait)
	return err
}

// askedWait returns how long a host is left alone because an answer that is final for its URL asks
// for it: some sites limit requests with 403 and Retry-After. In a page the field means nothing.
func (c *Crawler) askedWait(rep store.FetchReport) time.Duration {
	if rep.Status < http.StatusMultipleChoices || rep.Status == http.StatusNotModified {
		return 0
	}
	return min(rep.RetryAfter, c.cfg.MaxThrottle)
}

// quotaWait is how long a worker sleeps after another worker used up the last request that
// the quota allowed.
const quotaWait = 10 * time.Millisecond

// acquire returns a ticket for a request that is sent now. If ok is false, no request may
// be sent and acquire has slept for quotaWait; the caller must return its job. The error
// comes from the store.
func (c *Crawler) acquire(ctx context.Context) (t quota.Ticket, ok bool, err error) {
	if t, ok, err = c.cfg.Quota.Acquire(time.Now()); ok || err != nil {
		return t, ok, err
	}
	_ = backoff.Sleep(ctx, quotaWait)
	return t, false, nil
}

// observePace records how long an answer to this peer took, and returns how long to leave the
// server alone, and how that compares with its other answers.
func (c *Crawler) observePace(
	addr netip.Addr, rep store.FetchReport,
) (time.Duration, pace.Trend) {
	if c.cfg.Pace == nil || !rep.Outcome.Answered() {
		return 0, pace.Usual
	}
	return c.cfg.Pace.Observe(addr, rep.Timing.Total(), rep.Timing.FirstByte,
		c.cfg.Frontier.Slots(addr))
}

// loadOf returns what the report of a request shows of the load of the server. Certificates, names
// and the deny list of a peer say nothing about it.
func loadOf(rep store.FetchReport, trend pace.Trend) frontier.Load {
	switch rep.Outcome {
	case store.OutcomeTLS, store.OutcomeDNS, store.OutcomeDenied:
		return frontier.LoadUnknown
	}
	switch {
	case findingOf(rep).failed() || trend == pace.Overloaded:
		return frontier.LoadStrained
	case trend == pace.Usual && (isPage(rep.Outcome) || rep.Outcome == store.OutcomeNotModified):
		return frontier.LoadSteady
	}
	return frontier.LoadUnknown
}
