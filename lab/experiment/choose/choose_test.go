package choose

import (
	"context"
	"flag"
	"math"
	"math/rand/v2"
	"strconv"
	"testing"

	"peerd/coords/assign/assigntest"
	_ "peerd/internal/rapidtest"
	"peerd/lab/experiment"
	"peerd/lab/experiment/data"
	"peerd/lab/experiment/experimenttest"
)

func runRows(t *testing.T, p experiment.Params) map[string]chooseRow {
	t.Helper()
	out := make(map[string]chooseRow)
	for _, row := range experimenttest.Rows[chooseRow](t, experimenttest.Run(t, choose(), p),
		"choose") {
		out[row.Method+strconv.Itoa(row.K)] = row
		t.Logf("%+v", row)
	}
	return out
}

// On generated times, where no peer has a place, the strategy of the peers is about as good as
// measuring random peers, and both are far better than a random choice.
func TestChooseBeatsRandomPeers(t *testing.T) {
	t.Parallel()
	rows := runRows(t, experiment.Params{K: []int{8}, Seeds: 1, Peers: 40, Quick: true})
	ours, random, base := rows["peerd8"], rows["random8"], rows["best-of-k8"]
	if !(ours.Within20 >= base.Within20-0.1) || !(ours.MedianRatio < 1.2*base.MedianRatio) {
		t.Errorf("peerd %+v, want about %+v", ours, base)
	}
	if !(ours.MeanRatio <= 0.5*random.MeanRatio) {
		t.Errorf("mean of the choice / random %.2f, want at most half of %.2f", ours.MeanRatio,
			random.MeanRatio)
	}
}

func TestChooseIsDeterministic(t *testing.T) {
	t.Parallel()
	p := experiment.Params{K: []int{4}, Seeds: 1, Peers: 12, Quick: true, Seed: 7}
	a, b := runRows(t, p), runRows(t, p)
	for name, row := range a {
		if b[name] != row {
			t.Errorf("%s: %+v, then %+v", name, row, b[name])
		}
	}
}

// Estimations come from the first eighth of the slots; the truth is the median of the last
// eighth. A user and a server without both are not a pair.
func TestPairsOf(t *testing.T) {
	t.Parallel()
	times := new(data.Times)
	for slot := range 16 {
		x := float32(slot)
		missing := x
		if slot >= 14 {
			missing = -1
		}
		times.Slots = append(times.Slots, [][]float32{{x, missing}})
	}
	d := pairsOf(times)
	if got := d.early[0][0]; len(got) != 2 || got[0] != 0 || got[1] != 1 {
		t.Errorf("early = %v, want 0 and 1", got)
	}
	if d.truth[0][0] != 14.5 || !math.IsNaN(d.truth[0][1]) {
		t.Errorf("truth = %v, want 14.5 and NaN", d.truth[0])
	}
}

func TestChooseRejectsParams(t *testing.T) {
	t.Parallel()
	for _, p := range []experiment.Params{
		{Peers: 1}, {K: []int{0}}, {Times: "a", Matrix: "b"}, {Times: "no such file"},
		{Matrix: "no such file"},
	} {
		if err := choose().Run(context.Background(), p, new(experimenttest.Out)); err == nil {
			t.Errorf("choose() with %+v = nil, want an error", p)
		}
	}
	if _, err := syntheticTimes(4, 5, 1, rand.New(rand.NewPCG(1, 1))).world(5,
		rand.New(rand.NewPCG(1, 1))); err == nil {
		t.Error("choose() with more peers than users = nil, want an error")
	}
}

var (
	timesFile = flag.String("times", "", "file of response times; skipped without it and "+
		"-rtt-matrix")
	rttMatrix = flag.String("rtt-matrix", "", "file of round-trip times; skipped without it and "+
		"-times")
	realSeeds = flag.Int("seeds", 0, "number of runs on real data; 0: the experiment's own")
	realK     = flag.Int("k", 0, "number of estimations on real data; 0: the experiment's own")
)

// TestChooseOnRealData logs the results on measured data.
func TestChooseOnRealData(t *testing.T) {
	t.Parallel()
	if *timesFile == "" && *rttMatrix == "" {
		t.Skip("skipped: neither -times nor -rtt-matrix is set")
	}
	p := experiment.Params{Times: *timesFile, Seeds: *realSeeds}
	if p.Times == "" {
		p.Matrix = *rttMatrix
	}
	if *realK > 0 {
		p.K = []int{*realK}
	}
	for _, row := range runRows(t, p) {
		if row.Method == "peerd" && !(row.MeanRatio < 0.75) {
			t.Errorf("%+v, want clearly better than a random choice", row)
		}
	}
}

// A peer knows of the others in the simulation what a running peer knows from their beacons. No
// peer is busy, and generated times have no places.
func TestCandidatesAreComplete(t *testing.T) {
	t.Parallel()
	w, err := syntheticTimes(8, 5, 1, rand.New(rand.NewPCG(1, 1))).world(8,
		rand.New(rand.NewPCG(1, 1)))
	if err != nil {
		t.Fatal(err)
	}
	c := w.newCase(0)
	assigntest.Complete(t, c.evidence.Candidates, "Wait", "Place", "Traits")
}
