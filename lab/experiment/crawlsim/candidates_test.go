package crawlsim

import (
	"slices"
	"testing"
	"time"

	"peerd/coords/assign"
	"peerd/coords/assign/assigntest"
)

// A peer knows of the others in the simulation what a running peer knows from their beacons.
func TestCandidatesAreComplete(t *testing.T) {
	t.Parallel()
	c := testConfig(testWorld(12, 36, 1), 1)
	c.Workers = 1 // so that downloads wait
	s, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	var all []assign.Candidate
	for at := c.WarmUp; at < c.WarmUp+8*c.FoundWithin; at += time.Second {
		s.At(at, func() { all = append(all, slices.Clone(s.candidates(0)[1:])...) })
	}
	if err := s.Run(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	assigntest.Complete(t, all)
}
