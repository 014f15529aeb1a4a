package crawl

import (
	"errors"
	"time"

	"peerd/crawl/frontier"
	"peerd/store"
)

// maxPushes bounds the URLs of one transaction.
const maxPushes = 1000

// maxPlans bounds the visits and page records of one transaction, which are
// larger.
const maxPlans = maxPushes / 4

// commit writes a fetched page of ours: its record, its links to where they
// belong, and job's entry out of the queue, all in one transaction (more links
// than one can hold go before, the page last: until then it counts as not
// fetched). It returns how long the host is to be left alone: gap, or longer.
func (c *Crawler) commit(got fetched, job frontier.Job, gap time.Duration) (wait time.Duration, err error) {
	rec, err := got.page.Record()
	if err != nil {
		return 0, err
	}
	if err := c.hint(got.hints); err != nil {
		return 0, err
	}
	seen := sighting{outcome: got.report.Outcome, status: got.report.Status, content: got.report.Content}
	err = c.routeLinks(got.links, func(tx *store.Tx) (err error) {
		if wait, err = c.charge(tx, job.Host, 1, gap); err != nil {
			return err
		}
		if err := keep(tx, got, rec); err != nil {
			return err
		}
		if !got.report.Outcome.Answered() {
			tx.Count(store.Counters{Failed: 1})
			if err := c.missed(tx, job.Entry, got.report); err != nil {
				return err
			}
		}
		if err := c.after(tx, job.Entry, seen); err != nil {
			return err
		}
		return tx.Remove(job.Host, job.Entry)
	})
	return wait, err
}

// after takes a visit of ours down, whoever made it.
func (c *Crawler) after(tx *store.Tx, e store.Entry, s sighting) error {
	changed, err := c.visited(tx, e, s)
	if err == nil && changed && e.Kind.Revisit() {
		tx.Count(store.Counters{Changed: 1})
	}
	return err
}

// keep writes an answer down and counts it; without an answer it does nothing.
func keep(tx *store.Tx, got fetched, rec store.PageRecord) error {
	o := got.report.Outcome
	if !o.Answered() {
		return nil
	}
	n := store.Counters{Fetches: 1, Bytes: got.report.Bytes}
	switch {
	case got.kind.Revisit():
		n.Revisits = 1
	case isPage(o) && !got.kind.Sitemap():
		n.Pages = 1
	}
	if o == store.OutcomeNotModified {
		n.NotModified = 1
	}
	tx.Count(n)
	for _, name := range got.counts {
		tx.CountNamed(name, 1)
	}
	if got.kind.Revisit() && !got.news() {
		_, err := tx.Page(got.page.URL)
		if !errors.Is(err, store.ErrNotFound) {
			return err
		}
	}
	return tx.PutRecord(rec)
}

// commitRemote is commit for a page that an estimator fetched and keeps: its
// links are routed as if they had been found here.
func (c *Crawler) commitRemote(job frontier.Job, rep store.FetchReport, gap time.Duration) (wait time.Duration, err error) {
	err = c.routeLinks(c.reported(job.Entry, rep), func(tx *store.Tx) (err error) {
		if wait, err = c.charge(tx, job.Host, 1, gap); err != nil {
			return err
		}
		n := store.Counters{EstimationsRequested: 1}
		if !rep.Outcome.Answered() {
			n.Failed = 1
			if err := c.missed(tx, job.Entry, rep); err != nil {
				return err
			}
		}
		if job.Entry.Kind.Revisit() {
			n.Revisits = 1
		}
		tx.Count(n)
		if err := c.after(tx, job.Entry, sighting{outcome: rep.Outcome, status: rep.Status, content: rep.Content}); err != nil {
			return err
		}
		return tx.Remove(job.Host, job.Entry)
	})
	return wait, err
}

// reported returns the links that an estimator found on a page of ours, as
// reading the page here would have found them; what that could not have given is
// left out.
func (c *Crawler) reported(e store.Entry, rep store.FetchReport) []store.Pending {
	moved := rep.Outcome == store.OutcomeRedirect
	if !moved && !isPage(rep.Outcome) {
		return nil
	}
	if c.cfg.Rules.ObeyCanonical && rep.Content.Flags&store.PageNotCanonical != 0 {
		moved = true
	}
	next, most := store.Pending{Depth: e.Depth + 1}, maxLinks
	if moved {
		next, most = store.Pending{Depth: e.Depth, Hops: e.Hops + 1}, 1
		if e.Hops >= maxHops {
			return nil
		}
	}
	urls := rep.Links[:min(len(rep.Links), most)]
	links := make([]store.Pending, len(urls))
	for i, u := range urls {
		links[i] = next
		links[i].URL = u
	}
	links, _ = fitting(c.inScope(links, e.URL))
	return links
}

// Route takes in URLs that others found: those of our own hosts into their
// queues, all others put aside for their owners. It returns when they are in
// the store.
func (c *Crawler) Route(found []store.Pending) error {
	for len(found) > maxPushes {
		if err := c.routeAll(found[:maxPushes], nil); err != nil {
			return err
		}
		found = found[maxPushes:]
	}
	return c.routeAll(found, nil)
}

// routeLinks routes what this peer found itself, in as many transactions as it
// takes; also belongs to the last one. What is known to be seen already, or was
// sent to its owner lately, is left out.
func (c *Crawler) routeLinks(links []store.Pending, also func(*store.Tx) error) error {
	found := make([]store.Pending, 0, len(links))
	for _, l := range links {
		if !c.cfg.DB.KnownSeen(l.URL) && (!c.cfg.Sent(l.URL) || c.cfg.Frontier.Owns(l.URL.Host())) {
			found = append(found, l)
		}
	}
	for len(found) > maxPushes {
		if err := c.routeAll(found[:maxPushes], nil); err != nil {
			return err
		}
		found = found[maxPushes:]
	}
	return c.routeAll(found, also)
}

// routeAll stores URLs, and says how many of them were put aside.
func (c *Crawler) routeAll(found []store.Pending, also func(*store.Tx) error) error {
	for {
		deferred, err := c.tryRoute(found, also)
		if errors.Is(err, frontier.ErrPaused) || errors.Is(err, frontier.ErrUnknownHost) {
			continue // a subnet left between the look and the push: look again
		}
		if err == nil && len(deferred) > 0 {
			c.cfg.Deferred(deferred)
		}
		return err
	}
}

// tryRoute writes URLs to where they belong now, in order, and returns how many
// it has newly put aside, by host. It fails with what Frontier.Update fails
// with.
func (c *Crawler) tryRoute(found []store.Pending, also func(*store.Tx) error) (deferred map[string]int, err error) {
	var own []string
	owned := map[string]bool{}
	for _, p := range found {
		h := p.URL.Host()
		if _, asked := owned[h]; asked {
			continue
		}
		if owned[h] = c.cfg.Frontier.Owns(h); owned[h] {
			own = append(own, h)
		}
	}
	err = c.cfg.Frontier.Update(own, func(tx *store.Tx, push frontier.Push) error {
		deferred = map[string]int{}
		for _, p := range found {
			h := p.URL.Host()
			if owned[h] {
				if _, err := push(h, entryOf(p)); err != nil {
					return err
				}
				continue
			}
			fresh, err := c.putAside(tx, h, p)
			if err != nil {
				return err
			}
			if fresh {
				deferred[h]++
			}
		}
		if also != nil {
			return also(tx)
		}
		return nil
	})
	return deferred, err
}

// entryOf is a found URL as it is queued. Others may have found it, and must
// not make us visit pages again.
func entryOf(p store.Pending) store.Entry {
	return store.Entry{URL: p.URL, Depth: p.Depth, Kind: p.Kind & store.KindSitemap, From: p.From, Hops: max(p.Hops, 0)}
}

// putAside keeps a URL of a host that is not ours, unless its host is one of a
// trap's. One that no other host links to counts as found at its own: if that is
// ours and about to leave, the URL is in the log of its subnet.
func (c *Crawler) putAside(tx *store.Tx, host string, p store.Pending) (fresh bool, err error) {
	if c.cfg.Gate != nil {
		if reason := c.cfg.Gate.AdmitHost(host); reason != "" {
			c.log.Debug("url dropped", "url", p.URL, "reason", reason)
			tx.Count(store.Counters{Dropped: 1})
			tx.CountNamed(reason, 1)
			return false, nil
		}
	}
	if p.From == "" {
		p.From = host
	}
	return tx.Defer(p)
}

// Enqueue moves URLs that were put aside for a host of ours into its queue, at
// most a thousand at a time.
func (c *Crawler) Enqueue(host string) (moved int, more bool, err error) {
	err = c.cfg.Frontier.Update([]string{host}, func(tx *store.Tx, push frontier.Push) error {
		var found []store.Pending
		more = false
		err := tx.Deferred(host, func(p store.Pending) (bool, error) {
			if len(found) == maxPushes {
				more = true
				return false, nil
			}
			found = append(found, p)
			return true, nil
		})
		if err != nil {
			return err
		}
		for _, p := range found {
			if _, err := push(host, entryOf(p)); err != nil {
				return err
			}
			if err := tx.Undefer(p.URL); err != nil {
				return err
			}
		}
		moved = len(found)
		return nil
	})
	if err != nil {
		moved = 0
	}
	return moved, more, err
}
