package coordinates

import (
	"context"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"peerd/lab/experiment"
	"peerd/lab/experiment/data"
	"peerd/lab/experiment/experimenttest"
)

// writeMatrix writes a file of three noisy slices of n places in a plane with access links;
// some entries are missing.
func writeMatrix(t *testing.T, n int) string {
	t.Helper()
	rng := rand.New(rand.NewPCG(5, 5))
	x, y, h := make([]float64, n), make([]float64, n), make([]float64, n)
	for i := range n {
		x[i], y[i], h[i] = rng.NormFloat64()*60, rng.NormFloat64()*40, 1+5*rng.Float64()
	}
	var b strings.Builder
	for slice := range 3 {
		for i := range n {
			fmt.Fprintf(&b, "%d\t%d", slice, i)
			for j := range n {
				ms := (math.Hypot(x[i]-x[j], y[i]-y[j]) + h[i] + h[j]) *
					(1 + 0.05*math.Abs(rng.NormFloat64()))
				switch {
				case i == j:
					ms = 0
				case rng.IntN(30) == 0:
					ms = -1
				}
				fmt.Fprintf(&b, "\t%.2f", ms)
			}
			b.WriteByte('\n')
		}
	}
	path := filepath.Join(t.TempDir(), "m.tsv")
	if err := os.WriteFile(path, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestEqualSeeds(t *testing.T) {
	t.Parallel()
	p := experiment.Params{Matrix: writeMatrix(t, 12), Rounds: 10, Seeds: 1, Quick: true}
	first := experimenttest.Run(t, coordinates(), p)
	second := experimenttest.Run(t, coordinates(), p)
	if fmt.Sprint(first.Tables) != fmt.Sprint(second.Tables) {
		t.Error("two runs with the same seed differ")
	}
}

func TestLiars(t *testing.T) {
	t.Parallel()
	p := experiment.Params{Matrix: writeMatrix(t, 20), Rounds: 6, Seeds: 2, Quick: true}
	h := experimenttest.Run(t, liars(), p)
	rows := experimenttest.Rows[liarsRow](t, h, "liars")
	if len(rows) != 2*(1+len(attacks())) || len(h.Claims) != 4 || h.Share != 1 {
		t.Fatalf("%d rows, claims %q, progress %v", len(rows), h.Claims, h.Share)
	}
	for _, r := range rows {
		switch {
		case r.Attack == "none":
			one := mean{Mean: 1}
			if r.RE50Ratio != one || r.VictimsRatio != one || r.WithinRatio != one ||
				r.WithinVictims != one || r.Within20.Mean < 0.5 {
				t.Errorf("no peer lies: %+v", r)
			}
		case r.RE50Ratio.Mean == 1 || !(r.RE50.Half > 0):
			t.Errorf("the attack has no effect, or the seeds no variance: %+v", r)
		}
	}
	if got := meanOf([]float64{1, 2, 3}); math.Abs(got.Half-2.483) > 0.01 || got.Mean != 2 {
		t.Errorf("meanOf(1, 2, 3) = %v, want 2 ± 2.484", got)
	}
}

func TestCoordinatesRefuses(t *testing.T) {
	t.Parallel()
	write := func(text string) string {
		path := filepath.Join(t.TempDir(), "m")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for name, path := range map[string]string{
		"no file": "", "missing": "/nonexistent", "two nodes": write("0 1\n1 0\n"),
		"no values": write("0 -1 -1\n-1 0 -1\n-1 -1 0\n"),
	} {
		if err := coordinates().Run(context.Background(), experiment.Params{Matrix: path,
			Rounds: 1}, new(experimenttest.Out)); err == nil {
			t.Errorf("%s: coordinates() = nil, want an error", name)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := coordinates().Run(ctx, experiment.Params{Matrix: writeMatrix(t, 5), Rounds: 1},
		new(experimenttest.Out)); err == nil {
		t.Error("coordinates() with an ended context = nil, want an error")
	}
}

var rttSlices = flag.String("rtt-slices", "",
	"file with time slices of round trips among hundreds of nodes; skipped without it")

// TestCoordinatesTargets checks the figures of docs/results/2026-11-coordinates.md.
func TestCoordinatesTargets(t *testing.T) {
	t.Parallel()
	path := *rttSlices
	if path == "" {
		t.Skip("skipped: -rtt-slices is not set")
	}
	m, err := data.LoadMatrix(path)
	if err != nil {
		t.Fatal(err)
	}
	c, err := newCourse(m, experiment.Params{Rounds: 100})
	if err != nil {
		t.Fatal(err)
	}
	peerd := algorithms()[0]
	for _, tr := range []contest{
		{algorithm: peerd},
		{algorithm: peerd, liars: 0.3, attack: attacks()[0], from: 1},
		{algorithm: peerd, liars: 0.3, attack: attacks()[1], from: 1},
	} {
		got, err := c.run(context.Background(), tr, 0)
		if err != nil {
			t.Fatal(err)
		}
		e := got[len(got)-1]
		t.Logf("%s after 100 rounds: RE50 %.3f RE90 %.2f", tr.key(), e.re50, e.re90)
		if e.re50 > 0.09 || e.re90 > 0.36 {
			t.Errorf("%s: RE50 %.3f, RE90 %.2f, want at most .09 and .36", tr.key(), e.re50, e.re90)
		}
	}
}
