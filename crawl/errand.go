package crawl

import (
	"context"
	"errors"
	"fmt"
	"time"

	"peerd/store"
)

// ErrBusy is returned by Errand when this peer has no place for another fetch.
var ErrBusy = errors.New("crawl: busy")

// errandMemory is how long the answer of an errand is given again without a
// second fetch.
const errandMemory = 10 * time.Minute

// Errand fetches one URL at another owner's request. The page counts as
// fetched by this peer; its links to other hosts are routed from here, those
// to its own host go back with the report. Asked again within ten minutes, it
// answers from memory: a lost answer costs no second request.
func (c *Crawler) Errand(ctx context.Context, r store.FetchRequest) (store.FetchReport, error) {
	if err := c.cfg.Scope.Allows(r.URL, r.Depth); err != nil {
		return store.FetchReport{}, fmt.Errorf("crawl: errand: %w", err)
	}
	if _, running := c.running.LoadOrStore(r.URL, true); running {
		return store.FetchReport{}, ErrBusy
	}
	defer c.running.Delete(r.URL)
	if rep, ok, err := c.remembered(r.URL); err != nil || ok {
		return rep, err
	}
	select {
	case c.errands <- struct{}{}:
		defer func() { <-c.errands }()
	default:
		return store.FetchReport{}, ErrBusy
	}
	got := c.fetch(ctx, r)
	if err := ctx.Err(); err != nil {
		return store.FetchReport{}, err
	}
	got.page.Estimation = true
	got.report.Links = ownLinks(got.page)
	if got.report.Outcome.Transient() {
		return got.report, nil // the owner tries again; there is nothing to keep
	}
	if err := c.commit(got, nil, r.URL.Host()); err != nil {
		return store.FetchReport{}, err
	}
	return got.report, nil
}

func (c *Crawler) remembered(u store.URL) (store.FetchReport, bool, error) {
	var p store.Page
	err := c.cfg.DB.View(func(tx *store.Tx) (err error) {
		p, err = tx.Page(u)
		return err
	})
	if errors.Is(err, store.ErrNotFound) || err == nil && (!p.Estimation || time.Since(p.FetchedAt) > errandMemory) {
		return store.FetchReport{}, false, nil
	}
	if err != nil {
		return store.FetchReport{}, false, err
	}
	return store.FetchReport{Outcome: p.Outcome, Status: p.Status, Bytes: p.Bytes, Timing: p.Timing, Links: ownLinks(p)}, true, nil
}

// ownLinks returns the links of p that stay on its host.
func ownLinks(p store.Page) []store.URL {
	var own []store.URL
	for _, l := range p.Links {
		if l.Host() == p.URL.Host() {
			own = append(own, l)
		}
	}
	return own
}
