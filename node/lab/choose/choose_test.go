package choose

import (
	"context"
	"math"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"

	"peerd/node/lab"
	"peerd/node/lab/data"
	"peerd/node/lab/labtest"
)

func runRows(t *testing.T, p lab.Params) map[string]chooseRow {
	t.Helper()
	out := make(map[string]chooseRow)
	for _, row := range labtest.Rows[chooseRow](t, labtest.Run(t, choose(), p), "choose") {
		out[row.Method+strconv.Itoa(row.K)] = row
		t.Logf("%+v", row)
	}
	return out
}

// On generated times the decentralised protocol beats measuring at random.
func TestChooseBeatsTheBestOfRandomPeers(t *testing.T) {
	rows := runRows(t, lab.Params{K: []int{8}, Seeds: 1, Peers: 40, Quick: true})
	ours, random, base := rows["peerd8"], rows["random8"], rows["best-of-k8"]
	if !(ours.Within20 >= base.Within20+0.08) || !(ours.MedianRatio < base.MedianRatio) {
		t.Errorf("peerd %+v, want clearly better than %+v", ours, base)
	}
	if !(ours.MeanRatio <= 0.5*random.MeanRatio) {
		t.Errorf("mean of the choice / random %.2f, want at most half of %.2f", ours.MeanRatio, random.MeanRatio)
	}
}

func TestChooseIsDeterministic(t *testing.T) {
	p := lab.Params{K: []int{4}, Seeds: 1, Peers: 12, Quick: true, Seed: 7}
	a, b := runRows(t, p), runRows(t, p)
	for name, row := range a {
		if b[name] != row {
			t.Errorf("%s: %+v, then %+v", name, row, b[name])
		}
	}
}

// Estimations come from the first eighth of the slots, the truth is the median
// of the last one, and what lacks one of the two is no pair.
func TestChooseEarlyAndTrue(t *testing.T) {
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
		t.Errorf("early %v, want 0 and 1", got)
	}
	if d.truth[0][0] != 14.5 || !math.IsNaN(d.truth[0][1]) {
		t.Errorf("truth %v, want 14.5 and none", d.truth[0])
	}
}

func TestChooseNamesWhatIsWrong(t *testing.T) {
	for _, p := range []lab.Params{
		{Peers: 1}, {K: []int{0}}, {Times: "a", Matrix: "b"}, {Times: "no such file"}, {Matrix: "no such file"},
	} {
		if err := choose().Run(context.Background(), p, new(labtest.Out)); err == nil {
			t.Errorf("%+v was accepted", p)
		}
	}
	if _, err := syntheticTimes(4, 5, 1, rand.New(rand.NewPCG(1, 1))).world(5, rand.New(rand.NewPCG(1, 1))); err == nil {
		t.Error("more peers than users were accepted")
	}
}

// The table of real data. PEERD_K and PEERD_SEEDS narrow it.
func TestChooseOnRealData(t *testing.T) {
	times, matrix := os.Getenv("PEERD_TIMES"), os.Getenv("PEERD_RTT_MATRIX")
	if times == "" && matrix == "" {
		t.Skip("SKIPPED: set PEERD_TIMES to a file of response times or PEERD_RTT_MATRIX to one of round trips")
	}
	if times != "" {
		matrix = ""
	}
	p := lab.Params{Times: times, Matrix: matrix}
	p.Seeds, _ = strconv.Atoi(os.Getenv("PEERD_SEEDS"))
	if k, err := strconv.Atoi(os.Getenv("PEERD_K")); err == nil {
		p.K = []int{k}
	}
	for _, row := range runRows(t, p) {
		if row.Method == "peerd" && !(row.MeanRatio < 0.75) {
			t.Errorf("%+v: hardly better than chance", row)
		}
	}
}
