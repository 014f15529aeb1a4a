package assign

import (
	"fmt"
	"math"
)

var _ Strategy = (*HashStrategy)(nil)

// HashConfig holds the parameters of a HashStrategy.
type HashConfig struct {
	// Replicas is how many points on the ring a candidate of capacity 1 has: the
	// more, the evener the shares. In [1, 1024].
	Replicas int
}

// DefaultHashConfig returns 64 replicas: shares even to some 12 %.
func DefaultHashConfig() HashConfig { return HashConfig{Replicas: 64} }

// Validate names every field that is out of its range.
func (c HashConfig) Validate() error {
	if c.Replicas < 1 || c.Replicas > 1024 {
		return fmt.Errorf("assign: Replicas is %d, want 1 to 1024", c.Replicas)
	}
	return nil
}

// capacityMax bounds the points of one boasting candidate.
const capacityMax = 16

// HashStrategy is consistent hashing (Boldi, Codenotti, Santini, Vigna:
// UbiCrawler, 2004): candidates have points on a ring in proportion to their
// capacity, and a subnet belongs to the first point that follows it. When a
// candidate comes or goes, only subnets from or to it move. It never probes.
type HashStrategy struct {
	cfg HashConfig
}

// NewHash returns a HashStrategy. The error is that of cfg.Validate.
func NewHash(cfg HashConfig) (*HashStrategy, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	return &HashStrategy{cfg: cfg}, nil
}

// Name returns "hash".
func (s *HashStrategy) Name() string { return "hash" }

// Next chooses at once. Excluded candidates are as if they were not there.
func (s *HashStrategy) Next(e Evidence) (Step, error) {
	open, err := e.open()
	if err != nil {
		return Step{}, err
	}
	at := score(e.key(), "", 0)
	choice, least := "", uint64(math.MaxUint64)
	for _, c := range open {
		for i := range s.points(c) {
			// The difference wraps around the ring as the ring does.
			if d := score(nil, c.ID, uint32(i)) - at; choice == "" || d < least {
				choice, least = c.ID, d
			}
		}
	}
	return Step{Choice: choice}, nil
}

// points is the number of points of a candidate, at least one.
func (s *HashStrategy) points(c Candidate) int {
	capacity := c.Capacity
	if capacity == 0 {
		capacity = 1
	}
	return max(1, int(math.Round(float64(s.cfg.Replicas)*min(capacity, capacityMax))))
}
