package scale

import (
	"fmt"
	"testing"

	"peerd/node/lab"
	"peerd/node/lab/labtest"
)

func TestScaleQuick(t *testing.T) {
	out := labtest.Run(t, Scale(), lab.Params{Quick: true})
	rows := labtest.Rows[scaleRow](t, out, "scale")
	if len(rows) != 3 || len(out.Tables["tables"]) != 5 || len(out.Plots) != 3 {
		t.Fatalf("%d rows, %d tables, %d plots", len(rows), len(out.Tables["tables"]), len(out.Plots))
	}
	for _, r := range rows {
		if full := float64(r.Peers - 1); r.Peers <= 100 && r.Table < full*0.99 {
			t.Errorf("%d peers know %.1f others", r.Peers, r.Table)
		}
		if r.Table > 256 || r.HopsMax > r.Log2 || r.Found < 0.9 || r.Bytes <= 0 || r.Bytes > 1000 {
			t.Errorf("out of bounds: %+v", r)
		}
	}
}

// The same seed gives the same figures.
func TestScaleRepeats(t *testing.T) {
	var lines [2]string
	for i := range lines {
		lines[i] = fmt.Sprint(labtest.Run(t, Scale(), lab.Params{Quick: true, Peers: 50, Rounds: 12, Sites: 10, Seed: 7}).Tables)
	}
	if lines[0] != lines[1] {
		t.Errorf("%s\n%s", lines[0], lines[1])
	}
}
