package scale

import (
	"math/rand/v2"
	"testing"

	"peerd/coords"
	"peerd/coords/assign"
	"peerd/coords/assign/assigntest"
	"peerd/coords/zone"
	_ "peerd/internal/rapidtest"
	"peerd/overlay/peers"
)

// A peer knows of the others in the simulation what a running peer knows from their beacons. No
// peer has downloaded anything before.
func TestCandidatesAreComplete(t *testing.T) {
	t.Parallel()
	const n = 20
	rng := rand.New(rand.NewPCG(1, 1))
	s := &scaleRun{n: n, seed: 1, rng: rng, world: newScaleWorld(n, 1, nil),
		wait: make([]float64, n)}
	var err error
	if s.views, err = newScaleViews(peers.DefaultConfig(), peers.Sizes{}, zone.DefaultConfig(),
		s.world, n, rng); err != nil {
		t.Fatal(err)
	}
	s.views.join(n)
	for range 10 {
		s.views.round()
	}
	s.at, s.wait[3] = s.views.said, 100
	var all []assign.Candidate
	for i := range n {
		all = append(all, s.candidate(0, i, coords.NewObservations()))
	}
	assigntest.Complete(t, all, "Traits")
}
