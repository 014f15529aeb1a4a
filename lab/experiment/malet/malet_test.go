package malet

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"peerd/coords"
	"peerd/coords/assign"
	"peerd/lab/experiment"
	"peerd/lab/experiment/crawlsim"
	"peerd/lab/experiment/experimenttest"
)

// An experiment runs and has results; the test with the tag integration runs all of them.
func TestMalet(t *testing.T) { testMalet(t, "malet-5.12", "neighbours") }

// testMalet runs experiments, which must have rows, plots and claims. Two of them run twice and
// must have identical results.
func testMalet(t *testing.T, names ...string) {
	for _, e := range Experiments() {
		if !slices.Contains(names, e.Name) {
			continue
		}
		t.Run(e.Name, func(t *testing.T) {
			t.Parallel()
			runs := 1
			// the others are too slow to run twice
			if e.Name == "malet-5.7" || e.Name == "malet-5.10" {
				runs = 2
			}
			texts := make([][]byte, runs)
			for i := range texts {
				res := do(t, experiment.Run{Experiment: e, Params: experiment.Params{Seed: 2,
					Quick: true}})
				figure := e.Name != "choices" && e.Name != "neighbours" // of the thesis
				if len(res.Tables) == 0 || len(res.Notes) == 0 || figure &&
					(len(res.Claims) == 0 || len(res.Plots) == 0) {
					t.Errorf("%d tables, %d claims, %d plots, %d notes", len(res.Tables),
						len(res.Claims), len(res.Plots), len(res.Notes))
				}
				dir := t.TempDir()
				if err := experiment.WriteDir(dir, []*experiment.Result{res}); err != nil {
					t.Fatal(err)
				}
				var err error
				if texts[i], err = os.ReadFile(filepath.Join(dir, "results.json")); err != nil {
					t.Fatal(err)
				}
			}
			if !bytes.Equal(texts[0], texts[len(texts)-1]) {
				t.Error("the results of equal runs differ")
			}
		})
	}
}

func do(t *testing.T, r experiment.Run) *experiment.Result {
	t.Helper()
	res, err := r.Do(t.Context(), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return res
}

// figures returns the rows of a table by the value of a column.
func figures(t *testing.T, r *experiment.Result, table, key string) map[string]map[string]any {
	t.Helper()
	out := map[string]map[string]any{}
	for _, tab := range r.Tables {
		if tab.Name != table {
			continue
		}
		for _, row := range tab.Rows {
			text, err := json.Marshal(row)
			if err != nil {
				t.Fatal(err)
			}
			var m map[string]any
			if err := json.Unmarshal(text, &m); err != nil {
				t.Fatal(err)
			}
			out[m[key].(string)] = m
		}
	}
	return out
}

// "A good assignment strategy should achieve a coverage of 1, e.g. every page
// that was assigned has been downloaded" (Malet 2009, 5.4.2), and nothing twice.
func TestCrawlCoversAll(t *testing.T) {
	t.Parallel()
	rows := figures(t, do(t, experiment.Run{Experiment: malet512(),
		Params: experiment.Params{Seed: 4, Quick: true}}), "crawls", "strategy")
	for name, r := range rows {
		if r["overlap"] != 0.0 || r["pages"].(float64)+r["given_up"].(float64) != 16*20 {
			t.Errorf("%s: %v", name, r)
		}
	}
	if len(rows) != 3 {
		t.Errorf("%d strategies", len(rows))
	}
}

// With exact round trips and no delay the algorithm of the thesis places a server well, and
// takes more updates for a smaller error.
func TestOnePassConverges(t *testing.T) {
	t.Parallel()
	var peers []assign.Candidate
	for i, v := range [][]float64{{0, 0}, {100, 0}, {0, 100}, {100, 100}, {50, 120}, {120, 50}} {
		peers = append(peers, assign.Candidate{ID: string(rune('a' + i)),
			At: coords.Coordinate{Vec: v, Error: 0.1}})
	}
	server := coords.Coordinate{Vec: []float64{30, 40}}
	count := func(theta float64) (int, string) {
		e := assign.Evidence{Subnet: netip.MustParsePrefix("192.0.2.0/24"), Self: "a",
			Candidates: peers, CanProbe: true}
		v := newOnePass(theta, 300)
		for n := 0; ; n++ {
			step, err := v.Next(e)
			if err != nil {
				t.Fatal(err)
			}
			if step.Choice != "" {
				return n, step.Choice
			}
			for _, c := range peers {
				if c.ID == step.Probe {
					d := time.Duration(server.Distance(c.At) * float64(time.Millisecond))
					e.Samples = append(e.Samples, coords.Sample{Peer: c.ID, At: c.At, FirstByte: d})
				}
			}
		}
	}
	n25, choice := count(0.25)
	n15, _ := count(0.15)
	if choice != "a" || n25 >= n15 || n25 < 5 || n15 > 200 {
		t.Errorf("%d updates to .25, %d to .15, chosen %s", n25, n15, choice)
	}
}

// Excluded candidates are neither asked nor chosen, and invalid evidence is ignored. The tests
// of assigntest do not apply, because the algorithm takes hundreds of probes.
func TestOnePassExcludes(t *testing.T) {
	t.Parallel()
	v := newOnePass(0.25, 10)
	if _, err := v.Next(assign.Evidence{}); !errors.Is(err, assign.ErrEvidence) {
		t.Errorf("no evidence: %v", err)
	}
	at := coords.Coordinate{Vec: []float64{1, 2}}
	e := assign.Evidence{
		Subnet: netip.MustParsePrefix("192.0.2.0/24"), Self: "a",
		Candidates: []assign.Candidate{{ID: "b", At: at}, {ID: "a", At: at}},
		Exclude:    map[string]bool{"a": true}, CanProbe: true,
	}
	for range 10 {
		step, err := v.Next(e)
		if err != nil || step.Probe != "b" {
			t.Fatalf("%+v, %v", step, err)
		}
		e.Samples = append(e.Samples, coords.Sample{Peer: "b", At: at, Failed: true})
	}
	if step, err := v.Next(e); err != nil || step.Choice != "b" {
		t.Errorf("after the last probe: %+v, %v", step, err)
	}
	e.Exclude["b"] = true
	if _, err := v.Next(e); !errors.Is(err, assign.ErrNoCandidate) {
		t.Errorf("no candidate left: %v", err)
	}
}

func TestQuantile(t *testing.T) {
	t.Parallel()
	if q := quantile([]float64{1, 2, 3, 4}, 0.5); q != 2 {
		t.Errorf("got %v", q)
	}
	if q := quantile([]float64{1}, 0.99); q != 1 {
		t.Errorf("got %v", q)
	}
	if !math.IsNaN(quantile(nil, 0.5)) {
		t.Error("quantile() of an empty list is not NaN")
	}
	share, half, most := reached([]float64{30, 10, 20}, 4)
	if share != 0.75 || half != 20 || !math.IsNaN(most) {
		t.Errorf("%v %v %v", share, half, most)
	}
}

// The oracle knows which peers are overloaded. An oracle that knows only the usual times gives
// pages to them.
func TestOracleKnowsOverloads(t *testing.T) {
	t.Parallel()
	land, err := newGround(experiment.Params{}, 1)
	if err != nil {
		t.Fatal(err)
	}
	nature := crawlsim.PlanetLab()
	nature.Spells.Every = 5 * time.Minute
	world := land.world(6, 20, nature, 1)
	g := newStage(t.Context(), new(experimenttest.Out), 2)
	p90 := map[string]float64{}
	for _, name := range []string{"oracle", "oracle-owner"} {
		s, err := g.run(play{who: contenderNamed(name), world: world, seed: 1,
			tune: func(c *crawlsim.Config) { c.Pages, c.Assigned = thesisUpdates, 30 }})
		if err != nil {
			t.Fatal(err)
		}
		var sc score
		sc.add(s, world)
		sc.settle()
		p90[name] = sc.row.P90
	}
	if p90["oracle"] > 0.3*p90["oracle-owner"] {
		t.Errorf("90th percentiles %v, want that of oracle much less", p90)
	}
}
