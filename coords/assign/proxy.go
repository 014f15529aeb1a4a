package assign

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"peerd/coords"
)

var _ Strategy = (*ProxyStrategy)(nil)

// ProxyConfig holds the parameters of a ProxyStrategy.
type ProxyConfig struct {
	// Budget is the maximum number of probes, including failed ones. >= 4.
	Budget int
	// GainMin is the least expected saving for which another candidate is measured, as a share
	// of the best time so far: a measurement must pay within 1/GainMin pages. In [0, 1).
	GainMin float64
	// FailureCost is the time that a failed download wastes. >= 0.
	FailureCost time.Duration
	// Tie is the difference of times up to which candidates are treated as equally near and
	// share the subnets by hashing. >= 0.
	Tie time.Duration
}

// DefaultProxyConfig returns the parameters of the network. docs/protocol/coordinates.md
// gives the reasons.
func DefaultProxyConfig() ProxyConfig {
	return ProxyConfig{
		Budget:      8,
		GainMin:     0.01,
		FailureCost: time.Second,
		Tie:         2 * time.Millisecond, // scheduling noise of a busy machine
	}
}

// Validate returns an error that names every field that is out of range.
func (c ProxyConfig) Validate() error {
	var errs []error
	check := func(ok bool, name string, value any, want string) {
		if !ok {
			errs = append(errs, fmt.Errorf("assign: %s is %v, want %s", name, value, want))
		}
	}
	check(c.Budget > coords.PlacedBy, "Budget", c.Budget, fmt.Sprint("> ", coords.PlacedBy))
	check(c.GainMin >= 0 && c.GainMin < 1, "GainMin", c.GainMin, "in [0, 1)")
	check(c.FailureCost >= 0, "FailureCost", c.FailureCost, ">= 0")
	check(c.Tie >= 0, "Tie", c.Tie, ">= 0")
	return errors.Join(errs...)
}

// ProxyStrategy lets some candidates download one page each, places the server among
// them, and chooses the candidate with the least expected time of a typical page,
// waiting time included.
//
// It selects measurements actively: first the deciding peer itself, which has already
// requested robots.txt, then those that tell most of the server's place until it can be placed,
// then those with the greatest expected improvement (Jones et al. 1998), while that is worth a
// measurement. Among few candidates, of which most are measured anyway, the first ones are far from
// each other instead: that leaves fewer wrong places.
type ProxyStrategy struct {
	cfg ProxyConfig
}

// NewProxy returns a ProxyStrategy. The error is that of cfg.Validate.
func NewProxy(cfg ProxyConfig) (*ProxyStrategy, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	return &ProxyStrategy{cfg: cfg}, nil
}

// Name returns "proxy".
func (s *ProxyStrategy) Name() string { return "proxy" }

// Next probes while that is worthwhile, and then chooses an owner.
func (s *ProxyStrategy) Next(e Evidence) (Step, error) {
	e.Candidates = s.refute(e.Candidates, e.Self)
	open, err := e.openCandidates()
	if err != nil {
		return Step{}, err
	}
	v := s.assess(e, open)
	step := Step{Proxy: v.proxy}
	step.Predicted = v.predicted()
	if e.CanProbe {
		step.Probe = s.probe(v)
	}
	if step.Probe == "" {
		step.Choice, step.Range = s.choose(e, v), v.ranges()
	}
	return step, nil
}

// leastFar is a distance that is plausible even if all other peers are near each other: twice the
// round trip through fibre over half the circumference of the Earth, and the last miles. ms.
const leastFar = 500

// refute returns the candidates with the standing of their places as far as the strategy knows it:
// that of the deciding peer is measured, and one far beyond all others, by the factor with which an
// Estimator cuts outliers, is refuted. Up to Budget candidates are all measured anyway, so that
// places are not compared.
func (s *ProxyStrategy) refute(all []Candidate, self string) []Candidate {
	i := slices.IndexFunc(all, func(c Candidate) bool { return c.ID == self })
	if i < 0 {
		return all
	}
	all = slices.Clone(all)
	all[i].Place = coords.Measured
	if len(all) <= s.cfg.Budget {
		return all
	}
	middle := func(v []float64) float64 {
		v = slices.Sorted(slices.Values(v))
		return v[len(v)/2]
	}
	far := make([]float64, len(all))
	for k, c := range all {
		far[k] = c.At.Distance(all[i].At)
	}
	median := middle(far)
	off := make([]float64, len(all))
	for k, x := range far {
		off[k] = math.Abs(x - median)
	}
	most := median + coords.DefaultConfig().OutlierFactor*max(middle(off), median/10)
	most = max(most, leastFar)
	for k := range all {
		if far[k] > most {
			all[k].Place = coords.Refuted
		}
	}
	return all
}

// probe returns the candidate to measure next, or "" when it is time to choose.
func (s *ProxyStrategy) probe(v assessment) string {
	measured := 0
	for _, o := range v.options {
		if o.ok > 0 {
			measured++
		}
		if o.ID == v.self && !o.tried() {
			return o.ID
		}
	}
	switch {
	case v.ok == 0 && v.spent >= deadAfter:
		return "" // a dead server: further probes are useless
	case len(v.options) == 1, v.spent >= s.cfg.Budget:
		return ""
	}
	first, by := coords.PlacedBy, byInformation
	if len(v.options) <= 2*s.cfg.Budget {
		first, by = coords.PlacedBy+1, byDistance
	}
	if measured < first {
		if id := by(v); id != "" {
			return id
		}
	}
	return s.byImprovement(v)
}

// byInformation returns the untried candidate of which a measurement tells most of the server's
// place, or "" if all were tried. Those with a measured place come first, because the server is
// placed by these peers, and those with a refuted one last.
func byInformation(v assessment) string {
	for _, place := range []coords.Standing{coords.Measured, coords.Claimed, coords.Refuted} {
		var names []string
		id, most := "", -1.0
		for _, o := range v.options {
			if o.tried() || o.Place != place {
				continue
			}
			names = append(names, o.ID)
			if o.dist != nil && o.dist.Information() > most {
				id, most = o.ID, o.dist.Information()
			}
		}
		switch {
		case id != "":
			return id
		case len(names) > 0: // nothing was measured yet
			return v.e.byScore(names)
		}
	}
	return ""
}

// byDistance returns the untried candidate with the point farthest from those of all tried ones,
// or "" if all were tried, in the same order of standings. Inaccurate coordinates weigh less,
// because their distance is mostly error.
func byDistance(v assessment) string {
	for _, place := range []coords.Standing{coords.Measured, coords.Claimed, coords.Refuted} {
		id, most := "", -1.0
		for _, o := range v.options {
			if o.tried() || o.Place != place {
				continue
			}
			least := math.Inf(1)
			for _, t := range v.options {
				if t.tried() {
					least = min(least, o.At.Distance(t.At)-o.At.Height-t.At.Height)
				}
			}
			if least = min(least, coords.MaxComponent) * (1 - o.At.Error); least > most {
				id, most = o.ID, least
			}
		}
		if id != "" {
			return id
		}
	}
	return ""
}

// byImprovement returns the candidate with the greatest expected improvement over the best
// measured one: the mean of what it saves beyond Tie, by the distribution of its time. If
// that is not worth a measurement it returns a candidate about which nothing is known, or "".
// If no candidate was measured, it returns the one with the least expected time.
func (s *ProxyStrategy) byImprovement(v assessment) string {
	best := v.bestMeasured()
	tie := float64(s.cfg.Tie) / float64(time.Millisecond)
	id, unknown, most, least := "", "", s.cfg.GainMin*best, math.Inf(1)
	for _, o := range v.options {
		cost := o.time + o.wait()
		switch {
		case o.done():
		case math.IsNaN(o.time):
			if unknown == "" {
				unknown = o.ID
			}
		case math.IsInf(best, 1):
			if cost < least {
				id, least = o.ID, cost
			}
		default:
			if gain := o.dist.Saving(best - o.wait() - tie); gain > most {
				id, most = o.ID, gain
			}
		}
	}
	if id == "" {
		return unknown
	}
	return id
}

// choose returns the candidate with the least expected time, waiting time included. A
// candidate that was only predicted must win even at the end of its 80 % interval.
func (s *ProxyStrategy) choose(e Evidence, v assessment) string {
	best := math.Inf(1)
	for _, o := range v.options {
		best = min(best, o.high()+o.wait())
	}
	if math.IsInf(best, 1) {
		return s.chooseBlind(e, v)
	}
	tie := float64(s.cfg.Tie) / float64(time.Millisecond)
	var names []string
	for _, o := range v.options {
		if o.high()+o.wait() <= best+tie {
			names = append(names, o.ID)
		}
	}
	return e.byScore(names)
}

// chooseBlind chooses when nothing is known: the subnet stays where it is if it can.
func (s *ProxyStrategy) chooseBlind(e Evidence, v assessment) string {
	var names []string
	for _, o := range v.options {
		if o.ID == v.self {
			return o.ID
		}
		names = append(names, o.ID)
	}
	return e.byScore(names)
}
