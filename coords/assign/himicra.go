package assign

import (
	"errors"
	"fmt"
	"slices"
)

var _ Strategy = (*HiMicraStrategy)(nil)

// HiMicraConfig holds the parameters of a HiMicraStrategy.
type HiMicraConfig struct {
	ThresholdConfig
	// Branching is the maximum number of children of a crawler. In [2, 16].
	Branching int
	// Distance is the dissimilarity of two crawlers. Nil: by their coordinates. It must be
	// symmetric, >= 0, and safe for concurrent use.
	Distance func(a, b Candidate) float64
}

// DefaultHiMicraConfig returns the thesis' parameters: "the branching factor was
// always set to two" (6.5).
func DefaultHiMicraConfig() HiMicraConfig {
	return HiMicraConfig{ThresholdConfig: DefaultThresholdConfig(), Branching: 2}
}

// Validate returns an error that names every field that is out of range.
func (c HiMicraConfig) Validate() error {
	var err error
	if c.Branching < 2 || c.Branching > 16 {
		err = fmt.Errorf("assign: Branching is %d, want 2 to 16", c.Branching)
	}
	return errors.Join(c.ThresholdConfig.Validate(), err)
}

// HiMicraStrategy is HiMicra (Papapetrou 2003, chapter 6). The candidates form a
// hierarchy in which neighbours have similar times to sites, and a best-first search in
// it probes until a candidate is near enough. The deciding peer is the coordinator and a
// candidate like the others.
type HiMicraStrategy struct {
	cfg HiMicraConfig
}

// NewHiMicra returns a HiMicraStrategy. The error is that of cfg.Validate.
func NewHiMicra(cfg HiMicraConfig) (*HiMicraStrategy, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if cfg.Distance == nil {
		cfg.Distance = coordinateDistance
	}
	return &HiMicraStrategy{cfg: cfg}, nil
}

// Name returns "himicra".
func (s *HiMicraStrategy) Name() string { return "himicra" }

// Next replays the best-first search of 6.6 from its start; crawlers that have probed
// are not asked again. It builds the hierarchy only as deep as the search goes. (The
// thesis' pseudo-code starts with sufficientnotfound = false and would never loop; this
// follows the text.)
func (s *HiMicraStrategy) Next(e Evidence) (Step, error) {
	run, err := s.cfg.begin(e)
	if err != nil {
		return Step{}, err
	}
	tree := hierarchy{s.cfg}
	list := tree.children(nil, run.open)
	next := list[0].ID // the choice if no candidate could be asked
	for fresh := list; ; {
		for _, c := range fresh {
			if !run.probed(c.ID) && run.allowed {
				return run.probe(c.ID), nil
			}
		}
		// The search does not continue below crawlers that can no longer be asked.
		list = slices.DeleteFunc(list, func(c cluster) bool { return !run.probed(c.ID) })
		if len(list) == 0 {
			return run.best(next), nil
		}
		slices.SortFunc(list, byTime(run.times))
		first := list[0]
		if run.near(first.ID) {
			return Step{Choice: first.ID}, nil
		}
		fresh = tree.children(&first.Candidate, first.below)
		list = append(list[1:], fresh...)
	}
}
