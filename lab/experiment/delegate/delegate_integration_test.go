//go:build integration

package delegate

import (
	"math"
	"testing"

	"peerd/lab/experiment"
)

func TestDelegate(t *testing.T) {
	t.Parallel()
	rows := delegateRows(t, experiment.Params{Quick: true, Threshold: []float64{25, 50}})
	if len(rows) != 2*len(contestants()) {
		t.Errorf("%d rows", len(rows))
	}
	if r := rows["probe@50"]; r.Optimal != 1 || r.ProbesShare != 1 || r.ExcessMS != 0 {
		t.Errorf("brute force: %+v", r)
	}
	if r := rows["random@50"]; r.ProbesShare != 0 || r.Optimal > 0.3 {
		t.Errorf("random: %+v", r)
	}
	// "the higher the threshold, the less optimal delegations we get", with fewer
	// probes.
	for _, s := range []string{"sequential", "himicra", "ipmicra", "ipmicra-proxy"} {
		low, high := rows[s+"@25"], rows[s+"@50"]
		if low.ProbesShare <= high.ProbesShare || low.Optimal < high.Optimal ||
			math.Abs(high.ProbesPerURL-12*high.ProbesShare) > 1e-9 {
			t.Errorf("%s: %+v at 25 ms, %+v at 50 ms", s, low, high)
		}
	}
	if ip, seq := rows["ipmicra@50"], rows["sequential@50"]; ip.ProbesShare >= seq.ProbesShare {
		t.Errorf("ipmicra needs %.2f of the probes, sequential %.2f", ip.ProbesShare,
			seq.ProbesShare)
	}
	if help, ip := rows["ipmicra-proxy-probes@50"], rows["ipmicra@50"]; help.Optimal <= ip.Optimal {
		t.Errorf("with coordinates %.2f are optimal, without %.2f", help.Optimal, ip.Optimal)
	}
}
