package crawl

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/fxamacker/cbor/v2"
	lru "github.com/hashicorp/golang-lru/v2"

	"peerd/crawl/canon"
	"peerd/crawl/fetch"
	"peerd/crawl/frontier"
	"peerd/crawl/robots"
	"peerd/store"
)

// robotsRest is how long an origin counts as down after its robots.txt could
// not be had in MaxTries tries: its URLs are given up at once meanwhile, and
// the host's other origins go on.
const robotsRest = 10 * time.Minute

// originRules is what a robots.txt means to this crawler.
type originRules struct {
	rules   *robots.Rules // nil while the file is unreachable
	delay   time.Duration
	expires time.Time
	used    int           // patience used by tries in a row that found it unreachable
	wait    time.Duration // before the next try
}

// robotsCache holds compiled rules by origin, bounded; the store holds the
// texts.
type robotsCache struct {
	c *lru.Cache[string, originRules]
}

func newRobotsCache(n int) robotsCache {
	c, err := lru.New[string, originRules](n)
	if err != nil {
		panic(err) // only for n <= 0
	}
	return robotsCache{c}
}

// admit says whether the job's URL may be fetched now, and which gap its host
// wants after that. If not, the job was given back: it comes again later, or
// its URL was given up. The error is one of the store.
func (c *Crawler) admit(ctx context.Context, job frontier.Job) (gap time.Duration, ok bool, err error) {
	r, did, err := c.rules(ctx, job)
	back := func(done bool, hostWait time.Duration) {
		if did { // robots.txt was a request like any other
			c.cfg.Frontier.Release(job, done, r.delay, hostWait)
		} else {
			c.cfg.Frontier.Return(job, done)
		}
	}
	switch {
	case err != nil:
		back(false, 0)
	case r.rules == nil && c.spent(r.used):
		err = c.drop(job, store.OutcomeRobotsUnreachable)
		back(err == nil, 0)
	case r.rules == nil || did: // unreachable, cut off, or the gap comes first
		back(false, r.wait)
	case !r.rules.Allowed(c.cfg.Agent, job.Entry.URL):
		err = c.drop(job, store.OutcomeRobotsDenied)
		back(err == nil, 0)
	default:
		return r.delay, true, nil
	}
	return 0, false, err
}

// rules returns what the robots.txt of a job's origin says; did tells that it
// was asked for now. The error is one of the store.
func (c *Crawler) rules(ctx context.Context, job frontier.Job) (r originRules, did bool, err error) {
	origin := job.Entry.URL.Origin()
	old, _ := c.robots.c.Get(origin)
	if time.Now().Before(old.expires) {
		return old, false, nil
	}
	v, err := c.storedRobots(origin)
	if err != nil {
		return r, false, err
	}
	if v == nil {
		did = true
		f := robotsFetcher{c: c, job: job}
		got := robots.Get(ctx, &f, origin)
		switch {
		case got.Unreachable && ctx.Err() != nil:
			return r, true, nil
		case got.Unreachable:
			r, err = c.unreachable(origin, old, &f)
			c.robots.c.Add(origin, r)
			return r, true, err
		}
		rules := got.Compile()
		if err := errors.Join(c.plant(origin, rules), c.keepRobots(origin, got)); err != nil {
			return r, true, err
		}
		r = c.obey(rules, got.Expires)
		c.robots.c.Add(origin, r)
		return r, true, nil
	}
	r = c.obey(v.Compile(), v.Expires)
	c.robots.c.Add(origin, r)
	return r, did, nil
}

// staleRobots is how old a copy of robots.txt may be that stands in for a file
// that cannot be had (RFC 9309, section 2.3.1.4: 30 days).
const staleRobots = 30 * 24 * time.Hour

// unreachable is what follows from one more try in vain: patience, and after
// the last try an old copy of the file if there is one.
func (c *Crawler) unreachable(origin string, old originRules, f *robotsFetcher) (originRules, error) {
	before := old.used
	if c.spent(before) {
		before = 0 // it has rested
	}
	late := f.status == http.StatusTooManyRequests || f.retryAfter > 0
	r := originRules{used: before + c.try(late), wait: c.backOff(before, late, f.retryAfter)}
	if !c.spent(r.used) {
		return r, nil
	}
	r.expires = time.Now().Add(max(robotsRest, f.retryAfter))
	v, err := c.loadRobots(origin)
	if v == nil || time.Since(v.Fetched) > staleRobots {
		return r, err
	}
	c.log.Debug("robots.txt is out of reach; the old one holds", "origin", origin, "fetched", v.Fetched)
	return c.obey(v.Compile(), r.expires), nil
}

// obey is what rules mean until they expire.
func (c *Crawler) obey(rules *robots.Rules, expires time.Time) originRules {
	r := originRules{rules: rules, expires: expires}
	r.delay, _ = rules.CrawlDelay(c.cfg.Agent)
	return r
}

// storedRobots returns the verdict on an origin that is in the store and still
// holds, or nil. It may come from the subnet's last owner: it is believed for
// the usual time and no longer.
func (c *Crawler) storedRobots(origin string) (*robots.Verdict, error) {
	v, err := c.loadRobots(origin)
	if v == nil || err != nil {
		return nil, err
	}
	if last := v.Fetched.Add(robots.Lifetime); v.Expires.After(last) {
		v.Expires = last
	}
	if !time.Now().Before(v.Expires) {
		return nil, nil
	}
	return v, nil
}

// loadRobots returns what the store knows of an origin, however old, or nil.
func (c *Crawler) loadRobots(origin string) (*robots.Verdict, error) {
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
	if err := cbor.Unmarshal(raw, &v); err != nil || v.Unreachable || v.Fetched.After(time.Now()) {
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

// maxSitemaps bounds the sitemaps that one robots.txt may name.
const maxSitemaps = 100

// plant queues the sitemaps that an origin's robots.txt names. It comes before
// the file is kept, so that a crash in between loses none of them.
func (c *Crawler) plant(origin string, rules *robots.Rules) error {
	if !c.cfg.Rules.Sitemaps {
		return nil
	}
	var found []store.Pending
	root := store.URL(origin + "/")
	for _, ref := range rules.Sitemaps() {
		if len(found) == maxSitemaps {
			break
		}
		if u, err := canon.Join(root, ref); err == nil {
			found = append(found, store.Pending{URL: u, Kind: store.KindSitemap})
		}
	}
	return c.routeLinks(c.inScope(found, root), nil)
}

// robotsFetcher fetches one robots.txt and its redirects, with the gap in
// between: at the address that the job has claimed, or at that of the host that
// it is sent to (RFC 9309, section 2.3.1.2, wants redirects to be followed
// across authorities). That host may be another owner's; one request a day is
// what that costs it.
type robotsFetcher struct {
	c   *Crawler
	job frontier.Job

	asked      bool // there was a request before
	status     int  // of the last answer
	retryAfter time.Duration
}

// Fetch does one request.
func (f *robotsFetcher) Fetch(ctx context.Context, u store.URL, maxBody int64) (int, string, []byte, error) {
	addr := f.job.Addr
	if host := u.Host(); host != f.job.Host {
		if f.c.cfg.Resolve == nil {
			return http.StatusNotFound, "", nil, nil
		}
		var err error
		if addr, err = f.c.cfg.Resolve(ctx, host); err != nil {
			return http.StatusNotFound, "", nil, nil // nobody there has rules for us
		}
	}
	if f.asked {
		t := time.NewTimer(f.c.cfg.Gap)
		defer t.Stop()
		select {
		case <-ctx.Done():
			return 0, "", nil, ctx.Err()
		case <-t.C:
		}
	}
	f.asked = true
	timed, cancel := context.WithTimeout(ctx, f.c.cfg.FetchTimeout)
	defer cancel()
	res := f.c.cfg.Fetcher.Do(timed, fetch.Request{URL: u, Addr: addr, MaxBody: maxBody, Keep: f.c.cfg.Archive != nil})
	f.status, f.retryAfter = res.Status, res.RetryAfter
	if err := f.c.archive(&fetched{page: store.Page{URL: u, Outcome: res.Outcome, Timing: res.Timing}}, &res); err != nil {
		f.c.log.Warn("robots.txt could not be archived", "url", u, "err", err)
	}
	if ctx.Err() == nil && addr == f.job.Addr {
		f.c.cfg.Delegate.Observe(f.job.Subnet, "", store.FetchReport{
			Outcome: res.Outcome, Status: res.Status, Bytes: res.Bytes, Timing: res.Timing,
		}, nil)
	}
	if !res.Outcome.Answered() {
		if res.Err == nil {
			res.Err = errors.New(res.Outcome.String())
		}
		return 0, "", nil, res.Err
	}
	return res.Status, res.Location, res.Body, nil
}
