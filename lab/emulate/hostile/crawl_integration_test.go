//go:build integration

package hostile

import (
	"context"
	"errors"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"peerd/node"
	"peerd/node/config"
)

// The limits of the hostile crawls.
const (
	hostileTime = 15 * time.Minute // for crawls that must end
	hostileWait = 4 * time.Second  // for crawls that should still wait then
	hostileSoon = 3 * time.Second  // request timeout in cases that are Slow
	// hostileLater is the request timeout in other cases. It is longer, as large pages
	// take long on a busy machine and a repeated request is a fault.
	hostileLater = 20 * time.Second
	hostileHold  = 12 * time.Second // for one answer of a case that is Slow
	// hostilePatience is the patience with hosts that do not answer. With the scaled back-off
	// it is enough for some tries, also if each takes hostileHold.
	hostilePatience = 15 * time.Second
)

// hostileCrawl is one crawl through several cases and its result.
type hostileCrawl struct {
	cases []string
	limit time.Duration
	// timeout limits one request.
	timeout time.Duration

	web *Web
	sum node.Summary
	err error
}

// TestHostile crawls the hostile web and judges the crawler by its log. All cases that the
// -run flag selects share three crawls: of those that end, those that a timeout ends, and
// those that do not end. Each case has an address of its own.
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
			t.Logf("%d cases in %v: %d pages, outcomes %v", len(c.cases),
				c.sum.Took.Round(time.Millisecond), c.sum.Pages, c.sum.ByOutcome)
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
	for _, c := range Cases() {
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
			requests, sent := 0, int64(0)
			for _, h := range mine.web.Log() {
				if h.Case == c.Name {
					requests++
					sent += h.Sent
				}
			}
			t.Logf("%d requests, %d bytes", requests, sent)
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
			t.Errorf("the crawl of what must wait: %v, want it to be waiting after %v", waiting.err,
				waiting.limit)
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
	if c.web, c.err = Serve(context.Background(), Options{Cases: c.cases}); c.err != nil {
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

// A crawl that is interrupted and resumed does not follow a name to the private address to
// which it resolves after the first lookup.
func TestHostileRebinding(t *testing.T) {
	const name = "rebinding"
	w, err := Serve(t.Context(), Options{Cases: []string{name}})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	home, err := config.Init(filepath.Join(t.TempDir(), "home"))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), hostileTime)
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

// crawlHostile is node.Crawl with the DNS of the web; pages of 0 means all.
func crawlHostile(
	ctx context.Context, home config.Home, w *Web, seeds []string, pages int64,
	timeout time.Duration,
) (node.Summary, error) {
	o := node.CrawlOptions{
		Home: home.Dir, Seeds: seeds, MaxPages: pages, Scope: "any", Config: config.Default(),
		Rules:     config.DefaultProfile(),
		UserAgent: "peerd-test", Emulation: &node.Emulation{Lookup: w.Lookup, TimeScale: 0.02},
	}
	o.Config.Crawl.AllowNet = w.Allow()
	o.Config.Crawl.MinDelay = config.Duration{Duration: 2 * time.Millisecond}
	o.Patience = hostilePatience
	o.Config.Crawl.Timeout = config.Duration{Duration: timeout}
	o.Rules.Politeness.DelayFactor = 0
	return node.Crawl(ctx, o)
}
