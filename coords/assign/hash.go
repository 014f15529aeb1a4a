package assign

import (
	"cmp"
	"fmt"
	"math"
)

var _ Strategy = (*HashStrategy)(nil)

// HashConfig holds the parameters of a HashStrategy.
type HashConfig struct {
	// VirtualNodes is the number of points on the ring of a candidate of capacity 1. More
	// points make the shares more even. In [1, 1024].
	VirtualNodes int
}

// DefaultHashConfig returns 64 virtual nodes, with which shares differ by about 12 %.
func DefaultHashConfig() HashConfig { return HashConfig{VirtualNodes: 64} }

// Validate returns an error that names every field that is out of range.
func (c HashConfig) Validate() error {
	if c.VirtualNodes < 1 || c.VirtualNodes > 1024 {
		return fmt.Errorf("assign: VirtualNodes is %d, want 1 to 1024", c.VirtualNodes)
	}
	return nil
}

// capacityMax limits the virtual nodes of a candidate that claims a large capacity.
const capacityMax = 16

// HashStrategy is consistent hashing (Boldi, Codenotti, Santini, Vigna: UbiCrawler,
// 2004). Candidates have virtual nodes on a ring in proportion to their capacity, and a
// subnet belongs to the first one that follows it. When a candidate joins or leaves,
// only its own subnets move. It never probes.
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

// Next chooses at once. Excluded candidates are treated as absent.
func (s *HashStrategy) Next(e Evidence) (Step, error) {
	open, err := e.openCandidates()
	if err != nil {
		return Step{}, err
	}
	at := score(e.key(), "", 0)
	choice, least := "", uint64(math.MaxUint64)
	for _, c := range open {
		for i := range s.points(c) {
			// Unsigned subtraction wraps around like the ring.
			if d := score(nil, c.ID, uint32(i)) - at; choice == "" || d < least {
				choice, least = c.ID, d
			}
		}
	}
	return Step{Choice: choice}, nil
}

// points returns the number of virtual nodes of a candidate, at least one.
func (s *HashStrategy) points(c Candidate) int {
	capacity := c.Capacity
	capacity = cmp.Or(capacity, 1)
	return max(1, int(math.Round(float64(s.cfg.VirtualNodes)*min(capacity, capacityMax))))
}
