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
	"peerd/store"
)

const (
	// look is how often hosts are looked through for pages that are due.
	look = time.Second
	// dueAtOnce bounds the pages of one host that are queued at one look.
	dueAtOnce = 64
)

// runRevisits queues pages when they are due, until ctx ends. Its error is one
// of the store.
func (c *Crawler) runRevisits(ctx context.Context) error {
	t := time.NewTicker(look)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-t.C:
		}
		for _, host := range c.cfg.Frontier.Due(time.Now()) {
			if err := c.stall(c.queueDue(host)); err != nil {
				return err
			}
		}
	}
}

// countGone counts pages that are not visited again.
const countGone = "revisit.gone"

// queueDue queues the pages of a host that are due.
func (c *Crawler) queueDue(host string) error {
	var next time.Time
	// Whoever plans a visit from now on is heard, and whoever did before has
	// it in the store.
	c.cfg.Frontier.SetDue(host, time.Time{}, false)
	err := c.cfg.Frontier.Update([]string{host}, func(tx *store.Tx, push frontier.Push) error {
		next = time.Now().Add(look)
		if c.health.forsaken(host) {
			return nil
		}
		due, err := tx.TakeDue(host, time.Now(), dueAtOnce)
		if err != nil {
			return err
		}
		for _, v := range due {
			if _, err := push(host, store.Entry{URL: v.URL, Depth: v.Depth, Kind: v.Kind | store.KindRevisit}); err != nil {
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
		next, err = time.Now().Add(look), nil
	}
	if errors.Is(err, store.ErrFull) {
		next = time.Now().Add(c.roomWait)
	}
	if !next.IsZero() {
		c.cfg.Frontier.SetDue(host, next, true)
	}
	return err
}

// A sighting is what a fetch showed of a page, wherever it was done.
type sighting struct {
	outcome store.Outcome
	status  int
	content store.Content
}

// observation turns a fetch into what the policy wants to know. ok is false for
// what is no page that could be visited again.
func (s sighting) observation(again bool) (o revisit.Observation, ok bool) {
	o = revisit.Observation{
		ETag: s.content.ETag, LastModified: s.content.LastModified,
		Digest: s.content.Digest, Fingerprint: s.content.Fingerprint,
	}
	switch {
	case isPage(s.outcome):
		o.Outcome = revisit.Fetched
		return o, true
	case s.outcome == store.OutcomeNotModified:
		o.Outcome = revisit.NotModified
	case gone(s.status):
		o.Outcome = revisit.Gone
	case s.outcome == store.OutcomeRedirect:
		o.Outcome = revisit.Fetched
	default:
		o.Outcome = revisit.Failed
	}
	return o, again
}

// visited takes a visit down and decides on the next. It says whether the page
// has changed.
func (c *Crawler) visited(tx *store.Tx, e store.Entry, s sighting) (changed bool, err error) {
	o, ok := s.observation(e.Kind.Revisit())
	if c.cfg.Revisit == nil || !ok {
		return false, nil
	}
	v, h, err := history(tx, e.URL)
	if err != nil {
		return false, err
	}
	v.URL, v.Depth, v.Kind = e.URL, e.Depth, e.Kind&^store.KindRevisit
	changed = h.Observe(time.Now(), o)
	return changed, c.plan(tx, v, h)
}

// plan writes down when a page is to be visited next. A host that has left
// meanwhile plans for itself.
func (c *Crawler) plan(tx *store.Tx, v store.Visit, h revisit.History) (err error) {
	at, ok := c.cfg.Revisit.Next(h, v.URL.Digest())
	if !ok {
		tx.CountNamed(countGone, 1)
		return tx.DeleteVisit(v.URL)
	}
	// The store files visits by the millisecond, and keeps times as floats: in
	// its middle none slips into another.
	v.Due = at.Truncate(time.Millisecond).Add(time.Millisecond / 2)
	if v.History, err = cbor.Marshal(h); err != nil {
		return err
	}
	if err = tx.PutVisit(v); errors.Is(err, store.ErrNotFound) {
		return nil
	}
	// Early even if the transaction should fail: then nothing is found due.
	c.cfg.Frontier.SetDue(v.URL.Host(), v.Due, true)
	return err
}

// due says whether a visit is due, and so in the queue or about to be.
func due(v store.Visit) bool { return v.Due.UnixMilli() <= time.Now().UnixMilli() }

// history returns what is kept of a page; the zero values if it was never
// visited.
func history(tx *store.Tx, u store.URL) (v store.Visit, h revisit.History, err error) {
	v, err = tx.Visit(u)
	if errors.Is(err, store.ErrNotFound) {
		return v, h, nil
	}
	if err == nil && cbor.Unmarshal(v.History, &h) != nil {
		h = revisit.History{} // another peer's, and no use
	}
	return v, h, err
}

// conditional adds what makes a revisit conditional, and says whether the
// request is to be made at all: of two entries for one visit, as a handover
// may leave them, the second is not.
func (c *Crawler) conditional(r *store.FetchRequest) (ok bool, err error) {
	if !r.Kind.Revisit() {
		return true, nil
	}
	err = c.cfg.DB.View(func(tx *store.Tx) error {
		v, h, err := history(tx, r.URL)
		ok = v.URL != "" && due(v)
		r.IfNoneMatch, r.IfModifiedSince = revisit.Validators(h)
		return err
	})
	return ok, err
}

// hint passes on what a sitemap says of pages that are known here.
func (c *Crawler) hint(entries []sitemap.Entry) error {
	if c.cfg.Revisit == nil {
		return nil
	}
	for part := range slices.Chunk(entries, maxPlans) {
		err := c.cfg.DB.Batch(func(tx *store.Tx) error {
			for _, e := range part {
				if err := c.suggest(tx, e); err != nil {
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

// suggest plans a page anew for what a sitemap says of it. One that is due
// stays as it is: planned again, it would be visited twice.
func (c *Crawler) suggest(tx *store.Tx, e sitemap.Entry) error {
	v, h, err := history(tx, e.URL)
	if err != nil || v.URL == "" || due(v) {
		return err
	}
	hinted, period := h.Hinted, h.Period
	h.Suggest(time.Now(), revisit.Hint{LastMod: e.LastMod, Period: e.ChangeFreq.Period()})
	if h.Hinted == hinted && h.Period == period {
		return nil
	}
	return c.plan(tx, v, h)
}
