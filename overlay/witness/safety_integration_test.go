//go:build integration

package witness

import (
	"strings"
	"testing"
	"testing/synctest"

	"pgregory.net/rapid"
)

// TestOneOwnerAtATimeMany is TestOneOwnerAtATime with many schedules, and finds a small
// one that fails. The flag -rapid.checks sets their number.
func TestOneOwnerAtATimeMany(t *testing.T) {
	var held, taken, runs int
	rapid.Check(t, func(rt *rapid.T) {
		s := schedules.Draw(rt, "schedule")
		var w *judge
		synctest.Test(t, func(t *testing.T) { w = s.run(t, mutation{}) })
		if len(w.faults) > 0 {
			rt.Fatalf("%s", strings.Join(w.faults[:min(len(w.faults), 3)], "\n"))
		}
		runs, held, taken = runs+1, held+int(w.held.Seconds()), taken+w.taken
	})
	t.Logf("%d runs of %v: the quorum lease held for %d s each, %d takeovers", runs, simLast,
		held/max(runs, 1), taken)
}
