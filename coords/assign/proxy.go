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
	// Spread is the number of candidates, far from each other, that are measured before the
	// model selects the next. >= 1.
	Spread int
	// Budget is the maximum number of candidates that are measured successfully: all if there are
	// no more, unless they are clearly worse. >= Spread.
	Budget int
	// ProbesMax bounds all probes, including failed ones. >= Budget.
	ProbesMax int
	// MarginMin is a lower bound of the relative error of predictions, however well they
	// have fitted so far. In (0, 0.9].
	MarginMin float64
	// GainMin is the least expected improvement for which another candidate is measured when
	// traits are used: the expected share by which it is faster than the best measured one.
	// 0 never stops before the budget is used up. In [0, 1).
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
		Spread:      4,
		Budget:      8,
		ProbesMax:   12,
		MarginMin:   0.4,
		GainMin:     0.03,
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
	check(c.Spread >= 1, "Spread", c.Spread, ">= 1")
	check(c.Budget >= c.Spread, "Budget", c.Budget, ">= Spread")
	check(c.ProbesMax >= c.Budget, "ProbesMax", c.ProbesMax, ">= Budget")
	check(c.MarginMin > 0 && c.MarginMin <= 0.9, "MarginMin", c.MarginMin, "in (0, 0.9]")
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
// requested robots.txt, then peers far from each other, then those with the least
// predicted time, until none of the rest is likely to be better.
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
	step := Step{Proxy: v.proxy, Predicted: v.predicted()}
	if e.CanProbe {
		step.Probe = s.probe(v)
	}
	if step.Probe == "" {
		step.Choice = s.choose(e, v)
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
		if o.measured() {
			measured++
		}
		if o.ID == v.self && !o.tried() {
			return o.ID
		}
	}
	many := len(v.options) > s.cfg.Budget
	switch {
	case v.ok == 0 && v.spent >= s.cfg.Spread:
		return "" // a dead server: further probes are useless
	case len(v.options) == 1, v.spent >= s.cfg.ProbesMax, many && measured >= s.cfg.Budget:
		return ""
	}
	spread := s.cfg.Spread
	if v.traits {
		spread = 0 // there are no distances between the candidates
	}
	if measured < spread {
		if id := byDistance(v); id != "" {
			return id
		}
	}
	if v.traits {
		if len(v.options) > s.cfg.Budget && measured < hashedProbes && s.cfg.GainMin == 0 {
			if id := v.untriedByHash(); id != "" {
				return id
			}
		}
		return s.byConfidenceBound(v)
	}
	return byExpectedTime(v)
}

// hashedProbes is the number of candidates that are measured whatever their predicted
// time, if there are no coordinates and every probe is to be made: peers also learn from
// servers for which they were not chosen.
const hashedProbes = 2

// untriedByHash returns an untried candidate, selected by a hash of the subnet, or "".
func (v assessment) untriedByHash() string {
	var names []string
	for _, o := range v.options {
		if !o.tried() {
			names = append(names, o.ID)
		}
	}
	return v.e.byScore(names)
}

// byDistance returns the untried candidate with the point farthest from those of all tried ones,
// or "" if all were tried. Those with a measured place come first, because the server is placed by
// these peers, and those with a refuted one last. Inaccurate coordinates weigh less, because their
// distance is mostly error.
func byDistance(v assessment) string {
	rank := []coords.Standing{coords.Measured, coords.Claimed, coords.Refuted}
	for _, place := range rank {
		if id := farthest(v, place); id != "" {
			return id
		}
	}
	return ""
}

// farthest is byDistance for candidates with a place of one standing.
func farthest(v assessment, place coords.Standing) string {
	id, most := "", -1.0
	for _, o := range v.options {
		if o.tried() || o.Place != place {
			continue
		}
		least := math.Inf(1)
		for _, t := range v.options {
			if t.tried() {
				flat := o.At.Distance(t.At) - o.At.Height - t.At.Height
				least = min(least, flat)
			}
		}
		if least = min(least, coords.MaxComponent) * (1 - o.At.Error); least > most {
			id, most = o.ID, least
		}
	}
	return id
}

// byExpectedTime returns the candidate with the least expected time of those that are
// not done. It returns "" if all of them are clearly worse than the best measured one:
// slower even if the model errs by its whole margin.
func byExpectedTime(v assessment) string {
	id, least, unknown := "", math.Inf(1), ""
	best := v.bestMeasured()
	for _, o := range v.options {
		switch {
		case o.done():
		case math.IsNaN(o.time):
			if unknown == "" {
				unknown = o.ID
			}
		case o.low+o.wait() < best && o.time+o.wait() < least:
			id, least = o.ID, o.time+o.wait()
		}
	}
	if id == "" {
		return unknown
	}
	return id
}

// choose returns the candidate with the least expected time, waiting time included. A
// candidate that was only predicted must win even if the model errs by its whole margin.
func (s *ProxyStrategy) choose(e Evidence, v assessment) string {
	best := math.Inf(1)
	for _, o := range v.options {
		best = min(best, o.high+o.wait())
	}
	if math.IsInf(best, 1) {
		return s.chooseBlind(e, v)
	}
	tie := float64(s.cfg.Tie) / float64(time.Millisecond)
	var names []string
	for _, o := range v.options {
		if o.high+o.wait() <= best+tie {
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
