package crawl

import (
	"context"
	"errors"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fxamacker/cbor/v2"
	lru "github.com/hashicorp/golang-lru/v2"

	"peerd/crawl/canon"
	"peerd/crawl/frontier"
	"peerd/crawl/robots"
	"peerd/store"
)

// originRules is what the robots.txt of an origin means to this crawler.
type originRules struct {
	rules   *robots.Rules // nil while the file is unreachable
	delay   time.Duration
	expires time.Time
	failure originFailure
	wait    time.Duration // of the host, before the next request; not cached
	// redirected is the address of the host that answered instead of the job's; not cached.
	redirected netip.Addr
}

// originFailure says why the robots.txt of an origin is unreachable. After Config.Patience the
// URLs of the origin are given up, and those of the other origins of its host are crawled.
type originFailure struct {
	since   time.Time // zero: the file is reachable
	report  store.FetchReport
	givenUp bool
}

// robotsCache has the rules of origins. The store keeps the text of the files.
type robotsCache struct{ originCache[originRules] }

const (
	// robotsCached is the number of origins in the cache.
	robotsCached = 4096
	// robotsCachedBytes bounds the memory of their rules. Those of most files take some
	// kilobytes, those of the largest several megabytes.
	robotsCachedBytes = 64 << 20
)

func newRobotsCache() robotsCache {
	return robotsCache{newOriginCache(robotsCached, robotsCachedBytes, originRules.size)}
}

// size returns the memory of the rules in bytes.
func (r originRules) size() int64 {
	if r.rules == nil {
		return 0
	}
	return int64(r.rules.Size())
}

// add caches the rules of an origin, in place of those that were not used for longest.
func (c robotsCache) add(origin string, r originRules) {
	r.wait = 0
	c.put(origin, r)
}

// originCache is a cache by origin of which the number of values and their size is bounded.
type originCache[V any] struct {
	*lru.Cache[string, V]
	sizeOf func(V) int64 // in bytes
	most   int64
	size   *atomic.Int64 // of all values, in bytes
	adding *sync.Mutex   // held while a value is added
}

func newOriginCache[V any](n int, most int64, sizeOf func(V) int64) originCache[V] {
	size := new(atomic.Int64)
	values, err := lru.NewWithEvict(n, func(_ string, v V) { size.Add(-sizeOf(v)) })
	if err != nil {
		panic(err) // only if n is not positive
	}
	return originCache[V]{values, sizeOf, most, size, new(sync.Mutex)}
}

// put caches a value, in place of those that were not used for longest.
func (c originCache[V]) put(origin string, v V) {
	c.adding.Lock()
	defer c.adding.Unlock()
	c.Remove(origin) // a value that is replaced by Add would keep its size in the sum
	c.size.Add(c.sizeOf(v))
	c.Add(origin, v)
	for c.size.Load() > c.most && c.Len() > 1 {
		c.RemoveOldest()
	}
}

// forget removes the rules of all origins of a host.
func (c robotsCache) forget(host string) {
	for _, origin := range c.Keys() {
		if store.URL(origin).Host() == host {
			c.Remove(origin)
		}
	}
}

// inForce reports whether the rules of an origin of a host are in force.
func (c robotsCache) inForce(host string) bool {
	now := time.Now()
	for _, origin := range c.Keys() {
		r, ok := c.Peek(origin)
		if ok && r.rules != nil && now.Before(r.expires) && store.URL(origin).Host() == host {
			return true
		}
	}
	return false
}

// forgive forgets which files were unreachable.
func (c robotsCache) forgive() {
	for _, origin := range c.Keys() {
		if r, ok := c.Peek(origin); ok && r.rules == nil {
			c.Remove(origin)
		}
	}
}

// checkRobots reports whether the URL of the job may be fetched now, and the minimum gap to the
// next request to its host. If it may not, the job has been returned to the frontier: the URL
// stays queued, or was dropped. Errors are those of the store.
func (c *Crawler) checkRobots(
	ctx context.Context, job frontier.Job,
) (gap time.Duration, ok bool, err error) {
	began := time.Now()
	r, asked, err := c.robotsFor(ctx, job)
	if r.redirected.IsValid() && asked == 0 {
		return 0, false, c.redirectJob(job, r.redirected)
	}
	back := func(done bool) error {
		if asked == 0 && r.wait == 0 {
			c.cfg.Frontier.Return(job, done)
			return err
		}
		// The requests for robots.txt are charged like all others.
		wait, failure := c.chargeSeparately(job.Host, asked, max(r.wait, r.delay))
		c.release(job, done, r.delay, wait)
		return errors.Join(err, failure)
	}
	switch {
	case err != nil:
		return 0, false, back(false)
	case r.redirected.IsValid(): // for a redirect of the file
		err = back(false)
		if err == nil {
			_, err = c.cfg.Frontier.SetHostAddr(job.Host, r.redirected)
		}
		if errors.Is(err, frontier.ErrUnknownHost) { // it has left
			err = nil
		}
		return 0, false, err
	case !r.failure.since.IsZero() && asked > 0:
		return 0, false, c.requeueUnreachable(job, r, asked, began)
	case r.failure.givenUp:
		err = c.drop(job, r.failure.report)
		return 0, false, back(err == nil)
	case !r.failure.since.IsZero():
		return 0, false, c.awaitRobots(job, r.expires)
	case r.rules == nil || asked > 0: // cancelled, or the gap must pass first
		return 0, false, back(false)
	case !r.rules.Allowed(c.cfg.Agent, job.Entry.URL):
		err = c.drop(job, store.FetchReport{Outcome: store.OutcomeRobotsDenied})
		return 0, false, back(err == nil)
	}
	return r.delay, true, nil
}

// robotsFor returns the rules of the origin of a job, and how many requests were sent for them
// now. Errors are those of the store.
func (c *Crawler) robotsFor(
	ctx context.Context, job frontier.Job,
) (r originRules, asked int64, err error) {
	origin := job.Entry.URL.Origin()
	old, _ := c.robots.Get(origin)
	if time.Now().Before(old.expires) {
		return old, 0, nil
	}
	known, err := c.loadRobots(origin)
	if err != nil {
		return r, 0, err
	}
	if until := validUntil(known); time.Now().Before(until) {
		r = c.effectiveRules(known.Compile(), until)
		c.robots.add(origin, r)
		return r, 0, nil
	}
	ticket, ok, err := c.acquire(ctx)
	if !ok {
		return r, 0, err
	}
	f := robotsFetcher{c: c, job: job, ticket: ticket, hasTicket: true}
	got, from := robots.Get(ctx, &f, origin)
	if f.redirected.IsValid() || got.Unreachable && ctx.Err() != nil {
		r.redirected = f.redirected
		return r, f.requests, nil //nolint:nilerr // canceled: nothing is known about the origin
	}
	c.elsewhere.add(f.sharing(got), got)
	r, err = c.updateRobots(origin, got, known, old, &f)
	if err == nil {
		c.robots.add(origin, r)
		err = c.shareRobots(job.Host, from, got)
	}
	return r, f.requests, err
}

// shareRobots stores a result for the other origin of the host from which it came by a redirect,
// typically from HTTP to HTTPS: a request for the robots.txt of that origin would be the same.
func (c *Crawler) shareRobots(host, from string, got robots.Result) error {
	if got.Unreachable || store.URL(from).Host() != host {
		return nil
	}
	if err := c.saveRobots(from, got); err != nil {
		return err
	}
	c.robots.add(from, c.effectiveRules(got.Compile(), got.Expires))
	return nil
}

// updateRobots evaluates and stores the result of fetching a robots.txt. If the file is
// unreachable, an earlier copy stays in force (robots.Result.WithFallback); without one, the URLs
// of the origin wait.
func (c *Crawler) updateRobots(
	origin string, got, known robots.Result, old originRules, f *robotsFetcher,
) (r originRules, err error) {
	result := got.WithFallback(known)
	switch {
	case !got.Unreachable:
		rules := result.Compile()
		return c.effectiveRules(rules, result.Expires),
			errors.Join(c.queueSitemaps(origin, rules), c.saveRobots(origin, result))
	case result.Unreachable:
		return c.unreachableRules(old, f), c.saveRobots(origin, result)
	}
	// The host waits for Retry-After. The rules must not expire at the same moment, or no page
	// would ever be fetched.
	wait := f.retryAfter + robots.RetryUnreachable
	if f.throttled() { // doubles with each request
		wait = max(wait, min(result.Fetched.Sub(result.UnreachableSince), c.cfg.MaxThrottle))
	}
	result.Expires = result.Fetched.Add(wait)
	c.log.Debug("kept earlier rules of unreachable robots.txt",
		"origin", origin, "since", result.UnreachableSince)
	r = c.effectiveRules(result.Compile(), result.Expires)
	r.wait = f.retryAfter
	return r, c.saveRobots(origin, result)
}

// minRobotsThrottle is the first wait after a robots.txt was answered with 429 and without
// Retry-After, if Config.MaxThrottle is not shorter.
const minRobotsThrottle = time.Minute

// unreachableRules returns what follows from a try that found the file unreachable: the origin
// waits for twice as long as before, and is given up for a while after Config.Patience.
func (c *Crawler) unreachableRules(old originRules, f *robotsFetcher) originRules {
	now, before := time.Now(), old.failure.report.Outcome
	r := originRules{failure: originFailure{since: old.failure.since, report: f.unreachable()}}
	switch idle := now.Sub(old.expires); {
	case r.failure.since.IsZero():
		r.failure.since = now
	case idle > c.cfg.Patience/2: // as in nextHealth
		r.failure.since = r.failure.since.Add(idle)
	}
	failing := now.Sub(c.since(r.failure.since))
	first, longest := c.cfg.BackOff, c.cfg.MaxBackOff
	if f.throttled() {
		longest = c.cfg.MaxThrottle
		if f.retryAfter == 0 {
			first = max(first, minRobotsThrottle)
		}
	}
	wait := min(failing+first, longest) // doubles with each request
	if rest := c.cfg.patience(before, f.report.Outcome) - failing; rest > 0 {
		wait = max(c.cfg.within(rest, wait), f.retryAfter)
	} else {
		r.failure.givenUp = true
		wait = max(wait, f.retryAfter, robots.RetryUnreachable)
	}
	r.expires = now.Add(wait)
	return r
}

// awaitRobots ends a job of an origin of which the robots.txt is unreachable and not requested
// before a time. The host waits until then; but if the rules of another of its origins are in
// force, as when only port 80 is closed, the URL leaves the queue for that long instead.
func (c *Crawler) awaitRobots(job frontier.Job, until time.Time) error {
	if c.cfg.TryDelay == 0 || !c.robots.inForce(job.Host) {
		c.cfg.Frontier.SetRetryAt(job.Host, until)
		c.cfg.Frontier.Return(job, false)
		return nil
	}
	e := job.Entry
	if e.First.IsZero() {
		e.First = time.Now()
	}
	err := c.cfg.DB.Batch(func(tx *store.Tx) error {
		return c.planTry(tx, e, store.FetchReport{Outcome: store.OutcomeRobotsUnreachable}, until)
	})
	c.cfg.Frontier.Return(job, err == nil)
	return err
}

// requeueUnreachable ends a job after its robots.txt was requested in vain. Its URL moves to the
// end of the queue, and its host waits as for a page that failed.
func (c *Crawler) requeueUnreachable(
	job frontier.Job, r originRules, asked int64, began time.Time,
) error {
	if c.excused(began) {
		c.robots.Remove(job.Entry.URL.Origin())
		return c.releaseCharged(job, asked, r.delay, r.failure.report.RetryAfter)
	}
	var health store.Health
	var wait time.Duration
	err := c.cfg.DB.Batch(func(tx *store.Tx) (err error) {
		if wait, err = c.charge(tx, job.Host, asked, r.delay); err != nil {
			return err
		}
		if health, _, err = c.updateHealth(tx, job.Host, r.failure.report, began); err != nil {
			return err
		}
		return tx.Requeue(job.Host, job.Entry)
	})
	if err == nil && health.State == store.HostGivenUp {
		err = c.giveUpHost(job, health)
	}
	c.cfg.Frontier.SetRetryAt(job.Host, health.NextTry)
	c.release(job, false, r.delay, c.hostWait(wait, err))
	return err
}

// effectiveRules returns the rules that are in force until they expire.
func (c *Crawler) effectiveRules(rules *robots.Rules, expires time.Time) originRules {
	r := originRules{rules: rules, expires: expires}
	r.delay, _ = rules.CrawlDelay(c.cfg.Agent)
	return r
}

// validUntil returns how long a stored result is used without a request: at most the longest
// lifetime, because the previous owner of the subnet may have stored it, and not at all if the
// file was unreachable.
func validUntil(result robots.Result) (until time.Time) {
	if result.Unreachable {
		return until
	}
	until = result.Expires
	if last := result.Fetched.Add(robots.MaxLifetime); until.After(last) {
		until = last
	}
	return until
}

// loadRobots returns the stored result of an origin, expired or not; the zero value if there is
// none.
func (c *Crawler) loadRobots(origin string) (result robots.Result, err error) {
	var raw []byte
	err = c.cfg.DB.View(func(tx *store.Tx) (err error) {
		raw, err = tx.Robots(origin)
		return err
	})
	if errors.Is(err, store.ErrNotFound) {
		return result, nil
	}
	if err != nil {
		return result, err
	}
	if cbor.Unmarshal(raw, &result) != nil || result.Fetched.After(time.Now()) {
		return robots.Result{}, nil //nolint:nilerr // an unreadable result is fetched again
	}
	return result, nil
}

// SpeaksFor reports whether the robots.txt of u's origin names a peer, by its ID, as one that may
// say which pages have changed. It sends no request: without a copy of the file, the answer is no.
func (c *Crawler) SpeaksFor(peer string, u store.URL) bool {
	origin := u.Origin()
	if r, ok := c.robots.Peek(origin); ok && r.rules != nil {
		return r.rules.NamesPeer(peer)
	}
	known, err := c.loadRobots(origin)
	return err == nil && !known.Unreachable && known.Compile().NamesPeer(peer)
}

func (c *Crawler) saveRobots(origin string, result robots.Result) error {
	raw, err := cbor.Marshal(result)
	if err != nil {
		return err
	}
	return c.cfg.DB.Batch(func(tx *store.Tx) error { return tx.PutRobots(origin, raw) })
}

// maxSitemaps is the maximum number of sitemaps that are queued for one robots.txt.
const maxSitemaps = 100

// queueSitemaps queues the sitemaps that the robots.txt of an origin names. It is called before the
// file is stored, so that a crash in between loses none of them.
func (c *Crawler) queueSitemaps(origin string, rules *robots.Rules) error {
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
	if len(found) == 0 {
		return nil
	}
	return c.routeLinks(c.inScope(found, root), nil, nil)
}
