package web

import (
	"context"
	"io"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	_ "peerd/internal/rapidtest"
)

const ms = time.Millisecond

func TestJudge(t *testing.T) {
	t.Parallel()
	zero := time.Now()
	hit := func(host string, addr byte, start, end int) Hit {
		h := Hit{Site: 0, Host: host, Addr: netip.AddrFrom4([4]byte{127, 0, 0, addr}),
			Start: zero.Add(time.Duration(start) * ms)}
		if end >= 0 {
			h.End = zero.Add(time.Duration(end) * ms)
		}
		return h
	}
	bare := func(addr byte, start int) Hit {
		h := hit("", addr, start, start)
		h.Site, h.Bare = -1, true
		return h
	}
	l := limits{hostGap: func(int) time.Duration { return 40 * ms }, addrGap: 40 * ms,
		domains: map[netip.Addr]int{hit("", 4, 0, 0).Addr: 4}}
	for _, c := range []struct {
		name string
		hits []Hit
		want Politeness
	}{
		{"nothing", nil, Politeness{}},
		{"exactly the gap", []Hit{hit("a", 1, 0, 10), hit("a", 1, 50, 60)}, Politeness{}},
		{"a moment too soon", []Hit{hit("a", 1, 0, 10), hit("a", 1, 49, 60)},
			Politeness{Violations: 1, ByHost: 1, ByAddr: 1}},
		{"overlap", []Hit{hit("a", 1, 0, 100), hit("a", 1, 90, 95)},
			Politeness{Violations: 1, ByHost: 1, ByAddr: 1, Overlaps: 1}},
		{"the long one counts", []Hit{hit("a", 1, 0, 100), hit("a", 1, 10, 20),
			hit("a", 1, 70, 80)}, Politeness{Violations: 2, ByHost: 2, ByAddr: 2, Overlaps: 2}},
		{"different places", []Hit{hit("a", 1, 0, 10), hit("b", 2, 0, 10)}, Politeness{}},
		{"two hosts at one address", []Hit{hit("a", 1, 0, 10), hit("b", 1, 20, 30)},
			Politeness{Violations: 1, ByAddr: 1}},
		{"one host at two addresses", []Hit{hit("a", 1, 0, 10), hit("a", 2, 20, 30)},
			Politeness{Violations: 1, ByHost: 1}},
		{"under way", []Hit{hit("a", 1, 0, -1), hit("a", 1, 900, 910), hit("a", 1, 2000, 2010)},
			Politeness{Violations: 2, ByHost: 2, ByAddr: 2, Overlaps: 2}},
		{"bare, and the gap after it", []Hit{bare(1, 0), hit("a", 1, 40, 50), bare(1, 90)},
			Politeness{}},
		{"bare, too soon", []Hit{hit("a", 1, 0, 10), bare(1, 49), bare(2, 49)},
			Politeness{Violations: 1, ByAddr: 1}},
		{"bare, before the answer", []Hit{hit("a", 1, 0, 60), bare(1, 50)},
			Politeness{Violations: 1, ByAddr: 1, Overlaps: 1}},
		{"two at a time where there are four domains", []Hit{hit("a", 4, 0, 10), hit("b", 4, 5, 30),
			hit("a", 4, 50, 60), hit("c", 4, 70, 80)}, Politeness{}},
		{"three there", []Hit{hit("a", 4, 0, 10), hit("b", 4, 5, -1), hit("c", 4, 8, 9),
			bare(4, 50), bare(4, 89)}, Politeness{Violations: 2, ByAddr: 2, Overlaps: 1}},
		{"two at a time of one host there", []Hit{hit("a", 4, 0, 10), hit("a", 4, 20, 30)},
			Politeness{Violations: 1, ByHost: 1}},
		{"entered late", []Hit{hit("a", 1, 50, 60), hit("a", 1, 0, 10)}, Politeness{}},
	} {
		if got := judge(c.hits, l, func(Early) {}); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}

// A schedule that keeps the delay has no violations, and moving one request into the
// delay of another is always detected.
func TestJudgeProperty(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		gap := time.Duration(rapid.IntRange(2, 50).Draw(t, "gap")) * ms
		now := time.Now()
		var hits []Hit
		for range rapid.IntRange(2, 20).Draw(t, "n") {
			end := now.Add(time.Duration(rapid.IntRange(0, 30).Draw(t, "took")) * ms)
			hits = append(hits, Hit{Host: "a", Start: now, End: end})
			now = end.Add(gap + time.Duration(rapid.IntRange(0, 9).Draw(t, "idle"))*ms)
		}
		l := limits{hostGap: func(int) time.Duration { return gap }, addrGap: gap}
		if got := judge(hits, l, func(Early) {}); got != (Politeness{}) {
			t.Fatalf("polite schedule: got %+v, want no violations", got)
		}
		i := rapid.IntRange(1, len(hits)-1).Draw(t, "i")
		hits[i].Start = hits[i-1].End.Add(gap - 1)
		if got := judge(hits, l, func(Early) {}); got.Violations == 0 {
			t.Fatal("early request was not detected")
		}
	})
}

// A client that waits exactly the delay after the last byte has no violations, because the
// end in the log is before the last byte is sent.
func TestPoliteClientPasses(t *testing.T) {
	t.Parallel()
	cfg := testConfig(2, 120, 1)
	cfg.MinDelay = 2 * ms
	w := serve(t, cfg)
	c := client(t, w)
	for u := range w.Pages() {
		get(t, c, u)
		pause(cfg.MinDelay)
	}
	if a := w.Audit(); a.Politeness != (Politeness{}) || a.PagesFetched != 120 {
		t.Errorf("%+v", a)
	}
}

func TestAuditCatches(t *testing.T) {
	t.Parallel()
	cfg := testConfig(3, 60, 1)
	cfg.MinDelay = 300 * ms
	w := serve(t, cfg)
	c := client(t, w)

	get(t, c, w.Seed())
	get(t, c, w.Seed())
	a := w.Audit()
	if a.Politeness.Violations != 1 || a.Politeness.Overlaps != 0 || a.Fetches != 2 ||
		a.PagesFetched != 1 {
		t.Errorf("twice in a row: %+v", a)
	}
	if len(a.TooEarly) != 1 || strings.Count(a.TooEarly[0], " by 127.0.0.1") != 2 ||
		!strings.Contains(a.TooEarly[0], "s after ") {
		t.Errorf("too early: %q", a.TooEarly)
	}
	if hits := w.Log(); hits[0].Reused || !hits[1].Reused ||
		hits[1].Peer != netip.MustParseAddr("127.0.0.1") || !hits[1].Page {
		t.Errorf("log: %+v", hits)
	}
	get(t, c, w.Sites()[0].URL+"private/amber/")
	get(t, c, w.Sites()[2].URL+"private/amber/") // no robots.txt there, and no such page
	if a = w.Audit(); a.RobotsViolations != 1 || a.Fetches != 2 {
		t.Errorf("forbidden: %+v", a)
	}
	get(t, c, w.Sites()[1].URL+"img/x.png")
	if got := w.Audit(); got.Fetches != 2 || got.Requests != 5 {
		t.Errorf("no page: %+v", got)
	}
}

func TestAuditCatchesOverlaps(t *testing.T) {
	t.Parallel()
	cfg := testConfig(1, 10, 1)
	cfg.Delay = 200 * ms
	w := serve(t, cfg)
	c := client(t, w)
	var both sync.WaitGroup
	for range 2 {
		both.Go(func() {
			resp, err := c.Get(w.Seed())
			if err != nil {
				t.Error(err)
				return
			}
			_, _ = io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
		})
	}
	both.Wait()
	if p := w.Audit().Politeness; p.Violations != 1 || p.Overlaps != 1 {
		t.Errorf("unexpected politeness %+v", p)
	}
}

// A client that disconnects before the answer has fetched no page.
func TestClientThatLeavesFetchesNothing(t *testing.T) {
	t.Parallel()
	cfg := testConfig(1, 10, 1)
	cfg.Delay = time.Minute
	w := serve(t, cfg)
	c := client(t, w)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		for len(w.Log()) == 0 && ctx.Err() == nil { // until it was asked
			pause(ms)
		}
		cancel()
	}()
	req, _ := http.NewRequestWithContext(ctx, http.MethodGet, w.Seed(), nil)
	if _, err := c.Do(req); err == nil {
		t.Fatal("got an answer, want an error")
	}
	for w.Log()[0].End.IsZero() { // until the server has noticed
		pause(ms)
	}
	if a := w.Audit(); a.Fetches != 0 || a.Requests != 1 || w.Log()[0].Status != 0 {
		t.Errorf("unexpected audit %+v, log %+v", a, w.Log())
	}
}
