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

// changing is a page that changes so many times a day.
func changing(rate float64) func(int, time.Time) Observation {
	return func(_ int, at time.Time) Observation {
		return content(int(float64(at.Unix()) * rate / 86400))
	}
}

func TestValidate(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*Policy){
		"min":     func(p *Policy) { p.Min = 0 },
		"initial": func(p *Policy) { p.Initial = p.Min - 1 },
		"max":     func(p *Policy) { p.Max = p.Initial - 1 },
		"ages":    func(p *Policy) { p.Max = math.MaxInt64 },
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
	gaps := visits(t, p, new(History), 30, changing(0))
	if d := gaps[0]; d < p.Initial*9/10 || d > p.Initial*11/10 {
		t.Errorf("first interval %v", d)
	}
	for i := 5; i < len(gaps); i++ {
		if gaps[i] < gaps[i-5]*8/10 { // jitter
			t.Errorf("interval %d is %v, shorter than %v before", i, gaps[i], gaps[i-5])
		}
	}
	if last := gaps[len(gaps)-1]; last < 5*p.Initial {
		t.Errorf("last interval %v", last)
	}
}

// The interval of a page follows its rate of change, and grows again when the page stops changing.
func TestIntervalFollowsRate(t *testing.T) {
	t.Parallel()
	p := DefaultPolicy()
	for rate, want := range map[float64]time.Duration{1: 24 * time.Hour, 1. / 7: 110 * time.Hour,
		1. / 365: 33 * 24 * time.Hour} {
		var h History
		gaps := visits(t, p, &h, 200, changing(rate))
		sum := time.Duration(0)
		for _, d := range gaps[100:] {
			sum += d
		}
		if got := sum / 100; got < want*2/3 || got > want*3/2 {
			t.Errorf("%.4f changes a day: interval %v, want about %v as documented", rate, got,
				want)
		}
		before := gaps[len(gaps)-1]
		gaps = visits(t, p, &h, 150, changing(0))
		if gaps[149] < 2*before && gaps[149] < p.Max*8/10 {
			t.Errorf("page stopped changing: interval %v, before %v", gaps[149], before)
		}
	}
}

// A page that is new at every visit is not visited all the time, nor rarely.
func TestFastPage(t *testing.T) {
	t.Parallel()
	p := DefaultPolicy()
	gaps := visits(t, p, new(History), 100, func(i int, _ time.Time) Observation {
		return content(i)
	})
	for i, d := range gaps {
		if d > p.Initial*11/10 || d < p.Initial/8 {
			t.Errorf("interval %d is %v", i, d)
		}
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
	h.Observe(at.Add(time.Hour), content(1))
	if h.Failures != 0 || h.Intervals != 1 {
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

// A hint of a change brings the visit forward, but not before Min, and not if hints were wrong.
func TestHintBringsForward(t *testing.T) {
	t.Parallel()
	p := DefaultPolicy()
	var h History
	h.Observe(start, content(0))
	plain, _ := p.Next(h, page)
	hinted := func(h History, after time.Duration) time.Duration {
		h.AddHint(start.Add(30*time.Hour), start.Add(after))
		at, _ := p.Next(h, page)
		return at.Sub(start)
	}
	if d := hinted(h, 24*time.Hour); d < 21*time.Hour || d > 27*time.Hour {
		t.Errorf("changed after 24 h: visited after %v", d)
	}
	if d := hinted(h, time.Minute); d < p.Min || d > p.Min*11/10 {
		t.Errorf("changed after a minute: visited after %v, want Min", d)
	}
	if d := hinted(h, 31*time.Hour); d != plain.Sub(start) {
		t.Errorf("a change in the future: visited after %v, want %v", d, plain.Sub(start))
	}
	h.Wrong = 1
	if d := hinted(h, 24*time.Hour); d != plain.Sub(start) {
		t.Errorf("the last hint was wrong: visited after %v, want %v", d, plain.Sub(start))
	}
}

func TestHintsAreScored(t *testing.T) {
	t.Parallel()
	var h History
	h.Observe(start, content(0))
	next := start
	visit := func(n int, hint bool, see func(i int) Observation) {
		for i := range n {
			if next = next.Add(24 * time.Hour); hint {
				h.AddHint(next, next.Add(-time.Hour))
			}
			h.Observe(next, see(i))
		}
	}
	same, other := func(int) Observation { return content(0) },
		func(i int) Observation { return content(i + 1) }
	visit(100, true, same)
	if h.Right != 0 || h.Wrong == 0 || h.Wrong > maxHints {
		t.Fatalf("always wrong: right %d, wrong %d", h.Right, h.Wrong)
	}
	visit(20, true, other)
	if h.Right < h.Wrong {
		t.Errorf("right 20 times: right %d, wrong %d", h.Right, h.Wrong)
	}
	right, wrong := h.Right, h.Wrong
	visit(1, false, other)
	if h.Right != right || h.Wrong != wrong {
		t.Error("scored without a hint")
	}
}

func TestNextIsBounded(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		hours := func(name string, lo, hi int) time.Duration {
			return time.Duration(rapid.IntRange(lo, hi).Draw(t, name)) * time.Hour
		}
		p := Policy{Min: hours("min", 1, 48), Confirm: 2}
		p.Initial = p.Min + hours("initial", 0, 500)
		p.Max = p.Initial + hours("max", 0, 5000)
		if err := p.Validate(); err != nil {
			t.Fatal(err)
		}
		h := History{Intervals: float32(rapid.Float32().Draw(t, "intervals")),
			Changes:  rapid.Float32().Draw(t, "changes"), // it may come from another peer
			Observed: rapid.Float32().Draw(t, "observed")}
		at := start
		for range rapid.IntRange(1, 80).Draw(t, "visits") {
			at = at.Add(hours("gap", 0, 2000))
			if rapid.Bool().Draw(t, "hint") {
				h.AddHint(at, at.Add(-hours("age", 0, 3000)))
			}
			o := content(rapid.IntRange(0, 2).Draw(t, "content"))
			o.Outcome = Outcome(rapid.SampledFrom([]int{0, 0, 0, 0, 1, 1, 2, 3}).Draw(t, "outcome"))
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
	var h History
	visits(t, p, &h, 100, func(_ int, at time.Time) Observation {
		o := changing(0.2)(0, at)
		o.ETag = `"5f3a1b2c-1a2b3c4d5e6f"`
		o.LastModified = at.Truncate(5 * 24 * time.Hour).Format("Mon, 02 Jan 2006 15:04:05 GMT")
		return o
	})
	data, err := cbor.Marshal(h)
	var back History
	if err != nil || cbor.Unmarshal(data, &back) != nil || back != h {
		t.Fatalf("read back %+v, want %+v, %v", back, h, err)
	}
	if len(data) > 100 {
		t.Errorf("%d bytes", len(data))
	}
	if data, _ := cbor.Marshal(History{}); len(data) != 1 {
		t.Errorf("empty: %d bytes", len(data))
	}
}
