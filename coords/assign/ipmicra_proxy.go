package assign

import (
	"errors"
	"fmt"
	"math"
	"net/netip"
	"slices"
	"time"

	"peerd/coords"
	"peerd/coords/registry"
)

var _ Strategy = (*IPMicraProxyStrategy)(nil)

// IPMicraProxyConfig holds the parameters of an IPMicraProxyStrategy.
type IPMicraProxyConfig struct {
	// IPMicraConfig is the search without help, which is used where nothing helps.
	IPMicraConfig
	// Chance ends the search: nobody is left who is nearer than the best so far
	// with at least this probability. In [0, 1]; 0 derives it from the threshold.
	Chance float64
	// Neighbours is how many decided subnets are asked at most. In [1, 4096].
	Neighbours int
	// Nearness is how many times more a neighbour counts for each level of the
	// hierarchy that it is nearer. >= 1.
	Nearness float64
	// Spread is how much the times of the same peer differ among neighbours, as a
	// logarithm, when votes are compared with probes. In (0, 3].
	Spread float64
	// Blur is the same when votes predict. In (0, 3].
	Blur float64
	// Predict is the time that a peer would need to probe a server, ms, and its
	// relative error; ok is false if it cannot tell. It must be safe for concurrent
	// use. Nil: by traits, where both have published some, else by coordinates.
	Predict func(p coords.Proxy, c Candidate) (ms, rel float64, ok bool)
}

// DefaultIPMicraProxyConfig returns what was measured to be good;
// coords/DESIGN.md has the figures.
func DefaultIPMicraProxyConfig() IPMicraProxyConfig {
	return IPMicraProxyConfig{
		IPMicraConfig: DefaultIPMicraConfig(),
		Neighbours:    256, Nearness: 5, Spread: 0.3, Blur: 0.25,
	}
}

// Validate names every field that is out of its range.
func (c IPMicraProxyConfig) Validate() error {
	errs := []error{c.IPMicraConfig.Validate()}
	check := func(ok bool, name string, value any, want string) {
		if !ok {
			errs = append(errs, fmt.Errorf("assign: %s is %v, want %s", name, value, want))
		}
	}
	check(c.Chance >= 0 && c.Chance <= 1, "Chance", c.Chance, "in [0, 1]")
	check(c.Neighbours >= 1 && c.Neighbours <= 4096, "Neighbours", c.Neighbours, "1 to 4096")
	check(c.Nearness >= 1 && c.Nearness <= 1000, "Nearness", c.Nearness, "1 to 1000")
	check(c.Spread > 0 && c.Spread <= 3, "Spread", c.Spread, "in (0, 3]")
	check(c.Blur > 0 && c.Blur <= 3, "Blur", c.Blur, "in (0, 3]")
	return errors.Join(errs...)
}

// chance is the bar for a further probe. A threshold of 50 ms stands for one in
// five, so that a higher threshold means fewer probes here as it does in IPMicra,
// and never more than there.
func (c IPMicraProxyConfig) chance() float64 {
	if c.Chance > 0 {
		return c.Chance
	}
	ms := float64(c.Threshold) / float64(time.Millisecond)
	return min(max((ms-10)/200, 0.03), 0.6)
}

// deadAfter is how many candidates must have failed, and nobody succeeded, for
// the server to be given up.
const deadAfter = 4

// IPMicraProxyStrategy is IPMicra with the coordinates' help: the neighbours in
// the registries' hierarchy say not only who owns them but how long everybody
// takes to them, by their probes and by their proxy coordinates. Each is a guess
// at the target's own times; those that agree with its first probes count more.
// So candidates are asked in the order of their chance to be nearest, not of
// their addresses, and the search ends when nobody has much of a chance.
//
// It always has at least one probe of what it chooses, if there is a page.
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
	if cfg.Predict == nil {
		cfg.Predict = foretell
	}
	plain, err := NewIPMicra(cfg.IPMicraConfig, table)
	if err != nil {
		return nil, err
	}
	return &IPMicraProxyStrategy{cfg: cfg, plain: plain}, nil
}

// Name returns "ipmicra-proxy".
func (s *IPMicraProxyStrategy) Name() string { return "ipmicra-proxy" }

// Target is that of IPMicraStrategy.
func (s *IPMicraProxyStrategy) Target(p netip.Prefix) netip.Prefix { return s.plain.Target(p) }

// Next decides on a probe while one has a chance, and then on an owner.
func (s *IPMicraProxyStrategy) Next(e Evidence) (Step, error) {
	run, err := s.cfg.begin(e)
	if err != nil {
		return Step{}, err
	}
	h := newSubnets(s.plain.table, s.cfg.Leaf, e.Known, run.open)
	target := h.smallest(e.Subnet)
	votes := s.votes(run, h, target)
	if len(votes) == 0 {
		step, err := s.plain.Next(e)
		if step.Choice != "" {
			step.Proxy = run.proxyOf(e.samples())
		}
		return step, err
	}
	run.pageTimes(e.samples())
	weights := s.believe(run, votes)
	step := s.step(run, votes, weights)
	step.Predicted = predicted(run, votes, weights)
	if step.Choice != "" {
		step.Proxy = run.proxyOf(e.samples())
	}
	return step, nil
}

// step is the next one, without its predictions.
func (s *IPMicraProxyStrategy) step(run *search, votes []vote, weights []float64) Step {
	least, tried := math.Inf(1), 0
	for _, c := range run.open {
		if t, ok := run.times[c.ID]; ok {
			least = min(least, t)
			tried++
		}
	}
	if math.IsInf(least, 1) {
		next := favourite(run, votes, weights)
		if next == "" { // nobody that the neighbours know got through: the others
			ids := run.shuffled()
			if i := slices.IndexFunc(ids, func(id string) bool { return !run.probed(id) }); i >= 0 {
				next = ids[i]
			}
		}
		switch {
		case tried >= deadAfter:
			return run.best("")
		case next == "" || !run.allowed:
			return run.best(next)
		}
		return run.probe(next)
	}
	if id, chance := hopeful(run, votes, weights, least); run.allowed && id != "" && chance >= s.cfg.chance() {
		return run.probe(id)
	}
	return run.best("")
}
