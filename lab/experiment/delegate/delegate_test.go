package delegate

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"peerd/lab/experiment"
	"peerd/lab/experiment/experimenttest"
)

var worldsDir = flag.String("worlds-dir", "",
	"directory of worlds, synthetic-*.json.gz and planetlab*.json.gz; skipped without it")

// delegateRows runs the experiment and returns its rows by strategy and threshold.
func delegateRows(t *testing.T, p experiment.Params) map[string]delegateRow {
	t.Helper()
	var out experimenttest.Out
	if err := runDelegate(t.Context(), p, &out); err != nil {
		t.Fatal(err)
	}
	rows := map[string]delegateRow{}
	for _, r := range experimenttest.Rows[delegateRow](t, &out, "delegate") {
		rows[fmt.Sprintf("%s@%.0f", r.Strategy, r.ThresholdMS)] = r
		t.Logf("%-22s %3.0f ms: optimal %5.1f %%, probes %5.1f %%, %5.2f a URL, excess %5.1f ms",
			r.Strategy, r.ThresholdMS, r.Optimal*100, r.ProbesShare*100, r.ProbesPerURL, r.ExcessMS)
	}
	for _, c := range out.Claims {
		t.Log(c)
	}
	return rows
}

func TestDelegateIsDeterministic(t *testing.T) {
	t.Parallel()
	p := experiment.Params{Quick: true, Threshold: []float64{50}, Seeds: 2, Sites: 100, Peers: 5}
	if a, b := delegateRows(t, p), delegateRows(t, p); fmt.Sprint(a) != fmt.Sprint(b) {
		t.Errorf("%v\n%v", a, b)
	}
}

func TestDelegateRejectsParams(t *testing.T) {
	t.Parallel()
	for name, p := range map[string]experiment.Params{
		"threshold": {Threshold: []float64{-1}},
		"no file":   {World: []string{"testdata/nowhere.json"}},
		"too many":  {Peers: 100_000},
		"too few":   {Sites: 3},
	} {
		if err := runDelegate(t.Context(), p, new(experimenttest.Out)); err == nil ||
			!strings.HasPrefix(err.Error(), "delegate: ") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Training returns when its context ends.
func TestTrainingEndsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	worlds, err := worldsOf(experiment.Params{Seed: 1, Quick: true}, new(experimenttest.Out))
	if err != nil {
		t.Fatal(err)
	}
	w := worlds[0]
	train, _ := split(w)
	d := newDelegator(w, upTo(len(w.Crawlers)), learned{}, 1)
	if _, err := d.teach(ctx, train); !errors.Is(err, context.Canceled) {
		t.Errorf("teach() = %v, want %v", err, context.Canceled)
	}
	s, err := contestants()[0].make(w, 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.train(ctx, s, train); !errors.Is(err, context.Canceled) {
		t.Errorf("train() = %v, want %v", err, context.Canceled)
	}
}

// The figures in the worlds of -worlds-dir are within ranges around those of the thesis and of
// a reference implementation.
func TestWorldsHold(t *testing.T) {
	t.Parallel()
	dir := *worldsDir
	if dir == "" {
		t.Skip("skipped: -worlds-dir is not set")
	}
	for _, c := range []struct {
		files                  string
		lo50, hi50, lop, hip   float64 // IPMicra at 50 ms: optimal, probes
		lo25, hi25, lop2, hip2 float64 // at 25 ms
		himicra                [4]float64
	}{
		{"synthetic-*", 0.70, 0.77, 0.22, 0.28, 0.87, 0.93, 0.45, 0.56,
			[4]float64{0.62, 0.70, 0.43, 0.50}},
		{"planetlab*", 0.70, 0.79, 0.23, 0.30, 0.84, 0.93, 0.45, 0.56,
			[4]float64{0.58, 0.70, 0.40, 0.50}},
	} {
		files, err := filepath.Glob(filepath.Join(dir, c.files))
		if err != nil || len(files) == 0 {
			t.Fatalf("no %s in %s: %v", c.files, dir, err)
		}
		t.Run(c.files, func(t *testing.T) {
			rows := delegateRows(t, experiment.Params{World: files, Threshold: []float64{25, 50}})
			ip, hi, help := rows["ipmicra@50"], rows["himicra@50"], rows["ipmicra-proxy@50"]
			if !within(ip.Optimal, c.lo50, c.hi50) || !within(ip.ProbesShare, c.lop, c.hip) {
				t.Errorf("IPMicra at 50 ms: %+v", ip)
			}
			if r := rows["ipmicra@25"]; !within(r.Optimal, c.lo25, c.hi25) ||
				!within(r.ProbesShare, c.lop2, c.hip2) {
				t.Errorf("IPMicra at 25 ms: %+v", r)
			}
			if !within(hi.Optimal, c.himicra[0], c.himicra[1]) ||
				!within(hi.ProbesShare, c.himicra[2], c.himicra[3]) {
				t.Errorf("HiMicra at 50 ms: %+v", hi)
			}
			if help.Optimal <= max(ip.Optimal, hi.Optimal) ||
				help.ProbesShare >= min(ip.ProbesShare, hi.ProbesShare) {
				t.Errorf("with coordinates: %+v, without: %+v", help, ip)
			}
		})
	}
}
