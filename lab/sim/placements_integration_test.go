//go:build integration

package sim_test

import (
	"testing"

	"peerd/lab/sim"
)

// TestPlacements runs a simulation without faults: each subnet must reach the peer that the
// strategy chose. An oversight there costs no page, so that nothing else notices it.
func TestPlacements(t *testing.T) {
	sum := playSeeds(t, 1, sim.Calm)
	if p := sum.Placements; p.Chosen == 0 {
		t.Errorf("the strategy chose no peer but the claimant: %v", p)
	}
}
