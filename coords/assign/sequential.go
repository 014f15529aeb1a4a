package assign

import "slices"

var (
	_ Strategy = (*ProbeStrategy)(nil)
	_ Strategy = (*SequentialStrategy)(nil)
)

// ProbeConfig holds the parameters of a ProbeStrategy.
type ProbeConfig struct {
	// Via is the way in which candidates probe.
	Via Via
}

// DefaultProbeConfig returns ViaConnect, because there are not enough pages for every
// peer to fetch one.
func DefaultProbeConfig() ProbeConfig { return ProbeConfig{Via: ViaConnect} }

// ProbeStrategy is the brute force: "probing of each URL from every existing crawler
// prior the URL's assignment to one of the crawlers" (Papapetrou 2003, 5.3). It chooses
// the nearest.
type ProbeStrategy struct {
	cfg ThresholdConfig
}

// NewProbe returns a ProbeStrategy. The error names the wrong field.
func NewProbe(cfg ProbeConfig) (*ProbeStrategy, error) {
	t := ThresholdConfig{Via: cfg.Via}
	if err := t.Validate(); err != nil {
		return nil, err
	}
	return &ProbeStrategy{cfg: t}, nil
}

// Name returns "probe".
func (s *ProbeStrategy) Name() string { return "probe" }

// Next lets all candidates probe, in the order of a hash, and then chooses.
func (s *ProbeStrategy) Next(e Evidence) (Step, error) {
	run, err := s.cfg.begin(e)
	if err != nil {
		return Step{}, err
	}
	return run.walk(slices.Values(run.shuffled())), nil
}

// SequentialStrategy is the brute force with a threshold: "ask from the
// crawlers to probe the new URL sequentially and not in parallel, and stop when
// we get a probing result less than a threshold" (Papapetrou 2003, 5.3.1). The
// order is random by subnet.
type SequentialStrategy struct {
	cfg ThresholdConfig
}

// NewSequential returns a SequentialStrategy. The error is that of
// cfg.Validate.
func NewSequential(cfg ThresholdConfig) (*SequentialStrategy, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	return &SequentialStrategy{cfg: cfg}, nil
}

// Name returns "sequential".
func (s *SequentialStrategy) Name() string { return "sequential" }

// Next lets the candidates probe one after another until one is near enough.
func (s *SequentialStrategy) Next(e Evidence) (Step, error) {
	run, err := s.cfg.begin(e)
	if err != nil {
		return Step{}, err
	}
	return run.walk(slices.Values(run.shuffled())), nil
}
