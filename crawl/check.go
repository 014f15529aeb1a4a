package crawl

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"peerd/crawl/frontier"
	"peerd/internal/lru"
	"peerd/store"
)

// What other peers report about pages that they have fetched for this peer is checked: this peer
// fetches some of the pages itself, and compares. A page that is checked is not removed from the
// queue by the report, but by this peer's own fetch. No peer learns which pages are checked.
//
// A difference does not count if this peer's own copies of the page differ, too: it fetches the
// page a second time, after the usual wait.
//
// A peer is untested until a check has agreed with its report, and all its reports are checked.
// Then a share of them is. After a difference the peer is doubted: all its reports are checked, and
// it is asked for some of the next pages, whatever their subnet and whoever was to fetch them, as
// if it were a scout there. So it soon is trusted again, or a liar: one with too many differences.
// A liar is not asked for a day, and what it has reported since the last check that agreed is
// queued again.

const (
	// maxReporters bounds the peers that are remembered, and maxUnchecked the pages of one that
	// it has reported since the last check.
	maxReporters, maxUnchecked = 512, 256
	// maxClaims bounds the reports that wait for this peer's own fetch, and claimFor is how long
	// one does: its subnet may have left.
	maxClaims, claimFor = 1024, 10 * time.Minute
	// resultsKept is the number of checks of a peer that count, each for resultFor.
	resultsKept, resultFor = 16, 24 * time.Hour
	// A peer is a liar with minLies differences that are more than one in lieShare checks. Pages
	// that are different each time, or in each place, are fewer.
	minLies, lieShare = 2, 4
	// A host gets checkBurst requests for checks at once, and one each checkEvery.
	checkBurst, checkEvery = 32, 10 * time.Second
	maxCheckedHosts        = 4096
	// A doubted peer is asked for the next page once a check has a result, or after askAgain, which
	// doubles with each request up to maxAskAgain. At most maxFollowUps requests to doubted peers
	// are under way: one that does not answer holds up the host for which it was asked.
	askAgain, maxAskAgain = 10 * time.Second, 10 * time.Minute
	maxFollowUps          = 2
)

// Trust is what the checks say of a peer.
type Trust uint8

// The states. The reports of an Untested and of a Doubted peer are all checked. A Doubted peer has
// differences that too few checks have outweighed, but not enough of them for a Liar.
const (
	Untested Trust = iota
	Trusted
	Doubted
	Liar
)

// String returns the word that is shown for t.
func (t Trust) String() string { return [...]string{"untested", "trusted", "doubted", "liar"}[t] }

// A CheckResult is a check of a report.
type CheckResult struct {
	At     time.Time
	URL    store.URL
	Agrees bool
	// Said and Found say what differs.
	Said, Found string
}

// errLied is what the owner of a subnet is told of a report that is not believed.
var errLied = fmt.Errorf("%w: the report is not what this peer finds", ErrNotSent)

// errDoubted is what it is told of a failure that a doubted peer reports: the host is not left
// alone because of that.
var errDoubted = fmt.Errorf("%w: a doubted peer reports a failure", ErrNotSent)

// errNotAsked is what it is told of a peer that is not asked.
var errNotAsked = fmt.Errorf("%w: reports of the peer are not believed", ErrNotSent)

// reporter is a peer that fetches pages for this one.
type reporter struct {
	results   []CheckResult // the newest last
	agreed    int           // checks that have agreed, since it was a liar
	doubted   bool          // the last one has not
	unchecked []store.Entry // reported since the last check that agreed
	// site says that it reports pages of a site on its machine: see sites.go. All it has reported
	// is unchecked. Of the checks that agreed, exact found the same bytes.
	site  bool
	exact int
}

// claim is a report that waits for this peer's own fetch.
type claim struct {
	peer string
	rep  store.FetchReport
	at   time.Time
	// first is what this peer found at first, if that was something else.
	first *store.FetchReport
}

// doubt says when a doubted peer is asked for the next page, at the earliest, and what it waits
// after that.
type doubt struct {
	next time.Time
	wait time.Duration
}

// checker decides which reports are checked. Its methods are safe for concurrent use.
type checker struct {
	share     float64       // of the reports of trusted peers; 0: none is checked at all
	followUps chan struct{} // one for each request to a doubted peer

	mu     sync.Mutex
	peers  *lru.Simple[string, *reporter]
	doubts map[string]doubt // of those of peers that are doubted
	claims map[store.URL]claim
	hosts  *lru.Simple[string, time.Time] // until when the checks so far use up the allowance
}

func newChecker(share float64) *checker {
	k := &checker{share: share, claims: map[store.URL]claim{}, doubts: map[string]doubt{},
		followUps: make(chan struct{}, maxFollowUps),
		hosts:     lru.NewSimple[string, time.Time](maxCheckedHosts, nil)}
	k.peers = lru.NewSimple(maxReporters, func(peer string, _ *reporter) { delete(k.doubts, peer) })
	return k
}

// reporter returns the state of a peer; the caller holds mu.
func (k *checker) reporter(peer string) *reporter {
	r, ok := k.peers.Get(peer)
	if !ok {
		r = &reporter{}
		k.peers.Add(peer, r)
	}
	return r
}

// trust returns the state of a reporter, after old results have been dropped.
func (r *reporter) trust(now time.Time) Trust {
	for len(r.results) > 0 && now.Sub(r.results[0].At) > resultFor {
		r.results = r.results[1:]
	}
	lies := 0
	for _, x := range r.results {
		if !x.Agrees {
			lies++
		}
	}
	switch {
	case r.site && lies > 0, lies >= minLies && lies*lieShare > len(r.results):
		return Liar
	case lies > 0 && (r.doubted || lies*lieShare > len(r.results)):
		return Doubted
	case r.agreed == 0, r.site && r.agreed < sampleFirst:
		return Untested
	}
	return Trusted
}

// handling is what happens with a fetch that another peer is to make.
type handling uint8

const (
	believe  handling = iota // its report counts
	check                    // this peer fetches the page, too
	followUp                 // the same, because the peer is doubted; only suspect decides that
	instead                  // this peer fetches the page in its place
	askOther                 // it is not asked
)

// handle says what happens with a fetch of a host that a peer is to make.
func (k *checker) handle(peer, host string, now time.Time) handling {
	if k.share == 0 {
		return believe
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	r := k.reporter(peer)
	trust := r.trust(now)
	switch {
	case trust == Liar:
		return askOther
	case trust == Trusted && len(r.unchecked) < maxUnchecked && rand.Float64() >= k.share:
		return believe
	}
	waiting := false
	for u, c := range k.claims {
		if now.Sub(c.at) > claimFor {
			delete(k.claims, u)
		} else if c.peer == peer {
			waiting = true
		}
	}
	switch {
	case trust != Trusted && waiting:
		return instead
	case len(k.claims) < maxClaims && k.allow(host, now):
		return check
	case trust == Trusted && len(r.unchecked) < maxUnchecked:
		return believe
	}
	return askOther
}

// suspect returns a doubted peer that is to be asked for the next page of a host; "" if none is.
// The caller calls asked when it was.
func (k *checker) suspect(host string, now time.Time) (peer string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for peer, d := range k.doubts {
		if now.Before(d.next) || len(k.claims) >= maxClaims {
			continue
		}
		select {
		case k.followUps <- struct{}{}:
		default:
			return ""
		}
		if !k.allow(host, now) {
			k.asked()
			return ""
		}
		k.doubts[peer] = doubt{now.Add(d.wait), min(2*d.wait, maxAskAgain)}
		return peer
	}
	return ""
}

// asked ends a request to a peer that suspect has returned.
func (k *checker) asked() { <-k.followUps }

// allow reports whether a host may be requested once more for a check, and if so counts that.
func (k *checker) allow(host string, now time.Time) bool {
	until := k.used(host, now)
	if until.Sub(now) > checkBurst*checkEvery {
		return false
	}
	k.hosts.Add(host, until)
	return true
}

// used returns until when one more check of a host uses up its allowance.
func (k *checker) used(host string, now time.Time) time.Time {
	until, _ := k.hosts.Get(host)
	if until.Before(now) {
		until = now
	}
	return until.Add(checkEvery)
}

// hold keeps a report until this peer has fetched the page.
func (k *checker) hold(peer string, u store.URL, rep store.FetchReport, now time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.claims[u] = claim{peer: peer, rep: rep, at: now}
}

// lookTwice reports whether this peer has to fetch a page once more, because it has found something
// else than was reported, and only once. That counts as a check of the host.
func (k *checker) lookTwice(u store.URL, found store.FetchReport, now time.Time) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	c, ok := k.claims[u]
	if !ok || c.first != nil || c.compare(found, now) != different {
		return false
	}
	c.first = &found
	k.claims[u] = c
	k.hosts.Add(u.Host(), k.used(u.Host(), now))
	return true
}

// compare compares a report with what this peer has found. It is unclear if the page is another one
// each time, or may have changed since.
func (c claim) compare(found store.FetchReport, now time.Time) comparison {
	result := compare(c.rep, found)
	if now.Sub(c.at) > claimFor || result == different && c.first != nil &&
		compare(*c.first, found) != same {
		return unclear
	}
	return result
}

// claimed reports whether a report of u waits for this peer's own fetch.
func (k *checker) claimed(u store.URL) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	_, ok := k.claims[u]
	return ok
}

// take returns the report of u, which waits no longer.
func (k *checker) take(u store.URL) (claim, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	c, ok := k.claims[u]
	delete(k.claims, u)
	return c, ok
}

// believed notes a report that was not checked.
func (k *checker) believed(peer string, e store.Entry) {
	if k.share == 0 {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	r := k.reporter(peer)
	r.unchecked = append(r.unchecked, again(e))
}

// again returns the entry with which a page is queued again.
func again(e store.Entry) store.Entry {
	return store.Entry{URL: e.URL, Depth: e.Depth, Kind: e.Kind, Hops: e.Hops, From: e.From}
}

// enter notes the result of a check. If the peer is a liar now it returns what is to be fetched
// again.
func (k *checker) enter(peer string, x CheckResult) (again []store.Entry) {
	k.mu.Lock()
	defer k.mu.Unlock()
	r := k.reporter(peer)
	again = r.enter(x)
	if r.trust(x.At) == Doubted {
		k.doubts[peer] = doubt{wait: askAgain}
	} else {
		delete(k.doubts, peer)
	}
	return again
}

// enter is checker.enter.
func (r *reporter) enter(x CheckResult) (again []store.Entry) {
	r.results = append(r.results, x)
	r.results = r.results[max(0, len(r.results)-resultsKept):]
	r.doubted = !x.Agrees
	if x.Agrees {
		r.agreed++
	}
	if x.Agrees && !r.site {
		r.unchecked = nil
	}
	if r.trust(x.At) == Liar {
		again, r.unchecked = r.unchecked, nil
		r.agreed, r.exact = 0, 0
	}
	return again
}

// Reporter is what is known of the reports of a peer.
type Reporter struct {
	Trust     Trust
	Unchecked int           // reports since the last check that agreed
	Checks    []CheckResult // the newest last
}

// Reports returns what is known of the reports of a peer; false if it has made none.
func (c *Crawler) Reports(peer string) (Reporter, bool) {
	k := c.checks
	k.mu.Lock()
	defer k.mu.Unlock()
	r, ok := k.peers.Peek(peer)
	if !ok {
		return Reporter{}, false
	}
	t := r.trust(time.Now())
	return Reporter{t, len(r.unchecked), append([]CheckResult(nil), r.results...)}, true
}

// Doubts reports whether a peer is doubted, or a liar.
func (c *Crawler) Doubts(peer string) bool {
	r, _ := c.Reports(peer)
	return r.Trust >= Doubted
}

// checkClaim compares the report of another peer that waits for it with what this peer has found.
// The subnet's owner learns of the report only now, so that no made-up one decides anything.
func (c *Crawler) checkClaim(job frontier.Job, own store.FetchReport) error {
	cl, ok := c.checks.take(job.Entry.URL)
	if !ok {
		return nil
	}
	now := time.Now()
	result := cl.compare(own, now)
	if result == unclear {
		c.cfg.Delegate.Observe(job.Subnet, cl.peer, cl.rep, nil)
		return nil
	}
	x := CheckResult{At: now, URL: job.Entry.URL, Agrees: result == same,
		Said: summary(cl.rep), Found: summary(own)}
	again := c.checks.enter(cl.peer, x)
	if x.Agrees {
		c.cfg.Delegate.Observe(job.Subnet, cl.peer, cl.rep, nil)
		return nil
	}
	c.cfg.Delegate.Observe(job.Subnet, cl.peer, store.FetchReport{}, errLied)
	c.log.Warn("found another page than was reported", "url", x.URL, "peer", cl.peer,
		"said", x.Said, "found", x.Found, "queued_again", len(again))
	return c.fetchAgain(again)
}

// fetchAgain queues pages of our hosts again that another peer claims to have fetched.
func (c *Crawler) fetchAgain(entries []store.Entry) error {
	byHost := map[string][]store.Entry{}
	for _, e := range entries {
		byHost[e.URL.Host()] = append(byHost[e.URL.Host()], e)
	}
	for host, some := range byHost {
		err := c.cfg.Frontier.Update([]string{host}, func(tx *store.Tx, push frontier.Push) error {
			for _, e := range some {
				e.Kind, e.First = e.Kind&^store.KindRevisit, time.Now()
				if err := tx.DeleteVisit(e.URL); err != nil {
					return err
				}
				if _, err := push(host, e); err != nil {
					return err
				}
			}
			return nil
		})
		switch {
		case errors.Is(err, frontier.ErrPaused) || errors.Is(err, frontier.ErrUnknownHost):
			c.log.Warn("did not queue pages again: their host is another peer's", "host", host,
				"pages", len(some))
		case err != nil:
			return err
		}
	}
	return nil
}
