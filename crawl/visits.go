package crawl

import (
	"context"
	"errors"
	"net/http"
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
			if err := c.queueDue(host); err != nil {
				return err
			}
		}
	}
}

// queueDue queues the pages of a host that are due.
func (c *Crawler) queueDue(host string) error {
	var next time.Time
	err := c.cfg.Frontier.Update([]string{host}, func(tx *store.Tx, push frontier.Push) error {
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
		return nil
	}
	if err == nil {
		c.cfg.Frontier.SetDue(host, next, false)
	}
	return err
}

// seen is what a fetch showed of a page, wherever it was done.
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
	case s.status == http.StatusNotFound || s.status == http.StatusGone:
		o.Outcome = revisit.Gone
	case s.outcome == store.OutcomeRedirect:
		o.Outcome = revisit.Fetched
	default:
		o.Outcome = revisit.Failed
	}
	return o, again
}

// visited takes a visit down and decides on the next. It returns when that is,
// the zero time if never, and whether the page has changed.
func (c *Crawler) visited(tx *store.Tx, e store.Entry, s sighting) (due time.Time, changed bool, err error) {
	o, ok := s.observation(e.Kind.Revisit())
	if c.cfg.Revisit == nil || !ok {
		return due, false, nil
	}
	v, h, err := history(tx, e.URL)
	if err != nil {
		return due, false, err
	}
	v.URL, v.Depth, v.Kind = e.URL, e.Depth, e.Kind&^store.KindRevisit
	changed = h.Observe(time.Now(), o)
	due, err = c.plan(tx, v, h)
	return due, changed, err
}

// plan writes down when a page is to be visited next.
func (c *Crawler) plan(tx *store.Tx, v store.Visit, h revisit.History) (due time.Time, err error) {
	at, ok := c.cfg.Revisit.Next(h, v.URL.Digest())
	if !ok {
		tx.CountNamed("revisit.gone", 1)
		return due, tx.DeleteVisit(v.URL)
	}
	v.Due = at
	if v.History, err = cbor.Marshal(h); err != nil {
		return due, err
	}
	return at, tx.PutVisit(v)
}

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

// conditional adds what makes a revisit conditional.
func (c *Crawler) conditional(r *store.FetchRequest) error {
	if !r.Kind.Revisit() {
		return nil
	}
	return c.cfg.DB.View(func(tx *store.Tx) error {
		_, h, err := history(tx, r.URL)
		r.IfNoneMatch, r.IfModifiedSince = revisit.Validators(h)
		return err
	})
}

// hint passes on what a sitemap says of pages that are known here.
func (c *Crawler) hint(tx *store.Tx, entries []sitemap.Entry) error {
	for _, e := range entries {
		v, h, err := history(tx, e.URL)
		if err != nil {
			return err
		}
		if v.URL == "" {
			continue
		}
		h.Suggest(time.Now(), revisit.Hint{LastMod: e.LastMod, Period: e.ChangeFreq.Period()})
		due, err := c.plan(tx, v, h)
		if err != nil {
			return err
		}
		if !due.IsZero() {
			c.cfg.Frontier.SetDue(v.URL.Host(), due, true)
		}
	}
	return nil
}
