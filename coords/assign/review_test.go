package assign_test

import (
	"errors"
	"fmt"
	"maps"
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
	if r := review(t, e); r.Better != "b" || r.Gain < 0.3 || r.Gain > 0.65 || r.Doubt > 0.01 {
		t.Errorf("%+v, want b, which takes 40 %% of a's time", r)
	}
	e.Exclude = map[string]bool{"b": true}
	if r := review(t, e); r.Better != "" || r.Scout == "b" {
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

// A handshake without a request, of the deciding peer or of one that was only asked for it, is no
// page: it has no server's delay and no body.
func TestReviewTakesNoHandshakeForAPage(t *testing.T) {
	t.Parallel()
	e := pages(owned("abcd"), "a", 12, 200*msec, 0)
	e = pages(e, "b", 6, 400*msec, 5*time.Second)
	before := review(t, e)
	for i := range 6 {
		s := at(e, "b", 0, 0)
		s.FirstByte, s.Body, s.Bytes = 0, 0, 0
		s.Connect, s.Taken = 100*msec, e.Now.Add(-time.Duration(i)*time.Second)
		e.Samples = append(e.Samples, s)
	}
	if r := review(t, e); r.Better != "" || r.Hope > before.Hope+0.01 {
		t.Errorf("with handshakes of b %+v, without %+v", r, before)
	}
}

// A single late page is chance, several are not: then another peer's pages show whether the
// owner or the server became slow.
func TestReviewSeesAChange(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		slow, asked int           // pages of the owner, and then of b
		took        time.Duration // by b
		hope        bool
		want        string
	}{
		{0, 0, 0, false, ""}, {1, 0, 0, false, ""}, {4, 0, 0, true, ""},
		{4, 3, 100 * msec, true, "b"}, {4, 3, 600 * msec, false, ""},
	} {
		e := pages(owned("ab"), "b", 6, 100*msec, 2*time.Minute)
		e = pages(e, "a", 12, 80*msec, 30*time.Second)
		e = pages(e, "a", max(c.slow, 1), map[bool]time.Duration{true: 500 * msec,
			false: 80 * msec}[c.slow > 0], 5*time.Second)
		e = pages(e, "b", c.asked, c.took, 0)
		if r := review(t, e); r.Better != c.want || r.Hope > 0.3 != c.hope {
			t.Errorf("%+v: %+v", c, r)
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
	calm := review(t, e).Hope
	e.Samples = append(e.Samples, ago(e, "b", 50*msec, 0))
	if r := review(t, e); r.Scout != "b" || r.Hope < 1.5*calm {
		t.Errorf("one quick page of b: %+v, want it asked with more hope than %v", r, calm)
	}
	e = pages(e, "b", 3, 50*msec, 0)
	if r := review(t, e); r.Better != "b" {
		t.Errorf("Review(four fast pages of b) = %+v, want b", r)
	}
}

// What was seen long ago is doubted.
func TestReviewDoubtsOldNews(t *testing.T) {
	t.Parallel()
	last := 0.0
	for _, age := range []time.Duration{0, time.Minute, 10 * time.Minute, time.Hour} {
		e := pages(pages(owned("ab"), "b", 6, 80*msec, age), "a", 12, 300*msec, 0)
		r := review(t, e)
		if r.Better == "" {
			r.Doubt = coords.Tail
		}
		if r.Doubt <= last {
			t.Errorf("%v ago: %+v, want more doubt than %v", age, r, last)
		}
		last = r.Doubt
	}
	if last < coords.Tail {
		t.Errorf("doubt %v of what was seen an hour ago", last)
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
		for _, id := range []string{r.Better, r.Scout} {
			if id != "" && (id == "a" || e.Exclude[id] || !strings.Contains(names, id)) {
				t.Fatalf("Review() = %+v names %q, which may not be chosen", r, id)
			}
		}
		asked := func(x coords.Sample) bool { return x.Peer == r.Scout }
		if !(r.Gain >= 0 && r.Gain <= 1) || (r.Better == "") != (r.Gain == 0) ||
			!(r.Doubt >= 0 && r.Doubt <= 1) || !(r.Hope >= 0) || (r.Scout == "") != (r.Hope == 0) ||
			!e.CanProbe && r.Scout != "" && !slices.ContainsFunc(e.Samples, asked) {
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

// reviewed passes reviews that are a second apart, with these doubts, to a ReviewState; a doubt of
// 1 names no better peer. It returns after how many seconds the subnet moves, or -1.
func reviewed(c assign.ReviewConfig, doubts []float64, moves []time.Time) int {
	w := assign.ReviewState{Moves: moves}
	for i, x := range doubts {
		r := assign.Review{Better: "b", Gain: 0.5, Doubt: x}
		if x == 1 {
			r = assign.Review{}
		}
		if to := w.Reviewed(c, r, noon.Add(time.Duration(i)*time.Second), 0); to != "" {
			return i
		}
	}
	return -1
}

func TestReviewStateMoves(t *testing.T) {
	t.Parallel()
	c := assign.DefaultReviewConfig()
	certain := slices.Repeat([]float64{1e-6}, 400)
	hold := int(c.Move.Hold.Seconds())
	moved := func(ages ...time.Duration) (at []time.Time) {
		for _, age := range ages {
			at = append(at, noon.Add(-age))
		}
		return at
	}
	for _, tc := range []struct {
		name   string
		doubts []float64
		moves  []time.Time
		after  int // seconds; -1: stays
	}{
		{"certain", certain, nil, hold},
		{"as certain as is needed", slices.Repeat([]float64{c.Move.Spend}, 400), nil, hold},
		{"less so", slices.Repeat([]float64{c.Move.Spend * 1.01}, 400), nil, -1},
		{"certain in the end", append(slices.Repeat([]float64{0.09}, 100), 1e-6), nil, 100},
		{"better in the end", append(slices.Repeat([]float64{1}, 100), certain...), nil,
			100 + hold},
		{"at times", slices.Repeat([]float64{1e-6, 1e-6, 1}, 100), nil, -1},
		{"moved once", slices.Repeat([]float64{c.Move.Spend * 0.51}, 400), moved(time.Minute), -1},
		{"moved once, certain", certain, moved(time.Minute), hold},
		{"moved to and fro", certain, moved(3*time.Minute, 2*time.Minute, time.Minute), 4 * hold},
		{"moved long ago", certain, moved(3*time.Hour, 2*time.Hour, 2*time.Hour), hold},
	} {
		if got := reviewed(c, tc.doubts, tc.moves); got != tc.after {
			t.Errorf("%s: moves after %d s, want %d", tc.name, got, tc.after)
		}
	}
}

// Scouts are few: three pages in a hundred in the long run, and more at first where they
// promise more. One that is hardly wasted counts as little.
func TestReviewStateScouts(t *testing.T) {
	t.Parallel()
	c := assign.DefaultReviewConfig()
	for _, tc := range []struct {
		name        string
		hope, waste float64
		pages       int
		least, most int
	}{
		{"nothing to gain", 0, 1, 4000, 105, 122},
		{"little to gain", 0.1, 1, 4000, 119, 125},
		{"much to gain", 0.5, 1, 4000, 128, 134},
		{"much to gain, at first", 0.5, 1, 60, 9, 15},
		{"more to gain, at first", 1, 1, 60, 14, 20},
		{"little to gain, in two of three cases", 0.1, 1. / 3, 4000, 357, 375},
	} {
		var w assign.ReviewState
		now := noon
		scouts := 0
		for range tc.pages { // a page a second
			now = now.Add(time.Second)
			if w.Scout() != "" {
				scouts++
			}
			w.Page()
			if w.Due(now) {
				w.Reviewed(c, assign.Review{Scout: "b", Hope: tc.hope,
					Waste: tc.waste}, now, 0)
			}
		}
		if scouts < tc.least || scouts > tc.most {
			t.Errorf("%s: %d scouts of %d pages, want %d to %d", tc.name, scouts, tc.pages,
				tc.least, tc.most)
		}
	}
}

// A peer without a page is looked at where others than before are there, and no scout is sent for a
// while after one has refused, which does not keep the subnet from moving.
func TestReviewStateOthers(t *testing.T) {
	t.Parallel()
	c := assign.DefaultReviewConfig()
	var w assign.ReviewState
	step := func(r assign.Review, now time.Time) string {
		w.Page()
		return w.Reviewed(c, r, now, 0)
	}
	if step(assign.Review{}, noon); w.CanScout(c) {
		t.Error("a page can be spared where nothing is to be gained")
	}
	if w.Reconsider(noon.Add(-c.Move.Memory)); !w.CanScout(c) {
		t.Error("no other peer is looked at")
	}
	if step(assign.Review{}, noon); w.CanScout(c) {
		t.Error("others are looked at a second time")
	}
	much := assign.Review{Scout: "b", Hope: 1, Better: "b", Gain: 0.5}
	w.Refused(noon.Add(c.Move.Hold))
	step(much, noon)
	if who := w.Scout(); who != "" {
		t.Errorf("%q is asked again at once", who)
	}
	if to := step(much, noon.Add(c.Move.Hold)); to != "b" {
		t.Errorf("moves to %q, want b", to)
	}
	step(assign.Review{Scout: "b", Hope: 1}, noon.Add(c.Move.Hold))
	if who := w.Scout(); who != "b" {
		t.Errorf("%q is asked later, want b", who)
	}
}

// An owner that was not compared with all others is left once without a wait and with the certainty
// that Better implies, if that comes within MoveConfig.Memory.
func TestReviewStateOpen(t *testing.T) {
	t.Parallel()
	c := assign.DefaultReviewConfig()
	better := assign.Review{Better: "b", Gain: 0.2, Doubt: coords.Tail}
	for _, tc := range []struct {
		name   string
		opened time.Duration // before noon; negative: never
		better bool
		want   string
	}{
		{"at once", 0, true, "b"},
		{"none is better", 0, false, ""},
		{"late", c.Move.Memory - time.Second, true, "b"},
		{"too late", c.Move.Memory, true, ""},
		{"chosen", -1, true, ""},
	} {
		var w assign.ReviewState
		if tc.opened >= 0 {
			w.Reconsider(noon.Add(-tc.opened))
		}
		r := assign.Review{}
		if tc.better {
			r = better
		}
		to := w.Reviewed(c, r, noon, 0)
		if to != tc.want {
			t.Errorf("%s: moves to %q, want %q", tc.name, to, tc.want)
		}
		if to == "" {
			continue
		}
		w.Moved(noon)
		if again := w.Reviewed(c, better, noon, 0); again != "" {
			t.Errorf("%s: moves once more, to %q", tc.name, again)
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
		kept := assign.History(all, n)
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
		if again := assign.History(all, n); !reflect.DeepEqual(again, kept) {
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
			all = assign.History(all, 96)
		}
	}
	all = assign.History(all, 10)
	if age := all[len(all)-1].Taken.Sub(all[0].Taken); age < 2*time.Minute {
		t.Errorf("the oldest of %d is %v older than the newest", len(all), age)
	}
}

// A former owner leaves what it was before it became slow, the present one more of the
// newest pages, and peers that are rarely asked all of theirs.
func TestHistoryOfSeveralPeers(t *testing.T) {
	t.Parallel()
	var all []coords.Sample
	asked := map[string]int{}
	for i := range 900 {
		who := "former"
		switch {
		case i%30 == 29:
			who = fmt.Sprint(i / 30 % 6)
		case i > 420:
			who = "owner"
		}
		asked[who]++
		all = append(all, coords.Sample{Peer: who, Taken: noon.Add(time.Duration(i) * time.Second)})
		if len(all) > 120 {
			all = assign.History(all, 96)
		}
	}
	kept := map[string]int{}
	early, newest := 0, 0
	for _, x := range all {
		kept[x.Peer]++
		switch age := noon.Add(900 * time.Second).Sub(x.Taken); {
		case x.Peer == "former" && age > 10*time.Minute:
			early++
		case x.Peer == "owner" && age <= 20*time.Second:
			newest++
		}
	}
	if early < 8 || newest < 15 || kept["owner"] < 2*kept["former"] {
		t.Errorf("%v kept, %d of the former owner's first pages, %d of the newest", kept, early,
			newest)
	}
	for who, n := range asked {
		if n < 10 && kept[who] < n {
			t.Errorf("%d of %d pages of peer %s kept", kept[who], n, who)
		}
	}
}

func TestReviewConfigValidate(t *testing.T) {
	t.Parallel()
	err := assign.ReviewConfig{}.Validate()
	for _, f := range []string{"Every", "ScoutShare", "ScoutHope", "ScoutMost", "Hold", "Spend",
		"Memory"} {
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
