package crawl

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/fxamacker/cbor/v2"
	lru "github.com/hashicorp/golang-lru/v2"

	"peerd/crawl/fetch"
	"peerd/crawl/frontier"
	"peerd/crawl/robots"
	"peerd/store"
)

const (
	// robotsTries is how often an unreachable robots.txt is asked for in a
	// row, with the usual back-off, before its origin counts as down.
	robotsTries = 3
	// robotsRest is how long an origin counts as down: its URLs are given up
	// at once meanwhile, and the host's other origins go on.
	robotsRest = 10 * time.Minute
)

// hostRules is what a robots.txt means to this crawler.
type hostRules struct {
	rules    *robots.Rules
	delay    time.Duration
	expires  time.Time
	failures int // fetches in a row that found it unreachable
}

func (r hostRules) allowed(agent string, u store.URL) bool {
	return r.rules.Allowed(agent, u)
}

// robotsCache holds compiled rules, bounded; the store holds the texts.
type robotsCache struct{ c *lru.Cache[string, hostRules] }

func newRobotsCache(n int) robotsCache {
	c, err := lru.New[string, hostRules](n)
	if err != nil {
		panic(err) // only for n <= 0
	}
	return robotsCache{c}
}

// rules returns what the robots.txt of a job's origin says; did tells that it
// had to be fetched for that. The error is one of the store.
func (c *Crawler) rules(ctx context.Context, job frontier.Job) (r hostRules, did bool, err error) {
	origin := job.Entry.URL.Origin()
	old, ok := c.robots.c.Get(origin)
	if ok && time.Now().Before(old.expires) {
		return old, false, nil
	}
	v, err := c.storedRobots(origin)
	if err != nil {
		return r, false, err
	}
	if v == nil || time.Now().After(v.Expires) {
		ctx, cancel := context.WithTimeout(ctx, c.cfg.FetchTimeout)
		defer cancel()
		got := robots.Get(ctx, robotsFetcher{c, job}, origin)
		if got.Unreachable {
			r = hostRules{rules: got.Compile(), failures: old.failures%robotsTries + 1}
			if r.failures == robotsTries {
				r.expires = time.Now().Add(robotsRest)
			}
			if ctx.Err() == nil || context.Cause(ctx) == context.DeadlineExceeded {
				c.robots.c.Add(origin, r)
			}
			return r, true, nil
		}
		if err := c.keepRobots(origin, got); err != nil {
			return r, true, err
		}
		v, did = &got, true
	}
	r = hostRules{rules: v.Compile(), expires: v.Expires}
	if d, ok := r.rules.CrawlDelay(c.cfg.Agent); ok {
		r.delay = d
	}
	c.robots.c.Add(origin, r)
	return r, did, nil
}

func (c *Crawler) storedRobots(origin string) (*robots.Verdict, error) {
	var raw []byte
	err := c.cfg.DB.View(func(tx *store.Tx) (err error) {
		raw, err = tx.Robots(origin)
		return err
	})
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var v robots.Verdict
	if err := cbor.Unmarshal(raw, &v); err != nil {
		return nil, nil // what cannot be read is fetched again
	}
	return &v, nil
}

func (c *Crawler) keepRobots(origin string, v robots.Verdict) error {
	raw, err := cbor.Marshal(v)
	if err != nil {
		return err
	}
	return c.cfg.DB.Update(func(tx *store.Tx) error { return tx.PutRobots(origin, raw) })
}

// robotsFetcher fetches robots.txt and its redirects at the one address that
// the job has claimed. A redirect that leaves the host counts as no robots.txt,
// because that host may be another owner's.
type robotsFetcher struct {
	c   *Crawler
	job frontier.Job
}

func (f robotsFetcher) Fetch(ctx context.Context, u store.URL, maxBody int64) (int, string, []byte, error) {
	if u.Host() != f.job.Host {
		return http.StatusNotFound, "", nil, nil
	}
	res := f.c.cfg.Fetcher.Do(ctx, fetch.Request{URL: u, Addr: f.job.Addr, MaxBody: maxBody})
	f.c.cfg.Delegate.Observe(f.job.Subnet, "", store.FetchReport{
		Outcome: res.Outcome, Status: res.Status, Bytes: res.Bytes, Timing: res.Timing,
	}, nil)
	if !res.Outcome.Answered() {
		if res.Err == nil {
			res.Err = errors.New(res.Outcome.String())
		}
		return 0, "", nil, res.Err
	}
	return res.Status, res.Location, res.Body, nil
}
