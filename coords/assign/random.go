package assign

import (
	"encoding/binary"
	"math/rand/v2"
)

var _ Strategy = (*RandomStrategy)(nil)

// RandomConfig holds the parameters of a RandomStrategy.
type RandomConfig struct {
	// Seed selects the sequence of choices; equal seeds choose alike.
	Seed uint64
}

// RandomStrategy gives every subnet to a random candidate, without a probe. It is the
// baseline for measurements.
type RandomStrategy struct {
	seed uint64
}

// NewRandom returns a RandomStrategy.
func NewRandom(cfg RandomConfig) *RandomStrategy { return &RandomStrategy{seed: cfg.Seed} }

// Name returns "random".
func (s *RandomStrategy) Name() string { return "random" }

// Next chooses at once.
func (s *RandomStrategy) Next(e Evidence) (Step, error) {
	open, err := e.openCandidates()
	if err != nil {
		return Step{}, err
	}
	seed := binary.BigEndian.AppendUint64(nil, s.seed)
	rng := rand.New(rand.NewPCG(s.seed, score(append(seed, e.key()...), "", 0)))
	return Step{Choice: open[rng.IntN(len(open))].ID}, nil
}
