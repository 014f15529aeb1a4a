//go:build integration

package delegate

import (
	"testing"

	"peerd/lab/experiment"
	"peerd/lab/experiment/experimenttest"
)

func TestPapapetrouQuick(t *testing.T) {
	t.Parallel()
	for _, e := range papapetrou() {
		var out experimenttest.Out
		if err := e.Run(t.Context(), experiment.Params{Quick: true}, &out); err != nil {
			t.Errorf("%s: %v", e.Name, err)
		}
		if len(out.Tables) == 0 || len(out.Claims) == 0 {
			t.Errorf("%s has no results", e.Name)
		}
	}
}
