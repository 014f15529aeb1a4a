package crawl

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/fxamacker/cbor/v2"

	"peerd/crawl/frontier"
	"peerd/crawl/robots"
	"peerd/store"
)

// requeueFailed ends a job after a request that failed in a way that a later one may not. Its URL
// is tried again when the host may be asked: it moves behind the URLs that this peer has found, or
// is planned as a visit. It is given up if it was tried often enough; all URLs of the host are
// given up after Config.Patience. Only failures of this peer's own requests count against the URL.
func (c *Crawler) requeueFailed(
	job frontier.Job, rep store.FetchReport, began time.Time, gap time.Duration, own bool,
) error {
	if c.excused(began) {
		return c.releaseCharged(job, 1, gap, rep.RetryAfter)
	}
	if findingOf(rep) != foundThrottled {
		c.cfg.Delegate.Unresponsive(job.Host, rep.Outcome)
	}
	var health store.Health
	var wait time.Duration
	left := false // the entry has left the queue
	err := c.cfg.DB.Batch(func(tx *store.Tx) (err error) {
		left = false
		if wait, err = c.charge(tx, job.Host, 1, gap); err != nil {
			return err
		}
		var before store.HostState
		if health, before, err = c.updateHealth(tx, job.Host, rep, began); err != nil {
			return err
		}
		e, now := job.Entry, time.Now()
		if own {
			e = tried(e, before, findingOf(rep), now)
		}
		if health.State == store.HostGivenUp {
			return nil // the queue is emptied next
		}
		if before == store.HostAnswering && own && c.spent(e, findingOf(rep), now) {
			left = true
			return c.giveUp(tx, e, rep)
		}
		if delay := c.tryDelay(e); delay > 0 && before == store.HostAnswering && own {
			left = true
			return c.planTry(tx, e, rep, now.Add(delay))
		}
		return tx.Requeue(job.Host, e)
	})
	if err == nil && health.State == store.HostGivenUp {
		err = c.giveUpHost(job, health)
	}
	c.cfg.Frontier.SetRetryAt(job.Host, health.NextTry)
	c.release(job, left && err == nil, gap, c.hostWait(wait, err))
	return err
}

// updateHealth records what the report of a request shows of one of our hosts. It returns its
// health, and its state before. A host that is no longer ours counts as answering.
func (c *Crawler) updateHealth(
	tx *store.Tx, host string, rep store.FetchReport, began time.Time,
) (health store.Health, before store.HostState, err error) {
	h, err := tx.Host(host)
	if errors.Is(err, store.ErrNotFound) {
		return health, store.HostAnswering, nil
	}
	if err != nil {
		return health, store.HostAnswering, err
	}
	before = h.Health.State
	h.Health = c.cfg.nextHealth(h.Health, rep, began, time.Now())
	return h.Health, before, nil
}

// planTry moves an entry from the queue to the planned visits: to that at the time due, or if its
// page was fetched before, to the next one after a visit that has failed.
func (c *Crawler) planTry(
	tx *store.Tx, e store.Entry, rep store.FetchReport, due time.Time,
) error {
	if err := tx.Remove(e.URL.Host(), e); err != nil {
		return err
	}
	if e.Kind.Revisit() {
		return c.recordVisit(tx, e, rep)
	}
	err := tx.PutVisit(store.Visit{
		URL: e.URL, Depth: e.Depth, Due: due, Kind: e.Kind, Tries: e.Tries, First: e.First,
		Hops: e.Hops,
	})
	// As in planVisit: if the transaction fails, the next check finds nothing due.
	c.cfg.Frontier.SetDue(e.URL.Host(), due, true)
	return err
}

// giveUpHost gives up all queued URLs of a host that has failed for longer than
// Config.Patience. The job goes on. If it is interrupted, the next failure completes it.
func (c *Crawler) giveUpHost(job frontier.Job, h store.Health) error {
	rep := store.FetchReport{Outcome: h.Outcome, Status: h.Status, Error: h.Error}
	var last []byte
	var n int64
	for more := true; more; {
		var entries []store.Entry
		after := last
		err := c.cfg.DB.Batch(func(tx *store.Tx) error {
			entries = entries[:0]
			err := tx.Queue(job.Host, after, func(e store.Entry) (bool, error) {
				entries = append(entries, e)
				return len(entries) < maxPlans, nil
			})
			for _, e := range entries {
				if err == nil {
					err = c.giveUp(tx, e, rep)
				}
			}
			return err
		})
		if err != nil {
			return err
		}
		if more = len(entries) == maxPlans; len(entries) > 0 {
			last = entries[len(entries)-1].Key
			n += int64(len(entries))
			c.cfg.Frontier.Removed(job, int64(len(entries)))
		}
	}
	c.log.Warn("gave up host", "host", job.Host, "addr", job.Addr, "urls", n,
		"outcome", h.Outcome.String(), "err", h.Error, "since", h.Since)
	return nil
}

// drop gives a job's URL up without a request.
func (c *Crawler) drop(job frontier.Job, rep store.FetchReport) error {
	return c.cfg.DB.Batch(func(tx *store.Tx) error { return c.giveUp(tx, job.Entry, rep) })
}

// giveUp removes a URL from the queue, and records, counts and logs it. A page that was fetched
// before keeps its record and is visited again.
func (c *Crawler) giveUp(tx *store.Tx, e store.Entry, rep store.FetchReport) error {
	c.log.Debug("gave up url", "url", e.URL, "outcome", rep.Outcome.String(), "err", rep.Error)
	tx.CountGivenUp(rep.Outcome, 1)
	if err := tx.Remove(e.URL.Host(), e); err != nil {
		return err
	}
	if err := c.recordVisit(tx, e, rep); err != nil {
		return err
	}
	return c.recordFailure(tx, e, rep)
}

// recordFailure records that a URL was not fetched. A page that was fetched before keeps its
// record.
func (c *Crawler) recordFailure(tx *store.Tx, e store.Entry, rep store.FetchReport) error {
	now := time.Now()
	if !e.Kind.Revisit() {
		g := store.GivenUp{
			URL: e.URL, Outcome: rep.Outcome, Status: rep.Status, Error: rep.Error, At: now,
			First: e.First, Tries: e.Tries, Depth: e.Depth, Kind: e.Kind, Hops: e.Hops,
		}
		if g.First.IsZero() {
			g.First = now
		}
		if err := tx.GiveUp(g); err != nil {
			return err
		}
	}
	switch old, err := tx.Page(e.URL); {
	case err == nil && old.Outcome.Answered():
		return nil
	case err != nil && !errors.Is(err, store.ErrNotFound):
		return err
	}
	return tx.PutPage(store.Page{
		URL: e.URL, Outcome: rep.Outcome, Status: rep.Status, FetchedAt: now,
		Timing: rep.Timing, Depth: e.Depth, Error: rep.Error,
	})
}

// A Retried selects URLs that were given up. The zero value selects all.
type Retried struct {
	Host string    // all URLs of a host
	URL  store.URL // one URL
	// Outcomes selects URLs with one of these outcomes; nil selects all.
	Outcomes []store.Outcome
}

// selects reports whether r selects g.
func (r Retried) selects(g store.GivenUp) bool {
	return (r.URL == "" || g.URL == r.URL) &&
		(r.Outcomes == nil || slices.Contains(r.Outcomes, g.Outcome))
}

// Retry queues URLs again that were given up, as if they had not been tried: those of our hosts
// in their queues, all others as pending URLs. Their hosts have the whole patience again. It
// returns the number of URLs, also with an error, which comes from the store or ctx.
func (c *Crawler) Retry(ctx context.Context, what Retried) (n int, err error) {
	host := what.Host
	if what.URL != "" {
		host = what.URL.Host()
	}
	fresh := map[string]bool{} // hosts that were reset
	for after, more := []byte(nil), true; more && err == nil; {
		if err := ctx.Err(); err != nil {
			return n, err
		}
		byHost := map[string][]store.GivenUp{}
		read := 0
		err = c.cfg.DB.View(func(tx *store.Tx) error {
			return tx.EachGivenUp(host, after, func(g store.GivenUp) (bool, error) {
				read, after = read+1, g.Key
				if what.selects(g) {
					byHost[g.URL.Host()] = append(byHost[g.URL.Host()], g)
				}
				return read < maxPlans, nil
			})
		})
		more = read == maxPlans
		for host, part := range byHost {
			if err == nil && !fresh[host] {
				fresh[host] = true
				err = c.resetHost(host)
			}
			if err == nil {
				var queued int
				queued, err = c.retry(host, part)
				n += queued
			}
		}
	}
	return n, err
}

// retry queues URLs of one host again.
func (c *Crawler) retry(host string, all []store.GivenUp) (n int, err error) {
	if !c.cfg.Frontier.Owns(host) {
		var pending map[string]int
		err = c.cfg.DB.Batch(func(tx *store.Tx) error {
			n, pending = 0, map[string]int{}
			if _, err := tx.Host(host); !errors.Is(err, store.ErrNotFound) {
				return err // ours, and about to leave: its next owner has the records
			}
			for _, g := range all {
				switch ok, err := tx.DeleteGivenUp(g.URL); {
				case err != nil:
					return err
				case !ok: // by another call
					continue
				}
				n++
				tx.CountGivenUp(g.Outcome, -1)
				fresh, err := tx.AddPending(store.Pending{
					URL: g.URL, Depth: g.Depth, Found: time.Now(), Kind: g.Kind, Hops: g.Hops,
					From: host,
				})
				if err != nil {
					return err
				}
				if fresh {
					pending[host]++
				}
			}
			return nil
		})
		if err == nil && len(pending) > 0 {
			c.cfg.Delegate.PendingAdded(pending)
		}
		return n, err
	}
	err = c.cfg.Frontier.Update([]string{host}, func(tx *store.Tx, push frontier.Push) error {
		n = 0
		for _, g := range all {
			switch _, err := tx.GivenUp(g.URL); {
			case errors.Is(err, store.ErrNotFound):
				continue // by another call
			case err != nil:
				return err
			}
			e := store.Entry{URL: g.URL, Depth: g.Depth, Kind: g.Kind, Hops: g.Hops, First: g.First}
			if e.First.IsZero() {
				e.First = time.Now()
			}
			if _, err := push(host, e); err != nil {
				return err
			}
			n++
			tx.CountGivenUp(g.Outcome, -1)
		}
		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("crawl: retry URLs of %s: %w", host, err)
	}
	return n, nil
}

// resetHost forgets that one of our hosts has failed, and that its robots.txt was unreachable.
func (c *Crawler) resetHost(host string) error {
	var origins []string
	err := c.cfg.DB.Batch(func(tx *store.Tx) error {
		origins = origins[:0]
		h, err := tx.Host(host)
		if errors.Is(err, store.ErrNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		h.Health = store.Health{}
		err = tx.RobotsOf(host, func(origin string, raw []byte) error {
			var r robots.Result
			if cbor.Unmarshal(raw, &r) != nil || r.Unreachable {
				origins = append(origins, origin)
			}
			return nil
		})
		for _, o := range origins {
			if err == nil {
				err = tx.PutRobots(o, unknownRobots)
			}
		}
		return err
	})
	if err != nil {
		return err
	}
	for _, o := range origins {
		c.robots.Remove(o)
	}
	c.cfg.Frontier.SetRetryAt(host, time.Time{})
	return nil
}

// unknownRobots is the stored form of a robots.txt of which nothing is known.
var unknownRobots = func() []byte {
	b, err := cbor.Marshal(robots.Result{})
	if err != nil {
		panic(err)
	}
	return b
}()
