package crawl

import (
	"cmp"
	"errors"
	"time"

	"peerd/crawl/frontier"
	"peerd/store"
)

// maxPushes is the maximum number of URLs per transaction; see oneTransaction.
const maxPushes = 1000

// maxPlans is the maximum number of visits or page records per transaction. They are larger
// than queue entries.
const maxPlans = maxPushes / 4

// commit stores a page that this peer fetched, or that a crawllet reported to it. One transaction
// writes its record, routes its links and removes the job's entry from the queue. Links beyond one
// transaction are stored in earlier ones; until the last, the page counts as not fetched. commit
// returns how long to leave the host alone: gap or longer.
func (c *Crawler) commit(
	got fetched, job frontier.Job, gap time.Duration,
) (wait time.Duration, err error) {
	rec, err := got.page.Record()
	if err != nil {
		return 0, err
	}
	if err := c.applyHints(got.hints); err != nil {
		return 0, err
	}
	requests := int64(1)
	if got.source != "" {
		requests = 0
	}
	v := visit{job: job, report: got.report}
	err = c.routeLinks(got.links, &v, func(tx *store.Tx) (err error) {
		if err := c.observe(tx, &v); err != nil {
			return err
		}
		if wait, err = c.charge(tx, job.Host, requests, gap); err != nil {
			return err
		}
		if err := recordFetch(tx, got, rec); err != nil {
			return err
		}
		return c.endJob(tx, job, got.report)
	})
	c.reportFetched(got, err)
	c.cfg.Frontier.Answered(job, isGone(got.report.Status))
	return wait, err
}

// reportFetched passes a page on that was stored, unless err tells that it was not.
func (c *Crawler) reportFetched(got fetched, err error) {
	if err == nil && got.page.Outcome.Answered() {
		got.page.Check = c.checks.claimed(got.page.URL)
		c.cfg.Delegate.Fetched(got.page)
	}
}

// endJob ends a job with a result that is final for now: its host has answered, and its entry
// leaves the queue, with a record if it was given up.
func (c *Crawler) endJob(tx *store.Tx, job frontier.Job, rep store.FetchReport) error {
	if _, _, err := c.updateHealth(tx, job.Host, rep, time.Now()); err != nil {
		return err
	}
	if !rep.Outcome.Answered() {
		return c.giveUp(tx, job.Entry, rep)
	}
	if _, err := tx.DeleteGivenUp(job.Entry.URL); err != nil {
		return err
	}
	if err := c.recordVisit(tx, job.Entry, rep); err != nil {
		return err
	}
	return tx.Remove(job.Host, job.Entry)
}

// recordVisit records a visit to one of our pages, made by this peer or an estimator.
func (c *Crawler) recordVisit(tx *store.Tx, e store.Entry, rep store.FetchReport) error {
	changed, err := c.updateVisit(tx, e, rep)
	if err == nil && changed && e.Kind.Revisit() {
		tx.Count(store.Counters{Changed: 1})
	}
	return err
}

// recordFetch stores and counts an answer. Without an answer it does nothing.
func recordFetch(tx *store.Tx, got fetched, rec store.PageRecord) error {
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
	if got.kind.Revisit() && !got.replacesRecord() {
		_, err := tx.Page(got.page.URL)
		if !errors.Is(err, store.ErrNotFound) {
			return err
		}
	}
	return tx.PutRecord(rec)
}

// commitRemote is commit for a page that another peer stores: an estimator, with one request, or
// a peer at the site, with none. Its links are routed as if this peer had found them.
func (c *Crawler) commitRemote(
	job frontier.Job, rep store.FetchReport, requests int64, gap time.Duration,
) (wait time.Duration, err error) {
	v := visit{job: job, report: rep}
	err = c.routeLinks(c.reportedLinks(job.Entry, rep), &v, func(tx *store.Tx) (err error) {
		if err := c.observe(tx, &v); err != nil {
			return err
		}
		if wait, err = c.charge(tx, job.Host, requests, gap); err != nil {
			return err
		}
		n := store.Counters{EstimationsRequested: requests}
		if requests == 0 {
			tx.CountNamed(countSiteReports, 1)
		}
		if job.Entry.Kind.Revisit() {
			n.Revisits = 1
		}
		tx.Count(n)
		return c.endJob(tx, job, rep)
	})
	c.cfg.Frontier.Answered(job, isGone(rep.Status))
	return wait, err
}

// reportedLinks returns the links that an estimator found on one of our pages, limited to
// what this peer could have found there itself.
func (c *Crawler) reportedLinks(e store.Entry, rep store.FetchReport) []store.Pending {
	moved := rep.Outcome == store.OutcomeRedirect
	if !moved && !isPage(rep.Outcome) {
		return nil
	}
	if c.cfg.Rules.ObeyCanonical && rep.Content.Flags&store.PageNotCanonical != 0 {
		moved = true
	}
	next, limit := store.Pending{Depth: e.Depth + 1}, maxLinks
	if moved {
		next, limit = store.Pending{Depth: e.Depth, Hops: e.Hops + 1}, 1
		if e.Hops >= maxRedirects {
			return nil
		}
	}
	urls := rep.Links[:min(len(rep.Links), limit)]
	links := make([]store.Pending, len(urls))
	for i, u := range urls {
		links[i] = next
		links[i].URL = u
	}
	links, _ = truncateLinks(c.inScope(links, e.URL))
	return links
}

// Route stores URLs that other peers found: those of our hosts in their queues, all others
// in the pending table. It returns when they are stored.
func (c *Crawler) Route(found []store.Pending) error {
	return c.routeInParts(found, nil, nil)
}

// oneTransaction returns how many of the first URLs fit into one transaction. It writes about as
// much for each further host, and for a link between two hosts, as for a URL, and more for a page
// that has changed.
func oneTransaction(found []store.Pending) (n int) {
	size, hosts := -1, map[string]bool{}
	for ; n < len(found); n++ {
		p := &found[n]
		host := p.URL.Host()
		size++
		if !hosts[host] {
			hosts[host] = true
			size++
		}
		if p.From != "" && p.From != host {
			size++
		}
		if p.Kind.Changed() || p.Kind.Pinged() {
			size += maxPushes/maxPlans - 1
		}
		if size > maxPushes {
			break
		}
	}
	return n
}

// routeLinks routes URLs that this peer found, in as many transactions as needed; also runs
// in the last one. URLs that are known to be seen, or were recently sent to their owner,
// are left out. The visit and also may be nil.
func (c *Crawler) routeLinks(links []store.Pending, v *visit, also func(*store.Tx) error) error {
	found := make([]store.Pending, 0, len(links))
	for _, l := range links {
		if v != nil && l.From == "" {
			v.links = append(v.links, l.URL)
		}
		if !c.cfg.DB.KnownSeen(l.URL) &&
			(!c.cfg.Delegate.RecentlySent(l.URL) || c.cfg.Frontier.Owns(l.URL.Host())) {
			found = append(found, l)
		}
	}
	if v != nil {
		v.found = found
	}
	return c.routeInParts(found, v, also)
}

// routeInParts is routeAll in as many transactions as needed.
func (c *Crawler) routeInParts(found []store.Pending, v *visit, also func(*store.Tx) error) error {
	for n := oneTransaction(found); n < len(found); n = oneTransaction(found) {
		if err := c.routeAll(found[:n], v, nil); err != nil {
			return err
		}
		found = found[n:]
	}
	return c.routeAll(found, v, also)
}

// routeAll stores URLs and reports how many of them are newly pending.
func (c *Crawler) routeAll(found []store.Pending, v *visit, also func(*store.Tx) error) error {
	for {
		pending, err := c.tryRoute(found, v, also)
		if errors.Is(err, frontier.ErrPaused) || errors.Is(err, frontier.ErrUnknownHost) {
			continue // a subnet was handed over meanwhile: try again
		}
		if err == nil {
			v.committed()
		}
		if err == nil && len(pending) > 0 {
			c.cfg.Delegate.PendingAdded(pending)
		}
		return err
	}
}

// tryRoute stores each URL in its queue or in the pending table, in order. It returns the
// number of newly pending URLs by host. Errors are those of Frontier.Update.
func (c *Crawler) tryRoute(
	found []store.Pending, v *visit, also func(*store.Tx) error,
) (pending map[string]int, err error) {
	var own []string
	owned := map[string]bool{}
	for _, p := range found {
		h := p.URL.Host()
		if _, known := owned[h]; known {
			continue
		}
		if owned[h] = c.cfg.Frontier.Owns(h); owned[h] {
			own = append(own, h)
		}
	}
	err = c.cfg.Frontier.Update(own, func(tx *store.Tx, push frontier.Push) error {
		pending = map[string]int{}
		if err := c.beginVisit(tx, v); err != nil {
			return err
		}
		for _, p := range found {
			h := p.URL.Host()
			if owned[h] {
				fresh, err := c.pushFound(tx, push, p)
				if err != nil {
					return err
				}
				if fresh {
					v.added(p)
				}
				continue
			}
			fresh, err := c.addPending(tx, h, p)
			if err != nil {
				return err
			}
			if fresh {
				pending[h]++
			}
		}
		if also != nil {
			return also(tx)
		}
		return nil
	})
	return pending, err
}

// pushFound queues a URL of one of our hosts unless it was seen before. If it was, and is said to
// have changed, a visit is planned for now. A notice of a site that is not proved yet waits.
func (c *Crawler) pushFound(
	tx *store.Tx, push frontier.Push, p store.Pending,
) (fresh bool, err error) {
	if p.Kind.Pinged() {
		var believed bool
		if p, believed, err = c.checkPing(tx, p); err != nil || !believed {
			return false, err
		}
	}
	e := c.queueEntry(p)
	fresh, err = push(p.URL.Host(), e)
	if err != nil || fresh || !p.Kind.Changed() {
		return fresh, err
	}
	return false, c.revisitNow(tx, e.URL)
}

// queueEntry returns the queue entry of a found URL. The URL may come from another peer,
// which must not be able to queue revisits.
func (c *Crawler) queueEntry(p store.Pending) store.Entry {
	return store.Entry{
		URL: c.secure(p.URL, time.Now()), Depth: p.Depth, Kind: p.Kind & store.KindSitemap,
		From: p.From, Hops: max(p.Hops, 0), Source: p.Source, Finder: p.Finder,
	}
}

// addPending adds a URL of a host that is not ours to the pending table, unless the host is
// rejected as a trap. A URL without a linking host counts as found at its own host: if that
// host is ours and about to leave, the URL enters the change log of its subnet.
func (c *Crawler) addPending(tx *store.Tx, host string, p store.Pending) (fresh bool, err error) {
	if c.cfg.Gate != nil {
		if reason := c.cfg.Gate.AdmitHost(host); reason != "" {
			c.log.Debug("dropped url", "url", p.URL, "reason", reason)
			tx.Count(store.Counters{Dropped: 1})
			tx.CountNamed(reason, 1)
			return false, nil
		}
	}
	p.From = cmp.Or(p.From, host)
	if p.Kind.Pinged() {
		p.From = "" // no out-link, which the replicas of a subnet would have
	}
	return tx.AddPending(p)
}

// Enqueue moves up to 1000 pending URLs of one of our hosts into its queue. more reports
// whether others are left.
func (c *Crawler) Enqueue(host string) (moved int, more bool, err error) {
	err = c.cfg.Frontier.Update([]string{host}, func(tx *store.Tx, push frontier.Push) error {
		var found []store.Pending
		more = false
		err := tx.PendingOf(host, func(p store.Pending) (bool, error) {
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
		n := oneTransaction(found)
		found, more = found[:n], more || n < len(found)
		for _, p := range found {
			if _, err := c.pushFound(tx, push, p); err != nil {
				return err
			}
			if err := tx.RemovePending(p.URL); err != nil {
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
