package crawl

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/fxamacker/cbor/v2"

	"peerd/crawl/frontier"
	"peerd/crawl/revisit"
	"peerd/crawl/sitemap"
	"peerd/internal/backoff"
	"peerd/store"
)

const (
	// checkInterval is the time between two checks for due pages, and for key files to be read.
	checkInterval = time.Second
	// maxDuePerHost is the maximum number of pages of one host that are queued per check.
	maxDuePerHost = 64
)

// runRevisits queues pages when they are due, until ctx ends. Its error comes from the
// store.
func (c *Crawler) runRevisits(ctx context.Context) error {
	for backoff.Sleep(ctx, c.checkInterval) == nil {
		for _, host := range c.cfg.Frontier.Due(time.Now()) {
			if err := c.handleStoreFull(c.queueDue(host)); err != nil {
				return err
			}
		}
	}
	return nil
}

// countGone counts pages that are no longer visited.
const countGone = "revisit.gone"

// queueDue queues the due pages of a host.
func (c *Crawler) queueDue(host string) error {
	var next time.Time
	// Visits planned before this call are in the store, and later ones update the due time.
	c.cfg.Frontier.SetDue(host, time.Time{}, false)
	err := c.cfg.Frontier.Update([]string{host}, func(tx *store.Tx, push frontier.Push) error {
		next = time.Now().Add(c.checkInterval)
		due, err := tx.TakeDue(host, time.Now(), maxDuePerHost)
		if err != nil {
			return err
		}
		for _, v := range due {
			kind := v.Kind &^ store.KindChanged
			e := store.Entry{URL: v.URL, Depth: v.Depth, Kind: kind | store.KindRevisit,
				Ahead: v.Ahead}
			if !v.First.IsZero() { // another try of a page that was never fetched
				e.Kind, e.Tries, e.First, e.Hops = kind, v.Tries, v.First, v.Hops
				if err := tx.DeleteVisit(v.URL); err != nil {
					return err
				}
			}
			if _, err := push(host, e); err != nil {
				return err
			}
		}
		h, err := tx.Host(host)
		if err == nil {
			next = h.DueAt
		}
		return err
	})
	if errors.Is(err, frontier.ErrPaused) || errors.Is(err, frontier.ErrUnknownHost) {
		next, err = time.Now().Add(c.checkInterval), nil
	}
	if errors.Is(err, store.ErrNoSpace) {
		next = time.Now().Add(c.spaceWait)
	}
	if !next.IsZero() {
		c.cfg.Frontier.SetDue(host, next, true)
	}
	return err
}

// observation converts the report of a fetch, by any peer, for the revisit policy; revisited says
// that it was a revisit. ok is false if the fetch does not concern a page that could be revisited.
func observation(rep store.FetchReport, revisited bool) (o revisit.Observation, ok bool) {
	o = revisit.Observation{
		ETag: rep.Content.ETag, LastModified: rep.Content.LastModified,
		Digest: rep.Content.Digest,
	}
	switch {
	case isPage(rep.Outcome):
		o.Outcome = revisit.Fetched
		return o, true
	case rep.Outcome == store.OutcomeNotModified:
		o.Outcome = revisit.NotModified
	case isGone(rep.Status):
		o.Outcome = revisit.Gone
	case rep.Outcome == store.OutcomeRedirect:
		o.Outcome = revisit.Fetched
	default:
		o.Outcome = revisit.Failed
	}
	return o, revisited
}

// updateVisit records a visit and plans the next. It reports whether the page has changed.
func (c *Crawler) updateVisit(
	tx *store.Tx, e store.Entry, rep store.FetchReport,
) (changed bool, err error) {
	o, ok := observation(rep, e.Kind.Revisit())
	if c.cfg.Revisit == nil || !ok {
		return false, nil
	}
	v, h, err := history(tx, e.URL)
	if err != nil {
		return false, err
	}
	again := v.Kind.Changed() && o.Outcome != revisit.Failed
	v.URL, v.Depth, v.Kind = e.URL, e.Depth, e.Kind&^store.KindRevisit
	v.Ahead = false
	changed = h.Observe(time.Now(), o)
	if err := c.planVisit(tx, v, h); err != nil || !again {
		return changed, err
	}
	return changed, c.revisitNow(tx, e.URL)
}

// revisitNow plans a visit for now to a page that is said to have changed. A page that waits for
// its first fetch keeps its place; any other comes before those to which pages of its host link.
// One that is due may be on its way already, with the old content: it is visited once more after
// that.
func (c *Crawler) revisitNow(tx *store.Tx, u store.URL) error {
	if c.cfg.Revisit == nil {
		return nil
	}
	v, err := tx.Visit(u)
	switch {
	case errors.Is(err, store.ErrNotFound):
		p, err := tx.Page(u) // visits to pages that have gone are not planned any more
		if errors.Is(err, store.ErrNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		v = store.Visit{URL: u, Depth: p.Depth, Due: time.Now(), Ahead: true}
	case err != nil || !v.First.IsZero():
		return err
	case isDue(v):
		v.Kind |= store.KindChanged
	default:
		v.Due, v.Ahead = time.Now(), true
	}
	if err := tx.PutVisit(v); err != nil {
		return err
	}
	c.cfg.Frontier.SetDue(u.Host(), v.Due, true)
	return nil
}

// planVisit stores when to visit a page next. If its host is no longer ours, it does
// nothing.
func (c *Crawler) planVisit(tx *store.Tx, v store.Visit, h revisit.History) (err error) {
	at, ok := c.cfg.Revisit.Next(h, v.URL.Digest())
	if !ok {
		tx.CountNamed(countGone, 1)
		return tx.DeleteVisit(v.URL)
	}
	// The store orders visits by the millisecond and stores times as floats. The middle of
	// a millisecond survives rounding.
	v.Due = at.Truncate(time.Millisecond).Add(time.Millisecond / 2)
	if v.History, err = cbor.Marshal(h); err != nil {
		return err
	}
	if err = tx.PutVisit(v); errors.Is(err, store.ErrNotFound) {
		return nil
	}
	// Set it even though the transaction may fail: the next check then finds nothing due.
	c.cfg.Frontier.SetDue(v.URL.Host(), v.Due, true)
	return err
}

// isDue reports whether a visit is due, and thus queued or about to be.
func isDue(v store.Visit) bool { return v.Due.UnixMilli() <= time.Now().UnixMilli() }

// history returns the stored visit and history of a page, or zero values if it was never
// visited.
func history(tx *store.Tx, u store.URL) (v store.Visit, h revisit.History, err error) {
	v, err = tx.Visit(u)
	if errors.Is(err, store.ErrNotFound) {
		return v, h, nil
	}
	if err == nil && cbor.Unmarshal(v.History, &h) != nil {
		h = revisit.History{} // unreadable, from another peer
	}
	return v, h, err
}

// prepareRevisit makes a revisit conditional. It reports whether to make the request: a
// handover may leave two entries for one visit, of which the second is dropped.
func (c *Crawler) prepareRevisit(r *store.FetchRequest) (ok bool, err error) {
	if !r.Kind.Revisit() {
		return true, nil
	}
	err = c.cfg.DB.View(func(tx *store.Tx) error {
		v, h, err := history(tx, r.URL)
		ok = v.URL != "" && isDue(v)
		r.IfNoneMatch, r.IfModifiedSince = revisit.Validators(h)
		return err
	})
	return ok, err
}

// applyHints applies what a sitemap says about pages that are known to this peer.
func (c *Crawler) applyHints(entries []sitemap.Entry) error {
	if c.cfg.Revisit == nil {
		return nil
	}
	for part := range slices.Chunk(entries, maxPlans) {
		err := c.cfg.DB.Batch(func(tx *store.Tx) error {
			for _, e := range part {
				if err := c.applyHint(tx, e); err != nil {
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

// applyHint plans the next visit to a page from what a sitemap says. A page that is due
// keeps its plan; otherwise it would be visited twice.
func (c *Crawler) applyHint(tx *store.Tx, e sitemap.Entry) error {
	v, h, err := history(tx, e.URL)
	if err != nil || v.URL == "" || isDue(v) || !v.First.IsZero() {
		return err
	}
	before := h.Hinted
	if h.AddHint(time.Now(), e.LastMod); h.Hinted == before {
		return nil
	}
	return c.planVisit(tx, v, h)
}
