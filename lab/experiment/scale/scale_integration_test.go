//go:build integration

package scale

import (
	"testing"

	"peerd/lab/experiment"
	"peerd/lab/experiment/experimenttest"
)

func TestScaleQuick(t *testing.T) {
	t.Parallel()
	out := experimenttest.Run(t, Scale(), experiment.Params{Quick: true})
	rows := experimenttest.Rows[scaleRow](t, out, "scale")
	if len(rows) != 3 || len(out.Tables["tables"]) != 5 || len(out.Plots) != 3 {
		t.Fatalf("%d rows, %d tables, %d plots", len(rows), len(out.Tables["tables"]),
			len(out.Plots))
	}
	for _, r := range rows {
		if full := float64(r.Peers - 1); r.Peers <= 100 && r.Table < full*0.99 {
			t.Errorf("%d peers know %.1f others", r.Peers, r.Table)
		}
		if r.Table > 256 || r.HopsMax > r.Log2 || r.Found < 0.9 || r.Bytes <= 0 || r.Bytes > 1000 {
			t.Errorf("figures out of bounds: %+v", r)
		}
	}
}

// The predictions are within a fifth of the simulations.
func TestPredictions(t *testing.T) {
	t.Parallel()
	out := experimenttest.Run(t, Volunteers(), experiment.Params{Seed: 1, Quick: true})
	if out.Failed > 0 || len(out.Claims) != 2 {
		t.Errorf("%q", out.Claims)
	}
}
