package node

import (
	"context"
	"errors"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"peerd/node/config"
	"peerd/node/emulate/hostile"
)

// The limits of the hostile crawls.
const (
	hostileTime  = 60 * time.Second // for everything that must end
	hostileWait  = 4 * time.Second  // for what is right to be still waiting then
	hostileSoon  = 3 * time.Second  // time-out of a request that only a time-out ends
	hostileLater = 20 * time.Second // of all others: on a busy machine a page of megabytes takes its time, and asking again is a fault
	hostileHold  = 10 * time.Second // with one answer that only a time-out ends
)

// hostileCrawl is one crawl through several cases, and what came of it.
type hostileCrawl struct {
	cases []string
	limit time.Duration
	// timeout is that of one request.
	timeout time.Duration

	web *hostile.Web
	sum Summary
	err error
}

// TestHostile crawls a web that is out to harm crawlers, and judges from the
// log of that web. All cases that the -run flag picks share three crawls, those
// that end, those that a time-out ends and those that do not end; each case has
// an address of its own.
func TestHostile(t *testing.T) {
	if testing.Short() {
		t.Skip("a crawl of half a minute")
	}
	before := goleak.IgnoreCurrent()
	ending := &hostileCrawl{limit: hostileTime, timeout: hostileLater}
	slow := &hostileCrawl{limit: hostileTime, timeout: hostileSoon}
	waiting := &hostileCrawl{limit: hostileWait, timeout: hostileSoon}
	all := []*hostileCrawl{ending, slow, waiting}
	t.Cleanup(func() {
		for _, c := range all {
			t.Logf("%d cases in %v: %d pages, outcomes %v", len(c.cases), c.sum.Took.Round(time.Millisecond), c.sum.Pages, c.sum.ByOutcome)
		}
		goleak.VerifyNone(t, before)
	})
	crawl := sync.OnceFunc(func() {
		var wg sync.WaitGroup
		for _, c := range all {
			wg.Go(func() { c.run(t) })
		}
		wg.Wait()
	})
	for _, c := range hostile.Cases() {
		t.Run(c.Name, func(t *testing.T) {
			mine := ending
			switch {
			case c.Waits:
				mine = waiting
			case c.Slow:
				mine = slow
			}
			mine.cases = append(mine.cases, c.Name)
			t.Parallel() // goes on when all cases have entered themselves
			crawl()
			if mine.web == nil {
				t.Fatal(mine.err)
			}
			for _, fault := range mine.web.Judge(c.Name, hostileHold) {
				t.Error(fault)
			}
		})
	}
	t.Run("end", func(t *testing.T) { // of the crawl as a whole
		t.Parallel()
		crawl()
		for _, c := range []*hostileCrawl{ending, slow} {
			if c.err != nil {
				t.Errorf("the crawl of what must end: %v", c.err)
			}
		}
		if len(waiting.cases) > 0 && !errors.Is(waiting.err, context.DeadlineExceeded) {
			t.Errorf("the crawl of what must wait: %v, want it to be waiting after %v", waiting.err, waiting.limit)
		}
	})
}

// run serves the cases and crawls them. It closes the web, which keeps its log.
func (c *hostileCrawl) run(t *testing.T) {
	if len(c.cases) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), c.limit)
	defer cancel()
	if c.web, c.err = hostile.Serve(context.Background(), hostile.Options{Cases: c.cases}); c.err != nil {
		return
	}
	defer c.web.Close()
	var seeds []string
	for _, name := range c.cases {
		seeds = append(seeds, c.web.Seeds(name)...)
	}
	home, err := config.Init(filepath.Join(t.TempDir(), "home"))
	if err != nil {
		c.err = err
		return
	}
	c.sum, c.err = crawlHostile(ctx, home, c.web, seeds, 0, c.timeout)
}

// A name that was good when it was first asked for, and is private each time
// after that, is not followed there by a crawl that is interrupted and goes on.
func TestHostileRebinding(t *testing.T) {
	const name = "rebinding"
	w, err := hostile.Serve(t.Context(), hostile.Options{Cases: []string{name}})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	home, err := config.Init(filepath.Join(t.TempDir(), "home"))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for _, pages := range []int64{5, 10, 0} {
		if _, err := crawlHostile(ctx, home, w, w.Seeds(name), pages, hostileSoon); err != nil {
			t.Fatal(err)
		}
	}
	for _, fault := range w.Judge(name, hostileHold) {
		t.Error(fault)
	}
	t.Logf("%d requests, %d lookups", len(w.Log()), len(w.Lookups()))
}

// crawlHostile is Crawl with the DNS of the web; pages of 0 means all.
func crawlHostile(ctx context.Context, home config.Home, w *hostile.Web, seeds []string, pages int64, timeout time.Duration) (Summary, error) {
	o := CrawlOptions{
		Home: home.Dir, Seeds: seeds, MaxPages: pages, Scope: "any", Config: config.Default(), Rules: config.DefaultProfile(),
		UserAgent: "peerd-test", Emulation: &Emulation{Lookup: w.Lookup, Pace: 0.02},
	}
	o.Config.Crawl.AllowNet = w.Allow()
	o.Config.Crawl.MinDelay = config.Duration{Duration: 2 * time.Millisecond}
	o.Config.Crawl.Timeout = config.Duration{Duration: timeout}
	o.Rules.Politeness.DelayFactor = 0
	o.Rules.Traps.Limits = hostileLimits
	return Crawl(ctx, o)
}

// hostileLimits cut traps within the bounds of the cases. The defaults would
// let each of them have thousands of pages first.
var hostileLimits = map[string]int{
	"dates": 60, "far_dates": 30, "sessions": 20, "tokens": 50, "facets": 60, "orders": 15, "numbers": 80,
	"quota": 220, "domains": 0, "hosts": 60, "generated_hosts": 15, "wildcard_hosts": 5,
}
