package crawl

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"peerd/internal/lru"
	"peerd/store"
)

var (
	// ErrBusy is returned by RemoteFetch if this peer cannot make another fetch now.
	ErrBusy = errors.New("crawl: busy")
	// ErrInvalidRequest is returned by RemoteFetch for a request that it never makes.
	ErrInvalidRequest = errors.New("crawl: invalid request")
)

// remoteReportTTL is how long the answer of a remote fetch is repeated without fetching
// again.
const remoteReportTTL = 10 * time.Minute

// remoteFetches holds the fetches in progress for other peers.
type remoteFetches struct {
	slots chan struct{}

	mu    *sync.Mutex
	byURL map[store.URL]*remoteFetch
	// revisitReports holds the last answers to revisits, which the record of a page cannot
	// tell from those of an earlier fetch.
	revisitReports *lru.Cache[store.URL, savedReport]
}

// revisitReportsHeld is the number of answers to revisits that are remembered.
const revisitReportsHeld = 1024

// savedReport is a report without its links. If the page has changed, its record contains
// them.
type savedReport struct {
	at      time.Time
	rep     store.FetchReport
	changed bool
}

// A remoteFetch is one fetch in progress. Its result may be read when done is closed.
type remoteFetch struct {
	done chan struct{}
	rep  store.FetchReport
	err  error
}

func newRemoteFetches(slots int) remoteFetches {
	return remoteFetches{
		slots: make(chan struct{}, slots), mu: new(sync.Mutex),
		byURL:          map[store.URL]*remoteFetch{},
		revisitReports: lru.New[store.URL, savedReport](revisitReportsHeld),
	}
}

// join returns the remote fetch of u, and whether the caller must run it.
func (s remoteFetches) join(u store.URL) (e *remoteFetch, first bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.byURL[u]; e != nil {
		return e, false
	}
	e = &remoteFetch{done: make(chan struct{})}
	s.byURL[u] = e
	return e, true
}

// end publishes the result of a remote fetch to all that joined it.
func (s remoteFetches) end(u store.URL, e *remoteFetch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.byURL, u)
	close(e.done)
}

// RemoteFetch fetches one URL for the owner of its subnet. This peer stores the page and
// counts it as its own; the report returns the links to the owner, which routes them. A
// repeated request during the fetch, or within ten minutes after it, gets the same answer,
// so a lost answer costs no second request. The request obeys the same clocks, look-up of the
// host and robots.txt as those of this peer for itself; it waits for the clocks for at most
// half of Config.RemoteTimeout. When its turn has come, waits is called, unless it is nil; if it
// returns false the URL is not requested. Nothing was sent if the error wraps ErrBusy or
// ErrInvalidRequest. After any other error a request may have been sent.
func (c *Crawler) RemoteFetch(
	ctx context.Context, r store.FetchRequest, waits func() bool,
) (store.FetchReport, error) {
	if r.Depth < 0 || r.Hops < 0 || r.Kind&^store.KindRevisit != 0 {
		return store.FetchReport{}, fmt.Errorf("%w: depth %d, hops %d, kind %d",
			ErrInvalidRequest, r.Depth, r.Hops, r.Kind)
	}
	if err := c.cfg.Scope.Allows(r.URL, r.Depth); err != nil {
		return store.FetchReport{}, fmt.Errorf("%w: %w", ErrInvalidRequest, err)
	}
	e, first := c.remoteFetches.join(r.URL)
	if first {
		defer c.remoteFetches.end(r.URL, e)
		e.rep, e.err = c.runRemoteFetch(ctx, r, waits)
		return e.rep, e.err
	}
	select {
	case <-ctx.Done():
		return store.FetchReport{}, ctx.Err()
	case <-e.done:
		return e.rep, e.err
	}
}

// runRemoteFetch is RemoteFetch for the caller that runs the fetch.
func (c *Crawler) runRemoteFetch(
	ctx context.Context, r store.FetchRequest, waits func() bool,
) (store.FetchReport, error) {
	if rep, ok, err := c.recentReport(r); !r.File && (err != nil || ok) {
		return rep, err
	}
	if !c.hasSpace() {
		return store.FetchReport{}, ErrBusy
	}
	select {
	case c.remoteFetches.slots <- struct{}{}:
		defer func() { <-c.remoteFetches.slots }()
	default:
		return store.FetchReport{}, ErrBusy
	}
	timed, cancel := context.WithTimeout(ctx, c.cfg.RemoteTimeout)
	defer cancel()
	got, err := c.fetchReserved(timed, r, waits)
	if err != nil {
		return store.FetchReport{}, err
	}
	if got.report.Outcome == store.OutcomeNone {
		return store.FetchReport{}, fmt.Errorf("crawl: remote fetch canceled: %w", context.Canceled)
	}
	if got.err != nil {
		return store.FetchReport{}, got.err
	}
	if findingOf(got.report).failed() || got.report.Outcome == store.OutcomeRobotsDenied {
		return got.report, nil // the owner retries, or drops the URL: nothing to store
	}
	got.page.Estimation = !r.File
	rec, err := got.page.Record()
	if err != nil {
		return store.FetchReport{}, err
	}
	err = c.cfg.DB.Batch(func(tx *store.Tx) error {
		if !r.File {
			tx.Count(store.Counters{EstimationsServed: 1})
		}
		return recordFetch(tx, got, rec)
	})
	if err == nil {
		// The owner will remove the page from its queue, and then only this peer knows the
		// links.
		err = c.cfg.DB.Sync()
	}
	if err != nil {
		c.forgetUnstored(r.URL, err)
		return store.FetchReport{}, err
	}
	c.reportFetched(got, nil)
	if r.Kind.Revisit() && !r.File {
		c.remoteFetches.revisitReports.Add(r.URL,
			savedReport{time.Now(), got.report, got.replacesRecord()})
	}
	got.report.Links = got.page.Links
	return got.report, nil
}

// recentReport returns the report of a recent remote fetch. Revisits are remembered only as
// long as the owner may repeat the request, because afterwards the next visit may be due.
func (c *Crawler) recentReport(r store.FetchRequest) (rep store.FetchReport, ok bool, err error) {
	p, err := c.storedPage(r.URL)
	if err != nil {
		return rep, false, err
	}
	if r.Kind.Revisit() {
		a, ok := c.remoteFetches.revisitReports.Get(r.URL)
		if !ok || time.Since(a.at) > min(remoteReportTTL, 2*c.cfg.RemoteTimeout) {
			return rep, false, nil
		}
		if a.changed {
			a.rep.Links = p.Links
		}
		return a.rep, true, nil
	}
	if !p.Estimation || time.Since(p.FetchedAt) > remoteReportTTL {
		return rep, false, nil
	}
	rep = store.FetchReport{
		Outcome: p.Outcome, Status: p.Status, Bytes: p.Bytes, Timing: p.Timing, Links: p.Links,
		Content: store.Content{Digest: p.Digest, Fingerprint: p.Fingerprint, Flags: p.Flags},
	}
	return rep, true, nil
}
