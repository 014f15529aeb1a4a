package revisit

import (
	"math"
	"testing"
	"time"

	"github.com/fxamacker/cbor/v2"
	"pgregory.net/rapid"

	_ "peerd/internal/rapidtest"
	"peerd/store"
)

var page = store.URL("http://example.org/").Digest()

// visits makes n visits at the times that the policy plans and returns the intervals.
func visits(
	t *testing.T, p Policy, h *History, n int, see func(i int, at time.Time) Observation,
) (gaps []time.Duration) {
	t.Helper()
	at := start
	for i := range n {
		h.Observe(at, see(i, at))
		next, ok := p.Next(*h, page)
		if !ok {
			break
		}
		gaps = append(gaps, next.Sub(at))
		at = next
	}
	return gaps
}

func content(i int) Observation { return Observation{Digest: [16]byte{byte(i), byte(i >> 8), 1}} }

func TestDefaultPolicy(t *testing.T) {
	t.Parallel()
	p := DefaultPolicy()
	if err := p.Validate(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ rate, want float64 }{{1, 11}, {1. / 7, 27}, {1. / 365, 8 * 24}} {
		if got := p.Interval(c.rate).Hours(); math.Abs(got/c.want-1) > 0.1 {
			t.Errorf("%g changes a day: interval %.0f h, want %.0f as documented",
				c.rate, got, c.want)
		}
	}
}

func TestValidate(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*Policy){
		"min":     func(p *Policy) { p.Min = 0 },
		"initial": func(p *Policy) { p.Initial = p.Min - 1 },
		"max":     func(p *Policy) { p.Max = p.Initial - 1 },
		"ages":    func(p *Policy) { p.Max = math.MaxInt64 },
		"price":   func(p *Policy) { p.Price = 0 },
		"confirm": func(p *Policy) { p.Confirm = 0 },
	} {
		p := DefaultPolicy()
		if change(&p); p.Validate() == nil {
			t.Errorf("%s: Validate() = nil, want an error", name)
		}
	}
}

func TestNextNeverVisited(t *testing.T) {
	t.Parallel()
	if at, ok := DefaultPolicy().Next(History{}, page); !at.IsZero() || !ok {
		t.Errorf("Next() = %v, %v, want the zero time", at, ok)
	}
}

func TestUnchangedPageIsVisitedRarely(t *testing.T) {
	t.Parallel()
	p := DefaultPolicy()
	gaps := visits(t, p, new(History), 30, func(int, time.Time) Observation { return content(0) })
	if d := gaps[0]; d < p.Initial*9/10 || d > p.Initial*11/10 {
		t.Errorf("first interval %v", d)
	}
	for i := 5; i < len(gaps); i++ {
		if gaps[i] < gaps[i-5]*8/10 { // jitter
			t.Errorf("interval %d is %v, shorter than %v before", i, gaps[i], gaps[i-5])
		}
	}
	if last := gaps[len(gaps)-1]; last < 5*p.Initial/2 {
		t.Errorf("last interval %v", last)
	}
}

// The interval of a page that changes daily converges to the optimum. When the page stops
// changing, its interval grows again.
func TestIntervalFollowsRate(t *testing.T) {
	t.Parallel()
	p := DefaultPolicy()
	var h History
	daily := func(_ int, at time.Time) Observation { return content(int(at.Unix() / day)) }
	gaps := visits(t, p, &h, 200, daily)
	if got, want := gaps[len(gaps)-1], p.Interval(1); got < want/2 || got > 2*want {
		t.Errorf("page changes daily: interval %v, want about %v", got, want)
	}
	for range 150 {
		at, _ := p.Next(h, page)
		h.Observe(at, content(1))
	}
	if at, _ := p.Next(h, page); at.Sub(time.Unix(h.Fetched, 0)) < 4*p.Interval(1) {
		t.Errorf("page stopped changing: interval %v", at.Sub(time.Unix(h.Fetched, 0)))
	}
}

// A page that is new at every visit is too fast to be kept fresh, but is still visited.
func TestFastPage(t *testing.T) {
	t.Parallel()
	p := DefaultPolicy()
	gaps := visits(t, p, new(History), 100, func(i int, _ time.Time) Observation {
		return content(i)
	})
	for _, d := range gaps {
		if d > p.Initial*11/10 {
			t.Errorf("interval %v", d)
		}
	}
	// beyond the peak; the last ones are not worth a visit
	for _, rate := range []float64{7, 20, 1e6} {
		if d := p.Interval(rate); d > p.Initial {
			t.Errorf("%g changes a day: each %v", rate, d)
		}
	}
}

func TestDateGivesRateAtOnce(t *testing.T) {
	t.Parallel()
	p := DefaultPolicy()
	next := func(age time.Duration) time.Duration {
		var h History
		o := content(1)
		o.LastModified = start.Add(-age).UTC().Format("Mon, 02 Jan 2006 15:04:05 GMT")
		h.Observe(start, o)
		at, _ := p.Next(h, page)
		return at.Sub(start)
	}
	fresh, old := next(time.Hour), next(1000*24*time.Hour)
	if old < 3*p.Initial || fresh > p.Initial {
		t.Errorf("changed an hour ago: %v; 1000 days ago: %v", fresh, old)
	}
}

// Dates of answers are not dates of changes.
func TestMisdated(t *testing.T) {
	t.Parallel()
	p := DefaultPolicy()
	dated := func(i int, at time.Time) Observation {
		o := content(0)
		o.LastModified = at.Add(-time.Minute).UTC().Format("Mon, 02 Jan 2006 15:04:05 GMT")
		return o
	}
	var h History
	gaps := visits(t, p, &h, 20, dated)
	if !h.Misdated || gaps[len(gaps)-1] < 2*p.Initial {
		t.Errorf("misdated %v, last interval %v", h.Misdated, gaps[len(gaps)-1])
	}
}

func TestFailuresBackOff(t *testing.T) {
	t.Parallel()
	p := DefaultPolicy()
	var h History
	h.Observe(start, content(1))
	at, want := start, p.Min
	for i := range 20 {
		at = at.Add(time.Hour)
		h.Observe(at, Observation{Outcome: Failed})
		next, ok := p.Next(h, page)
		if d := next.Sub(at); !ok || d < want*9/10 || d > min(want*11/10, p.Max) {
			t.Errorf("after %d failures %v, want about %v", i+1, d, want)
		}
		want = min(2*want, p.Max)
	}
	before := h.Evidence.visits()
	h.Observe(at.Add(time.Hour), content(1))
	if h.Failures != 0 || h.Evidence.visits() != before+1 {
		t.Errorf("%+v", h)
	}
}

func TestGone(t *testing.T) {
	t.Parallel()
	p := DefaultPolicy()
	var h History
	gone := Observation{Outcome: Gone}
	h.Observe(start, content(1))
	h.Observe(start.Add(1*time.Hour), gone)
	h.Observe(start.Add(2*time.Hour), gone)
	h.Observe(start.Add(3*time.Hour), content(1))
	for i := range p.Confirm {
		if at, ok := p.Next(h, page); !ok || i > 0 &&
			at.Sub(time.Unix(h.Tried, 0)) < p.Initial*9/10 {
			t.Fatalf("after %d answers 404: Next() = %v, %v", i, at, ok)
		}
		h.Observe(start.Add(time.Duration(4+i)*time.Hour), gone)
		// confirms nothing
		h.Observe(start.Add(time.Duration(4+i)*time.Hour), Observation{Outcome: Failed})
		h.Failures = 0
	}
	if _, ok := p.Next(h, page); ok {
		t.Error("page is not dropped")
	}
}

func TestHintBringsForward(t *testing.T) {
	t.Parallel()
	p := DefaultPolicy()
	var h History
	h.Observe(start, content(0))
	for i := range 10 { // unchanged: long intervals
		h.Observe(start.Add(time.Duration(i+1)*240*time.Hour), content(0))
	}
	last := time.Unix(h.Fetched, 0)
	plain, _ := p.Next(h, page)
	hinted := func(h History) time.Time {
		h.AddHint(last.Add(48*time.Hour), Hint{LastMod: last.Add(36 * time.Hour)})
		at, _ := p.Next(h, page)
		return at
	}
	unknown := hinted(h)
	h.Right = 10
	right := hinted(h)
	h.Right, h.Wrong = 0, 10
	wrong := hinted(h)
	if !right.Before(unknown) || !unknown.Before(plain) || !wrong.Equal(plain) {
		t.Errorf("no hint %v, unknown %v, right %v, wrong %v", plain, unknown, right, wrong)
	}
	if right.Before(last.Add(32 * time.Hour)) {
		t.Errorf("%v is before the change", right)
	}
	h.AddHint(last.Add(time.Hour), Hint{LastMod: last.Add(time.Hour + time.Second)})
	if h.Hinted != 0 {
		t.Error("a change in the future was recorded")
	}
}

func TestHintsAreScored(t *testing.T) {
	t.Parallel()
	var h History
	h.Observe(start, content(0))
	for i := range 100 {
		at := start.Add(time.Duration(i+1) * 24 * time.Hour)
		h.AddHint(at, Hint{LastMod: at.Add(-time.Hour)})
		h.Observe(at, content(0))
	}
	if h.Right != 0 || h.Wrong == 0 || h.trust() != 0 {
		t.Fatalf("always wrong: right %d, wrong %d", h.Right, h.Wrong)
	}
	for i := range 20 {
		at := start.Add(time.Duration(i+101) * 24 * time.Hour)
		h.AddHint(at, Hint{LastMod: at.Add(-time.Hour)})
		h.Observe(at, content(i+1))
	}
	if h.trust() < 0.5 {
		t.Errorf("right 20 times: trust %.2f", h.trust())
	}
	right, wrong := h.Right, h.Wrong
	h.Observe(start.Add(200*24*time.Hour), content(99)) // no hint
	if h.Right != right || h.Wrong != wrong {
		t.Error("scored without a hint")
	}
}

// A page of a site with true hints is visited soon after the first one that names a change; one of
// a site with false hints is not, nor is one of which the own hints are false.
func TestHintsOfSite(t *testing.T) {
	t.Parallel()
	p := DefaultPolicy()
	wait := func(site Score, wrong uint8) time.Duration {
		var h History
		h.Observe(start, content(0))
		h.Wrong = wrong
		h.AddHint(start.Add(25*time.Hour), Hint{LastMod: start.Add(24 * time.Hour), Site: site})
		at, _ := p.Next(h, page)
		return at.Sub(start.Add(24 * time.Hour))
	}
	var score [2]Score
	for range 100 {
		score[0], score[1] = score[0].Add(false, MaxSiteHints), score[1].Add(true, MaxSiteHints)
	}
	if n := score[1].total(); n > MaxSiteHints || n < MaxSiteHints/2 {
		t.Errorf("%.0f hints are counted", n)
	}
	unknown := wait(Score{}, 0)
	if good := wait(score[1], 0); good > 6*time.Hour {
		t.Errorf("visited %v after the change, by the sitemap of a site that is right", good)
	}
	if bad := wait(score[0], 0); bad <= unknown || unknown < 20*time.Hour {
		t.Errorf("visited %v after a change, of a site that is wrong; %v of an unknown one", bad,
			unknown)
	}
	if own := wait(score[1], maxScoredHints); own < 12*time.Hour {
		t.Errorf("visited %v after a change, of a page with false hints", own)
	}
}

func TestPeriodIsOnlyAPrior(t *testing.T) {
	t.Parallel()
	p := DefaultPolicy()
	gap := func(period time.Duration, n int) time.Duration {
		var h History
		h.AddHint(start, Hint{Period: period})
		gaps := visits(t, p, &h, n, func(int, time.Time) Observation { return content(0) })
		return gaps[n-1]
	}
	if a, b := gap(24*time.Hour, 1), gap(0, 1); a >= b {
		t.Errorf("hint daily: %v, no hint: %v", a, b)
	}
	if a, b := gap(365*24*time.Hour, 1), gap(0, 1); a != b {
		t.Errorf("hint yearly: %v, no hint: %v", a, b)
	}
	var h History
	h.Observe(start, content(0))
	plain, _ := p.Next(h, page)
	h.Wrong, h.Period = 10, 3600
	if at, _ := p.Next(h, page); !at.Equal(plain) {
		t.Errorf("no hint: %v, hint of an untrusted sitemap: %v", plain, at)
	}
	if a, b := gap(time.Second, 30), gap(0, 30); a < b/2 {
		t.Errorf("after 30 visits, hint always: %v, no hint: %v", a, b)
	}
}

func TestNextIsBounded(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		hours := func(name string, lo, hi int) time.Duration {
			return time.Duration(rapid.IntRange(lo, hi).Draw(t, name)) * time.Hour
		}
		p := Policy{Min: hours("min", 1, 48), Price: hours("price", 1, 100), Confirm: 2}
		p.Initial = p.Min + hours("initial", 0, 500)
		p.Max = p.Initial + hours("max", 0, 5000)
		if err := p.Validate(); err != nil {
			t.Fatal(err)
		}
		var h History
		at := start
		for range rapid.IntRange(1, 80).Draw(t, "visits") {
			at = at.Add(hours("gap", 0, 2000))
			if rapid.Bool().Draw(t, "hint") {
				h.AddHint(at, Hint{LastMod: at.Add(-hours("age", 0, 3000)),
					Period: hours("period", 0, 1000)})
			}
			o := content(rapid.IntRange(0, 2).Draw(t, "content"))
			o.Outcome = Outcome(rapid.SampledFrom([]int{0, 0, 0, 0, 1, 1, 2, 3}).Draw(t, "outcome"))
			if rapid.Bool().Draw(t, "dated") {
				o.LastModified = at.Add(-hours("modified", 0, 3000)).UTC().Format(
					"Mon, 02 Jan 2006 15:04:05 GMT")
			}
			h.Observe(at, o)
			next, ok := p.Next(h, page)
			again, _ := p.Next(h, page)
			if !next.Equal(again) {
				t.Fatal("Next() is not deterministic")
			}
			if ok != (h.Gone < 2) {
				t.Fatalf("dropped: %v, gone %d", !ok, h.Gone)
			}
			if d := next.Sub(at); ok && (d < p.Min || d > p.Max) {
				t.Fatalf("%v is not within [%v, %v]", d, p.Min, p.Max)
			}
		}
	})
}

func TestJitterSpreads(t *testing.T) {
	t.Parallel()
	p := DefaultPolicy()
	seen := map[time.Duration]bool{}
	for i := range 100 {
		var h History
		h.Observe(start, content(0))
		at, _ := p.Next(h, store.Digest{byte(i)})
		seen[at.Sub(start)] = true
	}
	if len(seen) < 95 {
		t.Errorf("100 pages are due at only %d different times", len(seen))
	}
}

func TestHistorySize(t *testing.T) {
	t.Parallel()
	p := DefaultPolicy()
	var plain, dated History
	visits(t, p, &plain, 100, func(i int, at time.Time) Observation {
		return content(int(at.Unix() / (5 * day)))
	})
	visits(t, p, &dated, 100, func(i int, at time.Time) Observation {
		o := content(int(at.Unix() / (5 * day)))
		o.ETag = `"5f3a1b2c-1a2b3c4d5e6f"`
		o.LastModified = at.Truncate(5 * 24 * time.Hour).Format("Mon, 02 Jan 2006 15:04:05 GMT")
		o.Fingerprint = math.MaxUint64
		return o
	})
	for name, h := range map[string]History{"plain": plain,
		"dated, tagged, with fingerprint": dated} {
		data, err := cbor.Marshal(h)
		var back History
		if err != nil || cbor.Unmarshal(data, &back) != nil {
			t.Fatal(err)
		}
		a, _ := p.Next(h, page)
		if b, _ := p.Next(back, page); !a.Equal(b) {
			t.Errorf("%s: %v, read back %v", name, a, b)
		}
		t.Logf("%s: %d bytes", name, len(data))
		if len(data) > 130 {
			t.Errorf("%s: %d bytes", name, len(data))
		}
	}
	if data, _ := cbor.Marshal(History{}); len(data) != 1 {
		t.Errorf("empty: %d bytes", len(data))
	}
}

func TestCopiesAreIndependent(t *testing.T) {
	t.Parallel()
	var h History
	h.Observe(start, content(0))
	h.Observe(start.Add(time.Hour), content(1))
	before := h.Evidence.rate()
	c := h
	c.Observe(start.Add(2*time.Hour), content(2))
	if h.Evidence.rate() != before {
		t.Error("a visit to the copy changed the original")
	}
}

func BenchmarkNext(b *testing.B) {
	p := DefaultPolicy()
	var h History
	for i := range 30 {
		h.Observe(start.Add(time.Duration(i*i)*time.Hour), content(i/2))
	}
	for b.Loop() {
		p.Next(h, page)
	}
}
