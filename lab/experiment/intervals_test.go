package experiment

import (
	"bytes"
	"context"
	"math"
	"strings"
	"testing"
)

// seeded has rows that depend on the seed.
var seeded = Experiment{
	Name: "seeded", Title: "t", Source: "s",
	Run: func(_ context.Context, p Params, out Out) error {
		x := float64(p.Seed)
		out.Row("rows", toyRow{"a", x, 3})
		out.Row("rows", toyRow{"b", 10, 3})
		for range p.Seed {
			out.Row("other", toyRow{"a", x, 3})
		}
		late := x
		if p.Seed == 2 {
			late = math.NaN()
		}
		out.Row("never", toyRow{"a", late, 3})
		out.Claim("here", "small", "as it is", p.Seed < 3)
		return nil
	},
}

// Each seed runs by itself; the means have intervals where seeds differ.
func TestIntervals(t *testing.T) {
	var streamed []Row
	res, err := Run{seeded, Params{Seed: 1, Seeds: 3, Intervals: true}}.Do(t.Context(),
		func(r Row) { streamed = append(streamed, r) }, nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(streamed) != 2 {
		t.Errorf("%d rows were streamed, want 2", len(streamed))
	}
	// Student's t with two degrees of freedom: 4.303·1/√3.
	want := "rows\nname  x           n\na     2 ± 2.484   3\nb     10 ± 0      3\n"
	var text bytes.Buffer
	if err := WriteText(&text, res); err != nil {
		t.Fatal(err)
	}
	if got := text.String(); !strings.Contains(squeeze(got), squeeze(want)) ||
		!strings.Contains(squeeze(got), squeeze("never\nname x n\na - 3\n")) ||
		!strings.Contains(got, "Table other is left out") ||
		!strings.Contains(got, "in 2 of 3 runs; the first: as it is  no") {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if cmd := res.command(); !strings.Contains(cmd, "--seeds 3 --intervals") {
		t.Errorf("command %q", cmd)
	}
}

// squeeze replaces runs of blanks by one.
func squeeze(s string) string {
	lines := strings.Split(s, "\n")
	for i, l := range lines {
		lines[i] = strings.Join(strings.Fields(l), " ")
	}
	return strings.Join(lines, "\n")
}

// Worlds are runs of their own, and a table of which a text differs is left out.
func TestIntervalsOfWorlds(t *testing.T) {
	e := Experiment{Name: "worlds", Title: "t", Source: "s",
		Run: func(_ context.Context, p Params, out Out) error {
			out.Row("names", toyRow{p.World[0], 1, len(p.World)})
			out.Row("seeds", toyRow{"a", float64(p.Seed), len(p.World)})
			return nil
		}}
	a := toyRun(t, 1).Params.Matrix
	b := toyRun(t, 1).Params.Matrix
	res := do(t, Run{e, Params{Seed: 4, World: []string{a, b}, Intervals: true}})
	if len(res.Tables) != 1 || res.Tables[0].Name != "seeds" ||
		res.Tables[0].Rows[0][1].Value != 4.0 || res.Tables[0].Rows[0][2].Value != 1.0 ||
		len(res.Data) != 2 {
		t.Errorf("%+v, %+v", res, res.Tables)
	}
}
