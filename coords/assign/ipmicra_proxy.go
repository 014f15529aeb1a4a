package assign

import (
	"errors"
	"fmt"
	"math"
	"net/netip"
	"slices"

	"peerd/coords"
	"peerd/coords/registry"
)

var _ Strategy = (*IPMicraProxyStrategy)(nil)

// IPMicraProxyConfig holds the parameters of an IPMicraProxyStrategy.
type IPMicraProxyConfig struct {
	// IPMicraConfig is the search without estimates, used where there are none.
	IPMicraConfig
	// Chance ends the search when no candidate is nearer than the best so far with at least
	// this probability. In [0, 1]; 0 derives it from the threshold.
	Chance float64
	// Neighbours is the maximum number of decided subnets used. In [1, 4096].
	Neighbours int
	// LevelWeight is the factor by which a neighbouring subnet weighs more for each level of
	// the hierarchy that it is nearer. >= 1.
	LevelWeight float64
	// Sigma is the standard deviation of the logarithm of a peer's times among neighbouring
	// subnets. In (0, 3].
	Sigma float64
}

// DefaultIPMicraProxyConfig returns the best measured parameters; see
// docs/results/2026-11-coordinates.md.
func DefaultIPMicraProxyConfig() IPMicraProxyConfig {
	return IPMicraProxyConfig{
		IPMicraConfig: DefaultIPMicraConfig(),
		Neighbours:    256, LevelWeight: 5, Sigma: 0.3,
	}
}

// Validate returns an error that names every field that is out of range.
func (c IPMicraProxyConfig) Validate() error {
	errs := []error{c.IPMicraConfig.Validate()}
	check := func(ok bool, name string, value any, want string) {
		if !ok {
			errs = append(errs, fmt.Errorf("assign: %s is %v, want %s", name, value, want))
		}
	}
	check(c.Chance >= 0 && c.Chance <= 1, "Chance", c.Chance, "in [0, 1]")
	check(c.Neighbours >= 1 && c.Neighbours <= 4096, "Neighbours", c.Neighbours, "1 to 4096")
	check(c.LevelWeight >= 1 && c.LevelWeight <= 1000, "LevelWeight", c.LevelWeight, "1 to 1000")
	check(c.Sigma > 0 && c.Sigma <= 3, "Sigma", c.Sigma, "in (0, 3]")
	return errors.Join(errs...)
}

// chance returns the minimum probability for a further probe. A threshold of 50 ms
// corresponds to one in five, so that a higher threshold means fewer probes, as in
// IPMicra, and never more than there.
func (c IPMicraProxyConfig) chance() float64 {
	if c.Chance > 0 {
		return c.Chance
	}
	return min(max((ms(c.Threshold)-10)/200, 0.03), 0.6)
}

// IPMicraProxyStrategy is IPMicra with the help of coordinates. Neighbouring subnets in
// the registries' hierarchy contribute not only their owners but the times of all
// candidates, by probes and by proxy coordinates. Each of them is an estimate of the
// target's times, and estimates that agree with the first probes weigh more. Candidates
// are therefore asked in the order of their probability to be nearest, not of their
// addresses, and the search ends when no candidate is likely to be nearer.
//
// Its choice has always been probed at least once if there was a page.
type IPMicraProxyStrategy struct {
	cfg   IPMicraProxyConfig
	plain *IPMicraStrategy
}

// NewIPMicraProxy returns an IPMicraProxyStrategy; table may be nil. The error is
// that of cfg.Validate.
func NewIPMicraProxy(cfg IPMicraProxyConfig, table *registry.Table) (*IPMicraProxyStrategy, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	plain, err := NewIPMicra(cfg.IPMicraConfig, table)
	if err != nil {
		return nil, err
	}
	return &IPMicraProxyStrategy{cfg: cfg, plain: plain}, nil
}

// Name returns "ipmicra-proxy".
func (s *IPMicraProxyStrategy) Name() string { return "ipmicra-proxy" }

// Target is like IPMicraStrategy.Target.
func (s *IPMicraProxyStrategy) Target(p netip.Prefix) netip.Prefix { return s.plain.Target(p) }

// Next probes while a candidate is likely enough to be nearer, and then chooses.
func (s *IPMicraProxyStrategy) Next(e Evidence) (Step, error) {
	run, err := s.cfg.begin(e)
	if err != nil {
		return Step{}, err
	}
	h := newSubnets(s.plain.table, s.cfg.Leaf, e.Delegations, run.open)
	target := h.smallest(e.Subnet)
	estimates := s.estimates(run, h, target)
	if len(estimates) == 0 {
		step, err := s.plain.Next(e)
		if step.Choice != "" {
			step.Proxy = run.proxyOf(e.samples())
		}
		return step, err
	}
	run.pageTimes(e.samples())
	weights := s.weigh(run, estimates)
	step := s.step(run, estimates, weights)
	step.Predicted = predicted(run, estimates, weights)
	if step.Choice != "" {
		step.Proxy = run.proxyOf(e.samples())
	}
	return step, nil
}

// step returns the next step without its predictions.
func (s *IPMicraProxyStrategy) step(
	run *search, estimates []neighbourEstimate, weights []float64,
) Step {
	least, tried := math.Inf(1), 0
	for _, c := range run.open {
		if t, ok := run.times[c.ID]; ok {
			least = min(least, t)
			tried++
		}
	}
	if math.IsInf(least, 1) {
		next := mostFavoured(run, estimates, weights)
		if next == "" { // no candidate known to the neighbours succeeded: try the others
			ids := run.shuffled()
			if i := slices.IndexFunc(ids, func(id string) bool { return !run.probed(id) }); i >= 0 {
				next = ids[i]
			}
		}
		switch {
		case tried > coords.PlacedBy: // a dead server
			return run.best("")
		case next == "" || !run.allowed:
			return run.best(next)
		}
		return run.probe(next)
	}
	if id, chance := mostLikelyNearer(run, estimates, weights, least); run.allowed && id != "" &&
		chance >= s.cfg.chance() {
		return run.probe(id)
	}
	return run.best("")
}
