//go:build integration

package lease

import "testing"

// TestExploreFaults visits all states of two claims where a fault may happen as well.
func TestExploreFaults(t *testing.T) {
	t.Parallel()
	var two []xScenario
	for _, sc := range xScenarios {
		if sc.claimants == 2 && !sc.blind && sc.second != 0b11110000 {
			sc.faults = 1
			two = append(two, sc)
		}
	}
	exploreClaims(t, two)
}
