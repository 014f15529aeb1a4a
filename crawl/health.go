package crawl

import (
	"fmt"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"time"

	"peerd/internal/backoff"
	"peerd/store"
)

// Network tells a crawler whether this peer's network is up, and learns from it what answers.
// Its methods must be safe for concurrent use and must not block.
type Network interface {
	// Online reports whether the network is up, as far as is known.
	Online() bool
	// Answered reports an answer of a web server.
	Answered(addr netip.Addr)
	// Failed reports that a web server did not answer, or not completely.
	Failed(addr netip.Addr, err error)
}

// A finding is what a report shows of its host.
type finding int

const (
	foundNothing     finding = iota // no request was sent
	foundAnswer                     // a complete answer
	foundThrottled                  // a complete answer that the site is not available now
	foundBroken                     // the head of an answer, but not all of its body
	foundUnreachable                // no answer
)

// findingOf returns what a report shows of its host. The statuses 502 and 504 mean the same as
// 503: the server that makes the pages does not answer the one in front of it.
func findingOf(rep store.FetchReport) finding {
	switch rep.Outcome {
	case store.OutcomeNone, store.OutcomeRefused, store.OutcomeRobotsDenied:
		return foundNothing
	case store.OutcomeThrottled:
		return foundThrottled
	case store.OutcomeHTTPError:
		if rep.Status == http.StatusBadGateway || rep.Status == http.StatusGatewayTimeout {
			return foundThrottled
		}
	case store.OutcomeTimeout, store.OutcomeReset:
		if rep.Status != 0 {
			return foundBroken
		}
		return foundUnreachable
	case store.OutcomeRobotsUnreachable:
		if rep.Status != 0 {
			return foundThrottled
		}
		return foundUnreachable
	case store.OutcomeConnect, store.OutcomeDNS, store.OutcomeTLS, store.OutcomeDenied:
		return foundUnreachable
	}
	return foundAnswer
}

// failed reports whether f means that a request must be sent again later.
func (f finding) failed() bool { return f >= foundThrottled }

// shortPatience divides Config.Patience for failures that rarely end within minutes: an invalid
// certificate, which is an answer, and an entry of the deny list.
const shortPatience = 60

// patience returns for how long a host may fail before it is given up, after failures with two
// outcomes.
func (c *Config) patience(before, now store.Outcome) time.Duration {
	if before == now && (now == store.OutcomeTLS || now == store.OutcomeDenied) {
		return c.Patience / shortPatience
	}
	return c.Patience
}

// nextHealth returns the state of a host after a request that began and ended then. A host that
// fails is asked again after a back-off that doubles, or when it said. After Config.Patience it is
// given up, and also if it asked to wait for longer than that. Time in which it could have been
// asked, but was not, does not count if it is long. A host that was given up and fails again is
// given up again at once; any answer makes it answer again. While a host waits as it asked to, a
// request that was already in progress may fail, which does not end that wait.
func (c *Config) nextHealth(
	h store.Health, rep store.FetchReport, began, now time.Time,
) store.Health {
	found := findingOf(rep)
	switch found {
	case foundNothing:
		return h
	case foundAnswer:
		return store.Health{}
	}
	switch idle := began.Sub(h.NextTry); {
	case h.Since.IsZero():
		h.Since = now
	case idle > c.Patience/2: // this peer was stopped, or had nothing to ask for
		h.Since = h.Since.Add(idle)
	}
	asked := time.Time{} // until when the host asked to wait
	if h.AsksToWait(now) {
		asked, found = h.NextTry, foundThrottled
	}
	h.Failures++
	patience := c.patience(h.Outcome, rep.Outcome)
	h.Outcome, h.Status, h.Error = rep.Outcome, rep.Status, rep.Error
	doublings, longest := h.Failures-1, c.MaxBackOff
	h.State = store.HostFailing
	if found == foundThrottled {
		h.State, longest = store.HostThrottled, c.MaxThrottle
	}
	wait := backOff(c.BackOff, longest, doublings)
	if found == foundBroken && h.Failures == 1 {
		wait = 0 // the URL comes again behind those that this peer has found
	}
	rest := h.Since.Add(patience).Sub(now)
	if rest <= 0 || rep.RetryAfter > rest {
		h.State, wait = store.HostGivenUp, longest
	} else {
		wait = c.within(rest, wait)
	}
	h.NextTry = now.Add(max(wait, rep.RetryAfter, asked.Sub(now)))
	return h
}

// within returns a wait that ends with the patience, of which rest is left: the last try comes
// then, at least Config.BackOff after the one before.
func (c *Config) within(rest, wait time.Duration) time.Duration {
	return min(wait, max(rest, c.BackOff))
}

// backOff returns first, doubled as often as n says, but at most longest, with jitter that does
// not make it shorter than first.
func backOff(first, longest time.Duration, n int) time.Duration {
	return backoff.Later(backoff.Double(first, max(longest/5*4, min(first, longest)), n))
}

// tried returns an entry after a failed try at a host with the state before it. The try counts
// against the URL if the host had answered the request before, because then the host was well.
// The first failure without any answer never counts: it may be the beginning of an outage.
func tried(e store.Entry, before store.HostState, found finding, now time.Time) store.Entry {
	if before == store.HostAnswering && (found != foundUnreachable || !e.First.IsZero()) {
		e.Tries = max(e.Tries, 0) + 1
	}
	if e.First.IsZero() {
		e.First = now
	}
	return e
}

// spent reports whether a URL must be given up although its host answers: after MaxTries, or after
// fewer if the patience has passed. Being throttled does not suffice before that.
func (c *Crawler) spent(e store.Entry, found finding, now time.Time) bool {
	late := now.Sub(c.since(e.First)) >= c.cfg.Patience
	if e.Tries < c.cfg.MaxTries {
		return late && e.Tries >= minSpreadTries
	}
	return late || found != foundThrottled
}

// since returns when a failure began that was first seen at t: not before the last outage of
// this peer's network.
func (c *Crawler) since(t time.Time) time.Time {
	if f := c.forgiven.Load(); f != nil && t.Before(*f) {
		return *f
	}
	return t
}

// minSpreadTries is the number of tries after which those of a URL are spread over time.
const minSpreadTries = 3

// maxTryDelay is the longest time between two tries that are spread.
const maxTryDelay = 24 * time.Hour

// tryDelay returns the time until a URL is tried again, or 0 if it only moves to the end of the
// queue.
func (c *Crawler) tryDelay(e store.Entry) time.Duration {
	if c.cfg.TryDelay == 0 || e.Tries < minSpreadTries {
		return 0
	}
	return backOff(c.cfg.TryDelay, maxTryDelay, e.Tries-minSpreadTries)
}

// forgiveBatch is the number of hosts per transaction of Forgive.
const forgiveBatch = 500

// Forgive forgets what failed since the given time because the network of this peer was down.
// The hosts that have failed only since then are asked again at once; for those that failed
// before, the outage does not count towards the patience. Requests in progress that fail count
// for nothing.
func (c *Crawler) Forgive(since time.Time) error {
	now := time.Now()
	c.forgiven.Store(&now)
	c.robots.forgive()
	var names []string
	err := c.cfg.DB.View(func(tx *store.Tx) error {
		return tx.Hosts(func(h store.Host) error {
			if h.Health.State != store.HostAnswering {
				names = append(names, h.Name)
			}
			return nil
		})
	})
	if err != nil {
		return err
	}
	for part := range slices.Chunk(names, forgiveBatch) {
		health := map[string]store.Health{}
		err := c.cfg.DB.Batch(func(tx *store.Tx) error {
			clear(health)
			for _, name := range part {
				if !c.cfg.Frontier.Owns(name) {
					continue
				}
				h, err := tx.Host(name)
				if err != nil {
					return err
				}
				h.Health = forgive(h.Health, since, now)
				health[name] = h.Health
			}
			return nil
		})
		if err != nil {
			return err
		}
		for name, h := range health {
			c.cfg.Frontier.SetRetryAt(name, h.NextTry)
		}
	}
	return nil
}

// forgive returns the state of a host without what it failed from since to now. What the host
// asked for still holds.
func forgive(h store.Health, since, now time.Time) store.Health {
	waits := h.AsksToWait(now)
	switch {
	case h.State == store.HostAnswering || h.State == store.HostGivenUp:
	case h.Since.Before(since):
		h.Since = h.Since.Add(now.Sub(since))
		if !waits {
			h.NextTry = now
		}
	case !waits:
		return store.Health{}
	}
	return h
}

// reportNetwork tells the Network about a request that this peer made.
func (c *Crawler) reportNetwork(addr netip.Addr, rep store.FetchReport, err error) {
	if c.cfg.Network == nil || rep.Outcome == store.OutcomeDenied {
		return
	}
	switch findingOf(rep) {
	case foundAnswer, foundThrottled:
		c.cfg.Network.Answered(addr)
	case foundBroken, foundUnreachable:
		if rep.Outcome == store.OutcomeTLS {
			c.cfg.Network.Answered(addr)
			return
		}
		if rep.Outcome == store.OutcomeTimeout && rep.Status == 0 { // err says how it was ended
			err = fmt.Errorf("%w: %s", os.ErrDeadlineExceeded, store.ErrorText(err))
		}
		c.cfg.Network.Failed(addr, err)
	}
}

// excused reports whether a failed request that began at a time counts for nothing, because the
// network of this peer was down.
func (c *Crawler) excused(began time.Time) bool {
	f := c.forgiven.Load()
	return c.cfg.Network != nil && !c.cfg.Network.Online() || f != nil && began.Before(*f)
}
