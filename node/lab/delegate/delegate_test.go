package delegate

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"peerd/node/lab"
	"peerd/node/lab/labtest"
)

// delegateRows runs the experiment and returns its rows by strategy and threshold.
func delegateRows(t *testing.T, p lab.Params) map[string]delegateRow {
	t.Helper()
	var out labtest.Out
	if err := runDelegate(t.Context(), p, &out); err != nil {
		t.Fatal(err)
	}
	rows := map[string]delegateRow{}
	for _, r := range labtest.Rows[delegateRow](t, &out, "delegate") {
		rows[fmt.Sprintf("%s@%.0f", r.Strategy, r.ThresholdMS)] = r
		t.Logf("%-22s %3.0f ms: optimal %5.1f %%, probes %5.1f %%, %5.2f a URL, excess %5.1f ms", r.Strategy, r.ThresholdMS, r.Optimal*100, r.ProbesShare*100, r.ProbesPerURL, r.ExcessMS)
	}
	for _, c := range out.Claims {
		t.Log(c)
	}
	return rows
}

func TestDelegate(t *testing.T) {
	rows := delegateRows(t, lab.Params{Quick: true, Threshold: []float64{25, 50}})
	if len(rows) != 2*len(contestants()) {
		t.Errorf("%d rows", len(rows))
	}
	if r := rows["probe@50"]; r.Optimal != 1 || r.ProbesShare != 1 || r.ExcessMS != 0 {
		t.Errorf("brute force: %+v", r)
	}
	if r := rows["random@50"]; r.ProbesShare != 0 || r.Optimal > 0.3 {
		t.Errorf("random: %+v", r)
	}
	// "the higher the threshold, the less optimal delegations we get", and the fewer
	// probes; and what helps, helps.
	for _, s := range []string{"sequential", "himicra", "ipmicra", "ipmicra-proxy"} {
		low, high := rows[s+"@25"], rows[s+"@50"]
		if low.ProbesShare <= high.ProbesShare || low.Optimal < high.Optimal || math.Abs(high.ProbesPerURL-12*high.ProbesShare) > 1e-9 {
			t.Errorf("%s: %+v at 25 ms, %+v at 50 ms", s, low, high)
		}
	}
	if ip, seq := rows["ipmicra@50"], rows["sequential@50"]; ip.ProbesShare >= seq.ProbesShare {
		t.Errorf("ipmicra needs %.2f of the probes, sequential %.2f", ip.ProbesShare, seq.ProbesShare)
	}
	if help, ip := rows["ipmicra-proxy-probes@50"], rows["ipmicra@50"]; help.Optimal <= ip.Optimal {
		t.Errorf("with help %.2f are optimal, without %.2f", help.Optimal, ip.Optimal)
	}
}

func TestDelegateIsDeterministic(t *testing.T) {
	p := lab.Params{Quick: true, Threshold: []float64{50}, Seeds: 2, Sites: 100, Peers: 5}
	if a, b := delegateRows(t, p), delegateRows(t, p); fmt.Sprint(a) != fmt.Sprint(b) {
		t.Errorf("%v\n%v", a, b)
	}
}

func TestDelegateRefuses(t *testing.T) {
	for name, p := range map[string]lab.Params{
		"threshold": {Threshold: []float64{-1}},
		"no file":   {World: []string{"testdata/nowhere.json"}},
		"too many":  {Peers: 100_000},
		"too few":   {Sites: 3},
	} {
		if err := runDelegate(t.Context(), p, new(labtest.Out)); err == nil || !strings.HasPrefix(err.Error(), "delegate: ") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestPapapetrouQuick(t *testing.T) {
	for _, e := range papapetrou() {
		var out labtest.Out
		if err := e.Run(t.Context(), lab.Params{Quick: true}, &out); err != nil {
			t.Errorf("%s: %v", e.Name, err)
		}
		if len(out.Tables) == 0 || len(out.Claims) == 0 {
			t.Errorf("%s says nothing", e.Name)
		}
	}
}

// The ranges that the thesis and a reference implementation leave, over worlds
// that stand for its data.
func TestWorldsHold(t *testing.T) {
	dir := os.Getenv("PEERD_WORLDS")
	if dir == "" {
		t.Skip("SKIPPED: set PEERD_WORLDS to a folder of worlds, synthetic-*.json.gz and planetlab*.json.gz")
	}
	for _, c := range []struct {
		files                  string
		lo50, hi50, lop, hip   float64 // IPMicra at 50 ms: optimal, probes
		lo25, hi25, lop2, hip2 float64 // at 25 ms
		himicra                [4]float64
	}{
		{"synthetic-*", 0.70, 0.77, 0.22, 0.28, 0.87, 0.93, 0.45, 0.56, [4]float64{0.62, 0.70, 0.43, 0.50}},
		{"planetlab*", 0.70, 0.79, 0.23, 0.30, 0.84, 0.93, 0.45, 0.56, [4]float64{0.58, 0.70, 0.40, 0.50}},
	} {
		files, err := filepath.Glob(filepath.Join(dir, c.files))
		if err != nil || len(files) == 0 {
			t.Fatalf("no %s in %s: %v", c.files, dir, err)
		}
		t.Run(c.files, func(t *testing.T) {
			rows := delegateRows(t, lab.Params{World: files, Threshold: []float64{25, 50}})
			ip, hi, help := rows["ipmicra@50"], rows["himicra@50"], rows["ipmicra-proxy@50"]
			if !within(ip.Optimal, c.lo50, c.hi50) || !within(ip.ProbesShare, c.lop, c.hip) {
				t.Errorf("IPMicra at 50 ms: %+v", ip)
			}
			if r := rows["ipmicra@25"]; !within(r.Optimal, c.lo25, c.hi25) || !within(r.ProbesShare, c.lop2, c.hip2) {
				t.Errorf("IPMicra at 25 ms: %+v", r)
			}
			if !within(hi.Optimal, c.himicra[0], c.himicra[1]) || !within(hi.ProbesShare, c.himicra[2], c.himicra[3]) {
				t.Errorf("HiMicra at 50 ms: %+v", hi)
			}
			if help.Optimal <= max(ip.Optimal, hi.Optimal) || help.ProbesShare >= min(ip.ProbesShare, hi.ProbesShare) {
				t.Errorf("with the coordinates' help: %+v, without: %+v", help, ip)
			}
		})
	}
}
