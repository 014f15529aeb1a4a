package assign

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"

	"peerd/coords"
)

// Errors of Next.
var (
	// ErrEvidence is returned for evidence that contradicts itself.
	ErrEvidence = errors.New("assign: bad evidence")
	// ErrNoCandidate is returned when every candidate is excluded.
	ErrNoCandidate = errors.New("assign: no candidate left")
)

// Validate reports whether e is consistent. The errors wrap ErrEvidence.
func (e Evidence) Validate() error {
	if !e.Subnet.IsValid() {
		return fmt.Errorf("%w: no subnet", ErrEvidence)
	}
	seen := make(map[string]bool, len(e.Candidates))
	for _, c := range e.Candidates {
		switch {
		case c.ID == "" || seen[c.ID]:
			return fmt.Errorf("%w: candidate %q is nameless or named twice", ErrEvidence, c.ID)
		case c.Wait < 0:
			return fmt.Errorf("%w: candidate %s waits %v", ErrEvidence, c.ID, c.Wait)
		case !(c.Capacity >= 0) || math.IsInf(c.Capacity, 1):
			return fmt.Errorf("%w: candidate %s has capacity %v", ErrEvidence, c.ID, c.Capacity)
		}
		if err := c.At.Validate(len(e.Candidates[0].At.Vec)); err != nil {
			return fmt.Errorf("%w: candidate %s: %w", ErrEvidence, c.ID, err)
		}
		seen[c.ID] = true
	}
	if !seen[e.Self] {
		return fmt.Errorf("%w: %q decides and is no candidate", ErrEvidence, e.Self)
	}
	return nil
}

// openCandidates returns the candidates that may be chosen, sorted by name.
func (e Evidence) openCandidates() ([]Candidate, error) {
	if err := e.Validate(); err != nil {
		return nil, err
	}
	open := slices.DeleteFunc(slices.Clone(e.Candidates), func(c Candidate) bool {
		return e.Exclude[c.ID]
	})
	if len(open) == 0 {
		return nil, ErrNoCandidate
	}
	slices.SortFunc(open, func(a, b Candidate) int { return cmp.Compare(a.ID, b.ID) })
	return open, nil
}

// samples returns the well-formed samples. For peers that are still candidates it uses
// their current coordinates: the space rotates and shifts as a whole, so that old
// coordinates do not fit new ones.
func (e Evidence) samples() []coords.Sample {
	now := make(map[string]coords.Coordinate, len(e.Candidates))
	for _, c := range e.Candidates {
		now[c.ID] = c.At
	}
	dims := len(e.Candidates[0].At.Vec)
	out := make([]coords.Sample, 0, len(e.Samples))
	for _, s := range e.Samples {
		if at, ok := now[s.Peer]; ok {
			s.At = at
		}
		if s.Validate(dims) == nil {
			out = append(out, s)
		}
	}
	return out
}
