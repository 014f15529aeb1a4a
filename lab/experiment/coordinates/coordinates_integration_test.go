//go:build integration

package coordinates

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"peerd/lab/experiment"
	"peerd/lab/experiment/experimenttest"
)

func TestCoordinates(t *testing.T) {
	t.Parallel()
	path := writeMatrix(t, 30)
	h := experimenttest.Run(t, coordinates(), experiment.Params{Matrix: path, Rounds: 60,
		Seeds: 1, Quick: true})
	rows := experimenttest.Rows[coordinatesRow](t, h, "coordinates")
	at := map[string]coordinatesRow{}
	for _, r := range rows {
		if !(r.RE50 >= 0 && r.RE90 >= r.RE50) {
			t.Errorf("%+v", r)
		}
		at[fmt.Sprint(r.Algorithm, " ", r.Attack, " ", r.Round)] = r
	}
	for _, name := range []string{"peerd", "peerd-one-way", "peerd-32-partners", "serf",
		"vivaldi-2d+h", "vivaldi-5d+h", "vivaldi-2d"} {
		for _, round := range []int{10, 20, 50, 60} {
			if _, ok := at[fmt.Sprint(name, "  ", round)]; !ok {
				t.Errorf("no row for %s after %d rounds", name, round)
			}
		}
	}
	own := at["peerd  60"]
	if own.RE50 > 0.06 || own.RE90 > 0.25 {
		t.Errorf("peerd: RE50 %.3f, RE90 %.2f, want smaller errors", own.RE50, own.RE90)
	}
	for _, kind := range []string{"random", "inflated"} {
		lied, serf := at["peerd "+kind+" 60"], at["serf "+kind+" 60"]
		if lied.Liars != 0.3 || lied.RE50 > 0.09 {
			t.Errorf("%s: peerd %+v", kind, lied)
		}
		if serf.RE50 < 2*lied.RE50 {
			t.Errorf("%s: RE50 of serf is %.3f, want a larger error than peerd's", kind, serf.RE50)
		}
	}
	if len(h.Plots) != 3 || len(h.Claims) < 3 || h.Share != 1 {
		t.Errorf("%d plots, claims %q, progress %v", len(h.Plots), h.Claims, h.Share)
	}
	text, err := json.Marshal(rows[0])
	if want := `{"algorithm":"peerd","round":10,`; err != nil || !strings.HasPrefix(string(text),
		want) || !strings.HasSuffix(string(text), `"liars":0}`) {
		t.Errorf("%s (%v)", text, err)
	}
}
