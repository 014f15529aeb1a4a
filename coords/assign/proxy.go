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
	// Pages is the number of pages in which a measurement must pay: for so many a better peer
	// saves its time, and for one a worse peer costs it. > 0.
	Pages int
	// FailureCost is the time that a failed download wastes. >= 0.
	FailureCost time.Duration
	// Tie is the difference of times up to which candidates are treated as equally near: the one
	// that owns the fewest subnets is chosen, and of several, one by hashing. >= 0.
	Tie time.Duration
}

// DefaultProxyConfig returns the parameters of the network. docs/protocol/coordinates.md
// gives the reasons.
func DefaultProxyConfig() ProxyConfig {
	return ProxyConfig{
		Budget:      8,
		Pages:       100,
		FailureCost: time.Second,          // until a lost packet is sent again (RFC 6298)
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
	check(c.Pages > 0, "Pages", c.Pages, "> 0")
	check(c.FailureCost >= 0, "FailureCost", c.FailureCost, ">= 0")
	check(c.Tie >= 0, "Tie", c.Tie, ">= 0")
	return errors.Join(errs...)
}

// ProxyStrategy lets some candidates download one page each, places the server among
// them, and chooses the candidate with the least expected time of a typical page,
// waiting time included.
//
// It selects measurements actively: first the deciding peer itself, of which its request for
// robots.txt shows the round trip, then those that save most, at least until the server can be
// placed, and then while any saves more than it costs. Decided subnets of the same block tell where
// the server probably is (Evidence.Delegations).
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
// Estimator cuts outliers, is refuted. Among up to Budget candidates no place is typical, so that
// they are not compared.
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
		if o.ID == v.self && o.ok+o.failed == 0 {
			return o.ID
		}
	}
	switch {
	case v.ok == 0 && v.spent > coords.PlacedBy:
		return "" // a dead server: further probes are useless
	case len(v.options) == 1, v.spent >= s.cfg.Budget:
		return ""
	}
	if measured < coords.PlacedBy {
		// The server is placed by these peers, so that those at measured places come first.
		for _, place := range []coords.Standing{coords.Measured, coords.Claimed, coords.Refuted} {
			if id := s.mostSaving(v, true, place); id != "" {
				return id
			}
		}
	}
	return s.mostSaving(v, false, coords.Measured, coords.Claimed, coords.Refuted)
}

// mostSaving returns the candidate, among those with a place of the given standings, of which a
// measurement saves most time: the expected improvement (Jones et al. 1998) of Pages pages, the
// mean of what the candidate is better by than the best measured one, beyond Tie, by the
// distribution of its time. It costs what one page is expected to take longer there. mostSaving
// returns "" if none saves more than it costs.
//
// If placing is true the measurement is to place the server, whatever it saves. A candidate with a
// handshake has placed it already. If no candidate has a page mostSaving then returns the one with
// the least expected time, and if nothing is known of any, one by hashing.
func (s *ProxyStrategy) mostSaving(
	v assessment, placing bool, places ...coords.Standing,
) string {
	best, tie := v.bestMeasured(), ms(s.cfg.Tie)
	id, most := "", 0.0
	if placing {
		most = math.Inf(-1)
	}
	var unknown []string
	for _, o := range v.options {
		if o.done() || placing && o.ok > 0 || !slices.Contains(places, o.Place) {
			continue
		}
		gain := -o.time - o.wait()
		switch {
		case math.IsNaN(o.time):
			unknown = append(unknown, o.ID)
			continue
		case !math.IsInf(best, 1):
			gain = float64(s.cfg.Pages)*o.dist.Saving(best-o.wait()-tie) -
				max(0, o.time+o.retry+o.wait()-best)
		}
		if gain > most {
			id, most = o.ID, gain
		}
	}
	if id == "" && len(unknown) > 0 {
		return v.e.byScore(unknown)
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
	tie := ms(s.cfg.Tie)
	var names []string
	for _, o := range v.options {
		if o.high()+o.wait() <= best+tie {
			names = append(names, o.ID)
		}
	}
	return e.byScore(e.leastOwning(names))
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
