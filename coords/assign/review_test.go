package assign_test

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"peerd/coords"
	"peerd/coords/assign"
)

var noon = time.Date(2030, 6, 1, 12, 0, 0, 0, time.UTC)

// ago is a download of a peer, that took so long, so long ago.
func ago(e assign.Evidence, id string, took, age time.Duration) coords.Sample {
	s := at(e, id, 0, 0)
	s.FirstByte, s.Body, s.Taken = took, took/10, e.Now.Add(-age)
	return s
}

// owned is a subnet of a, on which b and c have downloaded at the first.
func owned(names string) assign.Evidence {
	e := scene(names, "a")
	e.Now = noon
	return e
}

// pages adds n downloads of a peer, a second apart, the last one so long ago.
func pages(e assign.Evidence, id string, n int, took, last time.Duration) assign.Evidence {
	for i := range n {
		jitter := time.Duration(i%3) * took / 20
		e.Samples = append(e.Samples,
			ago(e, id, took+jitter, last+time.Duration(n-1-i)*time.Second))
	}
	return e
}

func review(t *testing.T, e assign.Evidence) assign.Review {
	t.Helper()
	r, err := newProxy(t).Review(e)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

const msec = time.Millisecond

func TestReviewNamesWhoIsNearer(t *testing.T) {
	t.Parallel()
	e := pages(pages(owned("abcd"), "b", 6, 80*msec, 5*time.Second), "a", 12, 200*msec, 0)
	e = pages(e, "c", 3, 190*msec, time.Minute)
	if r := review(t, e); r.Better != "b" || r.Maybe != "b" || r.Gain < 0.3 || r.Gain > 0.6 {
		t.Errorf("%+v, want b, which takes 40 %% of a's time", r)
	}
	e.Exclude = map[string]bool{"b": true}
	if r := review(t, e); r.Better != "" || r.Maybe != "" {
		t.Errorf("Review(b excluded) = %+v, want no better peer", r)
	}
	e.Exclude = nil
	for i := range e.Candidates {
		if e.Candidates[i].ID == "b" {
			e.Candidates[i].Wait = time.Second
		}
	}
	if r := review(t, e); r.Better == "b" {
		t.Errorf("Review(b busy) = %+v, want not b", r)
	}
}

// A single late page is chance, several are not.
func TestReviewSeesAChange(t *testing.T) {
	t.Parallel()
	for slow, want := range map[int]string{0: "", 1: "", 4: "b"} {
		e := pages(owned("ab"), "b", 6, 100*msec, 2*time.Minute)
		e = pages(e, "a", 12, 80*msec, 30*time.Second)
		e = pages(e, "a", slow, 500*msec, 0)
		if slow == 0 {
			e = pages(e, "a", 1, 80*msec, 0)
		}
		if r := review(t, e); r.Better != want {
			t.Errorf("%d slow pages: %+v, want %q", slow, r, want)
		}
	}
}

// One fast page of a former owner that was slow is noticed, and it is asked again.
func TestReviewSeesARecovery(t *testing.T) {
	t.Parallel()
	e := pages(owned("ab"), "b", 8, 50*msec, 4*time.Minute)
	e = pages(e, "b", 8, 500*msec, time.Minute)
	e = pages(e, "a", 12, 100*msec, 0)
	if r := review(t, e); r.Better != "" {
		t.Errorf("Review(b slow) = %+v, want no better peer", r)
	}
	e.CanProbe = true
	if r := review(t, e); r.Scout != "b" {
		t.Errorf("%+v, want b asked again", r)
	}
	e.Samples = append(e.Samples, ago(e, "b", 50*msec, 0))
	if r := review(t, e); r.Maybe != "b" {
		t.Errorf("one quick page of b: %+v, want it looked at", r)
	}
	e = pages(e, "b", 3, 50*msec, 0)
	if r := review(t, e); r.Better != "b" {
		t.Errorf("Review(four fast pages of b) = %+v, want b", r)
	}
}

func TestReviewSaysNothingOfOldNews(t *testing.T) {
	t.Parallel()
	e := pages(pages(owned("ab"), "b", 6, 80*msec, time.Minute), "a", 12, 300*msec, 5*time.Minute)
	e.CanProbe = true
	if r := review(t, e); r != (assign.Review{}) {
		t.Errorf("Review(no recent page of the owner) = %+v, want nothing", r)
	}
}

// An owner that fails where others do not loses the subnet; if all fail, no peer is at fault.
func TestReviewCountsFailures(t *testing.T) {
	t.Parallel()
	fail := func(e assign.Evidence, id string, n int, last time.Duration) assign.Evidence {
		for i := range n {
			s := ago(e, id, 0, last+time.Duration(n-1-i)*time.Second)
			s.Failed = true
			e.Samples = append(e.Samples, s)
		}
		return e
	}
	e := pages(pages(owned("ab"), "b", 8, 100*msec, 40*time.Second), "a", 8, 90*msec,
		40*time.Second)
	e = fail(e, "a", 6, 0)
	if r := review(t, e); r.Better != "b" {
		t.Errorf("Review(a fails) = %+v, want b", r)
	}
	e = fail(e, "b", 6, 0)
	if r := review(t, e); r.Better != "" {
		t.Errorf("Review(all fail) = %+v, want no better peer", r)
	}
}

// Properties of every review, whatever the evidence.
func TestReviewKeepsTheRules(t *testing.T) {
	t.Parallel()
	s := newProxy(t)
	rapid.Check(t, func(t *rapid.T) {
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "world"), 5))
		names := "abcdefghijkl"[:rapid.IntRange(1, 12).Draw(t, "peers")]
		e := owned(names)
		e.CanProbe = rng.IntN(2) == 0
		e.Exclude = map[string]bool{}
		for range rapid.IntRange(0, 80).Draw(t, "samples") {
			x := ago(e, string(names[rng.IntN(len(names))]), time.Duration(rng.IntN(2000))*msec,
				time.Duration(rng.IntN(900))*time.Second)
			x.Bytes, x.Failed, x.Reused = rng.Int64N(1<<18), rng.IntN(6) == 0, rng.IntN(2) == 0
			if rng.IntN(20) == 0 {
				x.Taken = time.Time{}
			}
			e.Samples = append(e.Samples, x)
		}
		if id := string(names[rng.IntN(len(names))]); rng.IntN(3) == 0 &&
			(id != "a" || len(names) > 1) {
			e.Exclude[id] = true
		}
		before := fmt.Sprintf("%+v", e)
		r, err := s.Review(e)
		if err != nil {
			t.Fatal(err)
		}
		if fmt.Sprintf("%+v", e) != before {
			t.Fatal("Review changed the evidence")
		}
		for _, id := range []string{r.Better, r.Maybe, r.Scout} {
			if id != "" && (id == "a" || e.Exclude[id] || !strings.Contains(names, id)) {
				t.Fatalf("Review() = %+v names %q, which may not be chosen", r, id)
			}
		}
		if !(r.Gain >= 0 && r.Gain <= 1) || (r.Better == "") != (r.Gain == 0) || !e.CanProbe &&
			r.Scout != "" {
			t.Fatalf("Review() = %+v", r)
		}
		slices.Reverse(e.Candidates)
		if again, err := s.Review(e); err != nil || again != r {
			t.Fatalf("%+v, then %+v, %v", r, again, err)
		}
	})
	if _, err := s.Review(assign.Evidence{}); !errors.Is(err, assign.ErrEvidence) {
		t.Errorf("Review(no evidence): %v, want ErrEvidence", err)
	}
}

// fetched are the pages up to a second after noon: of a each second, since a
// minute before noon, and of b each third. A time of 0 is a failure, a negative
// one no page.
func fetched(until int, a, b time.Duration) (all []coords.Sample) {
	for i := -60; i <= until; i++ {
		at := noon.Add(time.Duration(i) * time.Second)
		for _, x := range []struct {
			who  string
			took time.Duration
			each int
		}{{"a", a, 1}, {"b", b, 3}} {
			if x.took >= 0 && i%x.each == 0 {
				jitter := x.took / 20 * time.Duration((i+60)*7%5)
				all = append(all, coords.Sample{Peer: x.who, Taken: at, FirstByte: x.took + jitter,
					Failed: x.took == 0})
			}
		}
	}
	return all
}

// consider passes reviews that are a second apart to a MoveState.
func consider(
	c assign.MoveConfig, gains []float64, moves []time.Time,
	samples func(second int) []coords.Sample,
) (after int, to string) {
	var p assign.MoveState
	for i, g := range gains {
		r := assign.Review{Better: "b", Gain: g}
		if g == 0 {
			r.Better = ""
		}
		if p, to = p.Consider(c, "a", r, samples(i), moves,
			noon.Add(time.Duration(i)*time.Second)); to != "" {
			return i, to
		}
	}
	return len(gains), ""
}

func persistentShare(gain float64, n int) []float64 { return slices.Repeat([]float64{gain}, n) }

func TestMoveState(t *testing.T) {
	t.Parallel()
	c := assign.DefaultMoveConfig()
	c.Margin, c.Clear = 0.15, 0.30
	both := func(a, b time.Duration) func(int) []coords.Sample {
		return func(i int) []coords.Sample { return fetched(i, a, b) }
	}
	fresh := both(100*msec, 50*msec)
	for _, tc := range []struct {
		name    string
		gains   []float64
		samples func(int) []coords.Sample
		moves   []time.Time
		after   int // seconds; -1: stays
	}{
		{"clear", persistentShare(0.30, 100), fresh, nil, 30},
		{"very clear", persistentShare(0.9, 100), fresh, nil, 30},
		{"little", persistentShare(0.15, 200), fresh, nil, 120},
		{"too little", persistentShare(0.14, 200), fresh, nil, -1},
		{"every other time", slices.Repeat([]float64{0.3, 0}, 100), fresh, nil, -1},
		{"a gap in it", append(append(persistentShare(0.3, 10), 0, 0), persistentShare(0.3, 30)...),
			fresh, nil, 36},
		{"never asked", persistentShare(0.5, 200), both(100*msec, -1), nil, -1},
		{"asked long ago", persistentShare(0.5, 200), func(i int) []coords.Sample {
			return fetched(-55, 100*msec, 50*msec)
		}, nil, -1},
		{"fails itself", persistentShare(0.5, 200), both(100*msec, 0), nil, -1},
		{"within the margin", persistentShare(0.5, 200), both(100*msec, 93*msec), nil, -1},
		{"the owner fails", persistentShare(0.3, 200), both(0, 50*msec), nil, 30},
		{"both fail", persistentShare(0.3, 200), both(0, 0), nil, -1},
		{"just moved", persistentShare(0.3, 200), fresh, []time.Time{noon}, 30},
		{"moved to and fro", persistentShare(0.3, 200), fresh,
			[]time.Time{noon.Add(-2), noon.Add(-1), noon}, 120},
		{"moved long ago", persistentShare(0.3, 200), fresh, []time.Time{noon.Add(-2 * time.Hour),
			noon.Add(-2 * time.Hour)}, 30},
	} {
		after, to := consider(c, tc.gains, tc.moves, tc.samples)
		if tc.after < 0 && to != "" || tc.after >= 0 && (to != "b" || after != tc.after) {
			t.Errorf("%s: %q after %d s, want after %d s", tc.name, to, after, tc.after)
		}
	}
	waits := assign.Review{Better: "b", Gain: 0.5, WaitBetter: time.Second}
	p, _ := assign.MoveState{}.Consider(c, "a", waits, fresh(0), nil, noon)
	for i := range 100 {
		var to string
		if p, to = p.Consider(c, "a", waits, fresh(i), nil,
			noon.Add(time.Duration(i)*time.Second)); to != "" {
			t.Fatal("moved to a peer with a wait of a second")
		}
	}
}

// The former owner needs less evidence than any other peer, and an owner that
// became slow loses the subnet with less evidence than one that did not.
func TestMoveStatePriors(t *testing.T) {
	t.Parallel()
	c := assign.DefaultMoveConfig()
	rng := rand.New(rand.NewPCG(3, 9))
	moved := []time.Time{noon.Add(-2 * time.Minute)}
	var with, urgent, without int
	const worlds = 60
	for range worlds {
		var all []coords.Sample
		page := func(who string, second int, took float64) {
			d := time.Duration(took * math.Exp(0.35*rng.NormFloat64()) * float64(time.Millisecond))
			all = append(all, coords.Sample{Peer: who,
				Taken: noon.Add(time.Duration(second) * time.Second), FirstByte: d})
		}
		for i := -180; i < -120; i += 3 {
			page("b", i, 1000)
		}
		for i := -60; i <= 0; i++ {
			if i%10 == 0 {
				page("b", i, 600)
			} else {
				page("a", i, 1000)
			}
		}
		decide := func(r assign.Review, moves []time.Time) int {
			p := assign.MoveState{Credit: time.Minute, Since: noon.Add(-time.Minute),
				Last: noon.Add(-time.Second)}
			if _, to := p.Consider(c, "a", r, all, moves, noon); to != "" {
				return 1
			}
			return 0
		}
		r := assign.Review{Better: "b", Gain: 0.4}
		with += decide(r, moved)
		without += decide(r, nil)
		r.Worse = true
		urgent += decide(r, nil)
	}
	t.Logf("of %d: %d returned to the former owner, %d moved when slow, %d otherwise", worlds,
		with, urgent, without)
	if with <= urgent || urgent <= without || without > worlds/10 {
		t.Errorf("%d returned, %d moved when slow, %d otherwise; want fewer each, the last <= %d",
			with, urgent, without, worlds/10)
	}
}

// The time between rare reviews is not credited.
func TestMoveStateWithRareReviews(t *testing.T) {
	t.Parallel()
	c := assign.DefaultMoveConfig()
	p, _ := assign.MoveState{}.Consider(c, "a", assign.Review{Better: "b", Gain: 0.3}, nil, nil,
		noon)
	p, _ = p.Consider(c, "a", assign.Review{Better: "b", Gain: 0.3}, nil, nil, noon.Add(time.Hour))
	if p.Credit >= c.Hold {
		t.Errorf("credit %v for two reviews an hour apart", p.Credit)
	}
}

// Scouts are few: one page in fifty, three in a hundred while a peer always
// appears better, and one in three at most while a move is being confirmed.
func TestReviewStateScouts(t *testing.T) {
	t.Parallel()
	c := assign.DefaultReviewConfig()
	for _, tc := range []struct {
		name        string
		r           assign.Review
		pages       int
		least, most int
	}{
		{"calm", assign.Review{}, 4000, 70, 81},
		{"a peer may be better", assign.Review{Maybe: "c"}, 4000, 82, 121},
		{"a peer is better for hours", assign.Review{Better: "c", Maybe: "c", Gain: 0.4}, 4000, 82,
			121},
		{"a peer is better", assign.Review{Better: "c", Maybe: "c", Gain: 0.4}, 60, 12, 20},
		{"the owner is slow", assign.Review{Maybe: "c", Worse: true}, 60, 12, 20},
	} {
		var w assign.ReviewState
		now := noon
		scouts := 0
		for range tc.pages { // a page a second
			now = now.Add(time.Second)
			if w.Scout(now) != "" {
				scouts++
			}
			w.Page()
			if w.Due(now) {
				r := tc.r
				if w.CanScout(c, now) {
					r.Scout = "b"
				}
				w.Reviewed(c, "a", r, nil, now, 0)
			}
		}
		if scouts < tc.least || scouts > tc.most {
			t.Errorf("%s: %d scouts of %d pages, want %d to %d", tc.name, scouts, tc.pages,
				tc.least, tc.most)
		}
	}
}

func TestHistory(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		peers := rapid.IntRange(1, 100).Draw(t, "peers")
		n := rapid.IntRange(1, 100).Draw(t, "n")
		var all []coords.Sample
		now := noon
		for i := range rapid.IntRange(0, 400).Draw(t, "samples") {
			now = now.Add(time.Duration(rng.IntN(5000)) * msec)
			all = append(all, coords.Sample{Peer: fmt.Sprint(rng.IntN(peers) * rng.IntN(2)),
				Taken: now, Bytes: int64(i)})
		}
		before := slices.Clone(all)
		kept := assign.History(all, "0", n)
		if !reflect.DeepEqual(all, before) {
			t.Fatal("History changed its argument")
		}
		if len(kept) > n || len(all) <= n && len(kept) != len(all) {
			t.Fatalf("%d of %d kept, want at most %d", len(kept), len(all), n)
		}
		last := int64(-1)
		for _, x := range kept {
			if x.Bytes <= last {
				t.Fatal("History returned samples out of order or twice")
			}
			last = x.Bytes
		}
		if again := assign.History(all, "0", n); !reflect.DeepEqual(again, kept) {
			t.Fatal("History of equal samples differs")
		}
		seen := map[string]bool{}
		for _, x := range all {
			seen[x.Peer] = true
		}
		got := map[string]int{}
		for _, x := range kept {
			got[x.Peer]++
		}
		if n >= 2*len(seen) && len(got) != len(seen) {
			t.Fatalf("peers %v of %v", slices.Sorted(maps.Keys(got)),
				slices.Sorted(maps.Keys(seen)))
		}
	})
}

// The owner's own pages, of which there are many, leave what it was before.
func TestHistoryRemembers(t *testing.T) {
	t.Parallel()
	var all []coords.Sample
	for i := range 600 {
		all = append(all, coords.Sample{Peer: "a", Taken: noon.Add(time.Duration(i) * time.Second)})
		if len(all) > 120 {
			all = assign.History(all, "a", 96)
		}
	}
	all = assign.History(all, "a", 10)
	if age := all[len(all)-1].Taken.Sub(all[0].Taken); age < 2*time.Minute {
		t.Errorf("the oldest of %d is %v older than the newest", len(all), age)
	}
}

func TestReviewConfigValidate(t *testing.T) {
	t.Parallel()
	err := assign.ReviewConfig{Move: assign.MoveConfig{Clear: -2, Margin: -1, Cooldown: -1,
		Memory: -1}}.Validate()
	for _, f := range []string{"Every", "ScoutEvery", "ScoutPages", "UrgentPages",
		"UrgentShare", "UrgentMost", "Clear", "Hold",
		"Confirm", "Margin", "Spend", "AlarmLasts", "Cooldown", "Memory"} {
		if err == nil || !strings.Contains(err.Error(), " "+f+" is") {
			t.Errorf("%s not named in %v", f, err)
		}
	}
	if err := assign.DefaultReviewConfig().Validate(); err != nil {
		t.Error(err)
	}
}

func BenchmarkReview(b *testing.B) {
	s, err := assign.NewProxy(assign.DefaultProxyConfig())
	if err != nil {
		b.Fatal(err)
	}
	e := owned("abcdefgh")
	for _, r := range "abcdefgh" {
		e = pages(e, string(r), 12, 100*msec, time.Second)
	}
	for b.Loop() {
		if _, err := s.Review(e); err != nil {
			b.Fatal(err)
		}
	}
}
