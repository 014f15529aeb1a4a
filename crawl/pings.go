package crawl

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"peerd/crawl/ping"
	"peerd/internal/backoff"
	"peerd/store"
)

const (
	// maxKeyReads is the number of key files that are read at the same time.
	maxKeyReads = 4
	// pingPrefix begins the keys of notices that wait in the store.
	pingPrefix = "ping "
	// countPinged counts pages that were visited because their site said that they have changed.
	countPinged = "pinged"
)

// checkPing returns a page of one of our hosts as one that has changed, if the notice p is known to
// be true. A notice of which the key has not been read is stored, and routed again afterwards.
func (c *Crawler) checkPing(
	tx *store.Tx, p store.Pending,
) (page store.Pending, believed bool, err error) {
	n, err := ping.Parse(p.URL)
	if err != nil || c.cfg.Revisit == nil {
		return p, false, nil //nolint:nilerr // no correct peer sends it
	}
	a, forgotten := c.pings.Ask(n, time.Now())
	for _, u := range forgotten {
		if err := tx.DeleteData(pingPrefix + string(u)); err != nil {
			return p, false, err
		}
	}
	key := pingPrefix + string(p.URL)
	if a == ping.Wait {
		return p, false, tx.PutData(key, nil)
	}
	if a == ping.Believed {
		tx.CountNamed(countPinged, 1)
		p.URL, p.Kind = n.Page, store.KindChanged
	}
	return p, a == ping.Believed, tx.DeleteData(key)
}

// CheckNotice returns an error for a notice that this peer does not want as the owner of the page's
// host: a ping is no reason to begin to crawl one. page is the URL of the page.
func (c *Crawler) CheckNotice(notice store.URL) (page store.URL, err error) {
	n, err := ping.Parse(notice)
	if err == nil && !c.cfg.Frontier.Owns(n.Page.Host()) {
		err = fmt.Errorf("crawl: no page of %s is crawled here", n.Page.Host())
	}
	return n.Page, err
}

// loadPings routes the notices that waited when the process ended.
func (c *Crawler) loadPings() error {
	var all []store.URL
	err := c.cfg.DB.EachData(pingPrefix, func(url string, _ []byte) error {
		all = append(all, store.URL(url))
		return nil
	})
	if err == nil {
		err = c.routeNotices(all)
	}
	return err
}

// routeNotices routes notices again that waited. Those of hosts that have left are pending then.
func (c *Crawler) routeNotices(notices []store.URL) error {
	var left []store.URL
	found := make([]store.Pending, len(notices))
	for i, u := range notices {
		found[i] = store.Pending{URL: u, Found: time.Now(), Kind: store.KindPinged}
		if !c.cfg.Frontier.Owns(u.Host()) {
			left = append(left, u)
		}
	}
	return errors.Join(c.Route(found), c.forgetNotices(left))
}

// forgetNotices deletes notices from the store.
func (c *Crawler) forgetNotices(notices []store.URL) error {
	for part := range slices.Chunk(notices, maxPushes) {
		err := c.cfg.DB.Update(func(tx *store.Tx) error {
			for _, u := range part {
				if err := tx.DeleteData(pingPrefix + string(u)); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// runPings reads the files of keys until ctx ends. Its error comes from the store.
func (c *Crawler) runPings(ctx context.Context) error {
	if err := c.handleStoreFull(c.loadPings()); err != nil {
		return err
	}
	reads, ctx := errgroup.WithContext(ctx)
	reads.SetLimit(maxKeyReads)
	for backoff.Sleep(ctx, c.checkInterval) == nil {
		for ctx.Err() == nil {
			claim, ok := c.pings.Next(time.Now())
			if !ok {
				break
			}
			reads.Go(func() error { return c.handleStoreFull(c.settleClaim(ctx, claim)) })
		}
	}
	return reads.Wait()
}

// settleClaim reads the file of a claim, and routes or forgets the notices that have waited for it.
func (c *Crawler) settleClaim(ctx context.Context, claim ping.Claim) error {
	result, err := c.readKey(ctx, claim)
	settled := c.pings.Read(claim, result, time.Now())
	if len(settled) > 0 {
		c.log.Info("read key of web site", "file", claim.File, "found", result == ping.Present,
			"notices", len(settled))
	}
	if result == ping.Present || result == ping.Moved {
		return errors.Join(err, c.routeNotices(settled))
	}
	return errors.Join(err, c.forgetNotices(settled))
}

// readKey requests the file of a claim as a page of one of our hosts that no queue has: it obeys
// robots.txt and opt-outs, waits for the clocks of the host, and counts as a request to it. Errors
// are those of the store.
func (c *Crawler) readKey(ctx context.Context, claim ping.Claim) (ping.Result, error) {
	file := c.secure(claim.File, time.Now())
	home, addr, ok := c.cfg.Frontier.HostAddr(file.Host())
	if !ok {
		return ping.Moved, nil
	}
	if c.cfg.Delegate.Dispatch(home).Hold || !c.hasSpace() {
		return ping.Unreached, nil
	}
	ctx, cancel := context.WithTimeout(ctx, c.cfg.RemoteTimeout)
	defer cancel()
	r := store.FetchRequest{URL: file, Addr: addr}
	if c.checkForPeer(ctx, r) != nil {
		return ping.Unreached, nil
	}
	rules, f, err := c.robotsForPeer(ctx, r)
	if err != nil || rules.rules == nil {
		return ping.Unreached, c.chargeReads(f, rules)
	}
	if !rules.rules.Allowed(c.cfg.Agent, file) {
		return ping.Absent, c.chargeReads(f, rules)
	}
	got, err := f.Fetch(ctx, file, ping.MaxFile)
	failure := c.chargeReads(f, rules)
	switch {
	case err != nil || got.Status == http.StatusTooManyRequests || got.Status >= 500:
		return ping.Unreached, failure
	case got.Status == http.StatusOK && claim.In(got.Body):
		return ping.Present, failure
	}
	return ping.Absent, failure
}

// chargeReads counts the requests of readKey, after which the host is left alone as its robots.txt
// says.
func (c *Crawler) chargeReads(f *robotsFetcher, rules originRules) error {
	if f.requests == 0 {
		return nil
	}
	wait, err := c.chargeSeparately(f.job.Host, f.requests, max(rules.delay, f.retryAfter))
	c.cfg.Frontier.DelayHost(f.job.Host, time.Now().Add(wait))
	return err
}
