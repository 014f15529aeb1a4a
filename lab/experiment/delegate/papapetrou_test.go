package delegate

import (
	"testing"

	"peerd/lab/experiment"
	"peerd/lab/experiment/data"
	"peerd/lab/experiment/experimenttest"
)

// Sums, finishing times and shares of correct probes are those of a small table.
func TestCompareNearest(t *testing.T) {
	t.Parallel()
	r := compareNearest("w", fetches{
		page: [][]float64{{10, 40, 90, 20}, {30, 20, 10, 60}},
		head: [][]float64{{1, 4, 1, 2}, {3, 2, 9, 6}}, // wrong about the third page
	}, 1)
	random := 4 * r.RandomMS
	near := func(name string, got, want float64) {
		if got < want-1e-9 || got > want+1e-9 {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
	near("worst", r.Worst*random, 30+40+90+60)
	near("nearest", r.Nearest*random, 10+20+10+20)
	near("finishing time", r.FinishNearest*random, 30)
	near("by head", r.ByHead*random, 10+20+90+20)
	near("correct", r.CorrectByHead, 0.75)
	near("largest share", r.LargestNearest, 0.5)
	if r.ByPing == r.ByPing {
		t.Errorf("by ping is %v, want none without pings", r.ByPing)
	}
}

// An overloaded crawler gives up the site with the least variance of its probes, which need not
// be the best one.
func TestRelieve(t *testing.T) {
	t.Parallel()
	// Sites 0 and 1 are at crawler 0, which may hold one. Site 0 would lose 5 ms at crawler 1 but
	// is far from crawler 2; site 1 would lose 9 ms.
	w := &data.World{ProbeMS: [][]float64{{10, 10}, {15, 19}, {300, 20}}}
	b := &balance{w: w, probes: [][]int{{0, 1, 2}, {0, 1, 2}}, capacity: 1,
		held: [][]int{{0, 1}, nil, nil}}
	b.relieve(0)
	if b.decisions != 1 || b.best != 0 || b.excess != 4 || b.move != 5 ||
		len(b.held[0]) != 1 || b.held[0][0] != 0 || len(b.held[1]) != 1 {
		t.Errorf("%+v", b)
	}
	// With the probes of two crawlers, the least variance is the least difference.
	b = &balance{w: w, probes: [][]int{{0, 1}, {0, 1}}, capacity: 1,
		held: [][]int{{0, 1}, nil, nil}}
	b.relieve(0)
	if b.best != 1 || b.held[0][0] != 1 {
		t.Errorf("%+v", b)
	}
	// No crawler has capacity left: it stays overloaded.
	b = &balance{w: w, probes: [][]int{{0, 1}, {0, 1}}, held: [][]int{{0, 1}, nil, nil}}
	b.relieve(0)
	if b.decisions != 0 || len(b.held[0]) != 2 {
		t.Errorf("%+v", b)
	}
}

// The experiments about the thesis run, and equal seeds give equal rows.
func TestPapapetrou(t *testing.T) {
	t.Parallel()
	p := experiment.Params{Seed: 1, Quick: true, Seeds: 1}
	for _, e := range []experiment.Experiment{papapetrou76(), papapetrou80()} {
		a, b := experimenttest.Run(t, e, p), experimenttest.Run(t, e, p)
		if len(a.Claims) == 0 || len(a.Tables) != 1 || len(a.Notes) == 0 {
			t.Errorf("%s: %+v", e.Name, a)
		}
		for i := range a.Claims {
			if a.Claims[i] != b.Claims[i] {
				t.Errorf("%s: %q, then %q", e.Name, a.Claims[i], b.Claims[i])
			}
		}
	}
}
