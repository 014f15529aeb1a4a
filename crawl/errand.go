package crawl

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"peerd/store"
)

var (
	// ErrBusy is returned by Errand when this peer has no place for another
	// fetch.
	ErrBusy = errors.New("crawl: busy")
	// ErrErrand is returned by Errand for a request that it never fetches.
	ErrErrand = errors.New("crawl: not a request to be fetched")
)

// errandMemory is how long the answer of an errand is given again without a
// second fetch.
const errandMemory = 10 * time.Minute

// errands are the fetches under way at other peers' request.
type errands struct {
	places chan struct{}

	mu   *sync.Mutex
	byID map[store.URL]*errand
	// again holds the last answers to revisits: the record of the page cannot
	// tell them from that of an earlier fetch.
	again *lru.Cache[store.URL, answer]
}

// errandsHeld is how many answers to revisits are remembered.
const errandsHeld = 1024

// answer is a report without its links, which the page's record has if it has
// changed.
type answer struct {
	at      time.Time
	rep     store.FetchReport
	changed bool
}

// An errand is one fetch under way. Its result may be read when done is closed.
type errand struct {
	done chan struct{}
	rep  store.FetchReport
	err  error
}

func newErrands(places int) errands {
	again, err := lru.New[store.URL, answer](errandsHeld)
	if err != nil {
		panic(err) // only for a size <= 0
	}
	return errands{places: make(chan struct{}, places), mu: new(sync.Mutex), byID: map[store.URL]*errand{}, again: again}
}

// join returns the errand for u, and whether the caller is the one to run it.
func (s errands) join(u store.URL) (e *errand, mine bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.byID[u]; e != nil {
		return e, false
	}
	e = &errand{done: make(chan struct{})}
	s.byID[u] = e
	return e, true
}

// end makes an errand's result known to all that joined it.
func (s errands) end(u store.URL, e *errand) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.byID, u)
	close(e.done)
}

// Errand fetches one URL at another owner's request. The page counts as
// fetched by this peer, which keeps it; its links go back with the report, and it
// is the owner who routes them. Asked again during the fetch, or
// within ten minutes after it, it gives the same answer: a lost answer costs
// no second request. Nothing was sent if it fails with ErrBusy or ErrErrand;
// any other error, of ctx or the store, leaves that open.
func (c *Crawler) Errand(ctx context.Context, r store.FetchRequest) (store.FetchReport, error) {
	if r.Depth < 0 || r.Hops < 0 || r.Kind&^store.KindRevisit != 0 {
		return store.FetchReport{}, fmt.Errorf("%w: depth %d, hops %d, kind %d", ErrErrand, r.Depth, r.Hops, r.Kind)
	}
	if err := c.cfg.Scope.Allows(r.URL, r.Depth); err != nil {
		return store.FetchReport{}, fmt.Errorf("%w: %w", ErrErrand, err)
	}
	e, mine := c.errands.join(r.URL)
	if mine {
		defer c.errands.end(r.URL, e)
		e.rep, e.err = c.errand(ctx, r)
		return e.rep, e.err
	}
	select {
	case <-ctx.Done():
		return store.FetchReport{}, ctx.Err()
	case <-e.done:
		return e.rep, e.err
	}
}

// errand is Errand for the one that runs it.
func (c *Crawler) errand(ctx context.Context, r store.FetchRequest) (store.FetchReport, error) {
	if rep, ok, err := c.remembered(r); err != nil || ok {
		return rep, err
	}
	if c.noRoom() != nil {
		return store.FetchReport{}, ErrBusy
	}
	select {
	case c.errands.places <- struct{}{}:
		defer func() { <-c.errands.places }()
	default:
		return store.FetchReport{}, ErrBusy
	}
	ticket, ok, err := c.cfg.Quota.Take(time.Now())
	if err != nil {
		return store.FetchReport{}, fmt.Errorf("%w: %w", ErrBusy, err)
	}
	if !ok {
		return store.FetchReport{}, fmt.Errorf("%w: no more requests for now", ErrBusy)
	}
	timed, cancel := context.WithTimeout(ctx, c.cfg.ErrandTimeout)
	defer cancel()
	got := c.fetch(timed, r, true)
	ticket.Done(got.report.Bytes)
	if got.report.Outcome == store.OutcomeNone {
		return store.FetchReport{}, fmt.Errorf("crawl: errand cut off: %w", context.Canceled)
	}
	if got.err != nil {
		return store.FetchReport{}, got.err
	}
	if got.report.Outcome.Transient() {
		return got.report, nil // the owner tries again; there is nothing to keep
	}
	got.page.Estimation = true
	rec, err := got.page.Record()
	if err != nil {
		return store.FetchReport{}, err
	}
	err = c.cfg.DB.Batch(func(tx *store.Tx) error {
		tx.Count(store.Counters{EstimationsServed: 1})
		return keep(tx, got, rec)
	})
	if err == nil {
		// The owner takes the page off its queue then, and nobody else knows the
		// links to other hosts.
		err = c.cfg.DB.Sync()
	}
	if err != nil {
		c.unstored(r.URL, err)
		return store.FetchReport{}, err
	}
	if r.Kind.Revisit() {
		c.errands.again.Add(r.URL, answer{time.Now(), got.report, got.news()})
	}
	got.report.Links = got.page.Links
	return got.report, nil
}

// remembered returns the report of an errand of the last minutes; of a revisit,
// of as long as its owner may ask again, for then a next one may be due.
func (c *Crawler) remembered(r store.FetchRequest) (rep store.FetchReport, ok bool, err error) {
	p, err := c.kept(r.URL)
	if err != nil {
		return rep, false, err
	}
	if r.Kind.Revisit() {
		a, ok := c.errands.again.Get(r.URL)
		if !ok || time.Since(a.at) > min(errandMemory, 2*c.cfg.ErrandTimeout) {
			return rep, false, nil
		}
		if a.changed {
			a.rep.Links = p.Links
		}
		return a.rep, true, nil
	}
	if !p.Estimation || time.Since(p.FetchedAt) > errandMemory {
		return rep, false, nil
	}
	return store.FetchReport{Outcome: p.Outcome, Status: p.Status, Bytes: p.Bytes, Timing: p.Timing, Links: p.Links,
		Content: store.Content{Digest: p.Digest, Fingerprint: p.Fingerprint, Flags: p.Flags}}, true, nil
}
