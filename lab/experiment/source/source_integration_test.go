//go:build integration

package source

import (
	"testing"

	"peerd/lab/experiment"
	"peerd/lab/experiment/experimenttest"
)

// All ways find all pages, and crawllets send less.
func TestExperiments(t *testing.T) {
	for _, e := range Experiments() {
		out := experimenttest.Run(t, e, experiment.Params{Quick: true, Seed: 1})
		pages := map[string]int64{}
		for _, r := range out.Tables[e.Name] {
			r := r.(row)
			if r.Way == ordinary {
				pages[r.Site] = r.Pages
			} else if r.BytesShare > 0.5 {
				t.Errorf("%s, %s: %.2f of the bytes", r.Site, r.Way, r.BytesShare)
			}
			if r.Pages < 20 || r.Pages != pages[r.Site] {
				t.Errorf("%s, %s: %d pages, want %d", r.Site, r.Way, r.Pages, pages[r.Site])
			}
		}
	}
}
