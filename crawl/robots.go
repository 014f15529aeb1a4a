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
	"peerd/crawl/quota"
	"peerd/crawl/resolve"
	"peerd/crawl/robots"
	"peerd/store"
)

// originRules is what a robots.txt means to this crawler. An origin whose file
// could not be had in MaxTries tries, and never was, counts as down for
// robots.RetryUnreachable: its URLs are given up at once meanwhile, and the
// host's other origins go on.
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
	r, asked, err := c.rules(ctx, job)
	back := func(done bool) error {
		if asked == 0 {
			c.cfg.Frontier.Return(job, done)
			return err
		}
		// robots.txt was a request like any other
		wait, failure := c.chargeAlone(job.Host, asked, max(r.wait, r.delay))
		c.cfg.Frontier.Release(job, done, r.delay, wait)
		return errors.Join(err, failure)
	}
	switch {
	case err != nil:
		return 0, false, back(false)
	case r.rules == nil && c.spent(r.used):
		err = c.drop(job, store.OutcomeRobotsUnreachable)
		return 0, false, back(err == nil)
	case r.rules == nil || asked > 0: // unreachable, cut off, or the gap comes first
		return 0, false, back(false)
	case !r.rules.Allowed(c.cfg.Agent, job.Entry.URL):
		err = c.drop(job, store.OutcomeRobotsDenied)
		return 0, false, back(err == nil)
	}
	return r.delay, true, nil
}

// rules returns what the robots.txt of a job's origin says, and how many
// requests that took now. The error is one of the store.
func (c *Crawler) rules(ctx context.Context, job frontier.Job) (r originRules, asked int64, err error) {
	origin := job.Entry.URL.Origin()
	old, _ := c.robots.c.Get(origin)
	if time.Now().Before(old.expires) {
		return old, 0, nil
	}
	known, err := c.loadRobots(origin)
	if err != nil {
		return r, 0, err
	}
	if until := holds(known); time.Now().Before(until) {
		r = c.obey(known.Compile(), until)
		c.robots.c.Add(origin, r)
		return r, 0, nil
	}
	ticket, ok, err := c.afford(ctx)
	if !ok {
		return r, 0, err
	}
	f := robotsFetcher{c: c, job: job, ticket: ticket}
	got := robots.Get(ctx, &f, origin)
	if got.Unreachable && ctx.Err() != nil {
		return r, f.asked, nil
	}
	r, err = c.learn(origin, got, known, old, &f)
	if err == nil {
		c.robots.c.Add(origin, r)
	}
	return r, f.asked, err
}

// learn takes in what a request for robots.txt taught, and keeps it. A file
// that is out of reach has an older one go on to hold, if that is known
// (robots.Verdict.After); else it takes patience, and the origin is down after
// the last try.
func (c *Crawler) learn(origin string, got, known robots.Verdict, old originRules, f *robotsFetcher) (r originRules, err error) {
	v := got.After(known)
	if !got.Unreachable {
		rules := v.Compile()
		return c.obey(rules, v.Expires), errors.Join(c.plant(origin, rules), c.keepRobots(origin, v))
	}
	if rest := v.Fetched.Add(f.retryAfter); rest.After(v.Expires) {
		v.Expires = rest
	}
	if v.Unreachable {
		r = c.unreachable(old, v.Expires, f)
	} else {
		c.log.Debug("robots.txt is out of reach; what was known holds", "origin", origin, "since", v.Since)
		r = c.obey(v.Compile(), v.Expires)
		r.wait = f.retryAfter
	}
	return r, c.keepRobots(origin, v)
}

// unreachable is what follows from one more try in vain: patience, and after
// the last try none until then.
func (c *Crawler) unreachable(old originRules, then time.Time, f *robotsFetcher) originRules {
	before := old.used
	if c.spent(before) {
		before = 0 // it has rested
	}
	late := f.status == http.StatusTooManyRequests || f.retryAfter > 0
	r := originRules{used: before + c.try(late), wait: c.backOff(before, late, f.retryAfter)}
	if c.spent(r.used) {
		r.expires, r.wait = then, f.retryAfter
	}
	return r
}

// obey is what rules mean until they expire.
func (c *Crawler) obey(rules *robots.Rules, expires time.Time) originRules {
	r := originRules{rules: rules, expires: expires}
	r.delay, _ = rules.CrawlDelay(c.cfg.Agent)
	return r
}

// holds returns how long a verdict of the store is believed without a request:
// the usual time and no longer, for it may come from the subnet's last owner,
// and not at all if it only says that the file was out of reach.
func holds(v robots.Verdict) (until time.Time) {
	if v.Unreachable {
		return until
	}
	until = v.Expires
	if last := v.Fetched.Add(robots.Lifetime); until.After(last) {
		until = last
	}
	return until
}

// loadRobots returns what the store knows of an origin, however old; the zero
// Verdict is nothing.
func (c *Crawler) loadRobots(origin string) (v robots.Verdict, err error) {
	var raw []byte
	err = c.cfg.DB.View(func(tx *store.Tx) (err error) {
		raw, err = tx.Robots(origin)
		return err
	})
	if errors.Is(err, store.ErrNotFound) {
		return v, nil
	}
	if err != nil {
		return v, err
	}
	if err := cbor.Unmarshal(raw, &v); err != nil || v.Fetched.After(time.Now()) {
		return robots.Verdict{}, nil // what cannot be read is fetched again
	}
	return v, nil
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

	ticket     quota.Ticket // of the next request
	asked      int64        // requests so far
	status     int          // of the last answer
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
		switch addr, err = f.c.cfg.Resolve(ctx, host); {
		case errors.Is(err, resolve.ErrTemporary):
			return 0, "", nil, err
		case err != nil:
			return http.StatusNotFound, "", nil, nil // nobody there has rules for us
		}
	}
	if f.asked > 0 {
		t := time.NewTimer(f.c.cfg.Gap)
		defer t.Stop()
		select {
		case <-ctx.Done():
			return 0, "", nil, ctx.Err()
		case <-t.C:
		}
		var err error
		if f.ticket, err = f.c.cfg.Quota.Borrow(time.Now()); err != nil {
			return 0, "", nil, err
		}
	}
	f.asked++
	timed, cancel := context.WithTimeout(ctx, f.c.cfg.FetchTimeout)
	defer cancel()
	res := f.c.cfg.Fetcher.Do(timed, fetch.Request{URL: u, Addr: addr, MaxBody: maxBody, Keep: f.c.cfg.Archive != nil})
	f.ticket.Done(res.Bytes)
	f.status, f.retryAfter = res.Status, res.RetryAfter
	if err := f.c.archive(&fetched{page: store.Page{URL: u, Outcome: res.Outcome, Timing: res.Timing}}, &res); err != nil {
		f.c.log.Warn("robots.txt could not be archived", "url", u, "err", err)
	}
	if ctx.Err() == nil && addr == f.job.Addr {
		if silent(res.Outcome) { // a host may have left before anything was fetched there
			f.c.doubt(f.job.Host)
		}
		f.c.cfg.Delegate.Observe(f.job.Subnet, "", store.FetchReport{
			Outcome: res.Outcome, Status: res.Status, Bytes: res.Bytes, Timing: res.Timing,
		}, nil)
	}
	if res.Outcome == store.OutcomeRefused && addr != f.job.Addr {
		return http.StatusNotFound, "", nil, nil // nor there
	}
	if !res.Outcome.Answered() {
		if res.Err == nil {
			res.Err = errors.New(res.Outcome.String())
		}
		return 0, "", nil, res.Err
	}
	return res.Status, res.Location, res.Body, nil
}
