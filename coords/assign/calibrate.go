package assign

import (
	"errors"
	"fmt"
	"iter"
	"math"
	"net/netip"
	"slices"
	"time"

	"peerd/coords"
)

// CalibrationConfig defines when a subnet has become slow for its owner.
type CalibrationConfig struct {
	// Factor is the ratio to the earlier time that is "sufficiently larger". > 1.
	Factor float64
	// Least is the time up to which no download is slow. >= 0.
	Least time.Duration
	// Times is the number of consecutive downloads that must be this slow: "if this repeats
	// for more than one time continuously". >= 2.
	Times int
}

// DefaultCalibrationConfig returns twice the time, at least the threshold at which a crawler is
// near enough, and two times in a row.
func DefaultCalibrationConfig() CalibrationConfig {
	return CalibrationConfig{Factor: 2, Least: DefaultThresholdConfig().Threshold, Times: 2}
}

// Validate returns an error that names every field that is out of range.
func (c CalibrationConfig) Validate() error {
	var errs []error
	if !(c.Factor > 1) {
		errs = append(errs, fmt.Errorf("assign: Factor is %v, want > 1", c.Factor))
	}
	if c.Least < 0 {
		errs = append(errs, fmt.Errorf("assign: Least is %v, want >= 0", c.Least))
	}
	if c.Times < 2 {
		errs = append(errs, fmt.Errorf("assign: Times is %d, want >= 2", c.Times))
	}
	return errors.Join(errs...)
}

// Slow reports whether the owner's latest downloads all took sufficiently longer than
// the median of those before (Papapetrou 2003, 7.6.2), and the index in samples at which
// they begin. Failures are slow downloads. Samples of other peers are ignored.
func (c CalibrationConfig) Slow(samples []coords.Sample, owner string) (since int, slow bool) {
	var at []int
	for i, s := range samples {
		if s.Peer == owner {
			at = append(at, i)
		}
	}
	if len(at) <= c.Times {
		return 0, false
	}
	var before []float64
	for _, i := range at[:len(at)-c.Times] {
		if t := ProbeTime(samples[i]); !math.IsInf(t, 1) {
			before = append(before, t)
		}
	}
	if len(before) == 0 {
		return 0, false
	}
	slices.Sort(before)
	usual := before[len(before)/2]
	bound := max(usual*c.Factor, ms(c.Least))
	for _, i := range at[len(at)-c.Times:] {
		if ProbeTime(samples[i]) <= bound {
			return 0, false
		}
	}
	return at[len(at)-c.Times], true
}

var (
	_ Reviewer = (*IPMicraStrategy)(nil)
	_ Reviewer = (*IPMicraProxyStrategy)(nil)
)

// Review is IPMicra's dynamic calibration. While the owner is as fast as before nothing
// happens and no peer is asked. Once it is slow (CalibrationConfig.Slow) "the subnet is
// re-delegated": the search of Next runs again on the samples since then.
func (s *IPMicraStrategy) Review(e Evidence) (Review, error) {
	return s.cfg.Calibration.review(s, e)
}

// Review is like IPMicraStrategy.Review with the search of IPMicraProxyStrategy.
func (s *IPMicraProxyStrategy) Review(e Evidence) (Review, error) {
	return s.cfg.Calibration.review(s, e)
}

// review lets a strategy decide again on a subnet that became slow.
func (c CalibrationConfig) review(s Strategy, e Evidence) (Review, error) {
	if _, err := e.openCandidates(); err != nil {
		return Review{}, err
	}
	since, slow := c.Slow(e.Samples, e.Self)
	if !slow {
		return Review{}, nil
	}
	all := e
	e.Samples = e.Samples[since:]
	if e.Delegations != nil {
		e.Delegations = excluding{e.Delegations, e.Subnet.Masked()}
	}
	step, err := s.Next(e)
	switch {
	case err != nil:
		return Review{}, err
	case step.Probe != "":
		return Review{Scout: step.Probe, Hope: 1}, nil
	case step.Choice == e.Self:
		return Review{}, nil
	}
	owner, other := e.cost(e.Self), e.cost(step.Choice)
	if !(other < owner) {
		return Review{}, nil
	}
	gain := 1.0 // if the owner fails
	if !math.IsInf(owner, 1) {
		gain = 1 - other/owner
	}
	r := Review{Scout: step.Choice, Hope: 1, Better: step.Choice, Gain: gain, Doubt: 1}
	if cmp, ok := DefaultProxyConfig().compare(all); ok {
		i := slices.IndexFunc(e.Candidates, func(x Candidate) bool { return x.ID == r.Better })
		if d, ok := cmp.lead(e.Candidates[i]); ok {
			r.Doubt = d.doubt(cmp.bar)
		}
	}
	return r, nil
}

// cost returns the least probe time of a candidate plus its waiting time, in ms; +Inf
// without a successful probe.
func (e Evidence) cost(id string) float64 {
	least := math.Inf(1)
	for _, s := range e.Samples {
		if s.Peer == id {
			least = min(least, ProbeTime(s))
		}
	}
	for _, c := range e.Candidates {
		if c.ID == id {
			least += ms(c.Wait)
		}
	}
	return least
}

// excluding hides one subnet from Delegations: the delegation under review must not
// argue for itself.
type excluding struct {
	Delegations
	subnet netip.Prefix
}

// Within implements Delegations.
func (x excluding) Within(p netip.Prefix) iter.Seq[Delegation] {
	return func(yield func(Delegation) bool) {
		for d := range x.Delegations.Within(p) {
			if d.Subnet != x.subnet && !yield(d) {
				return
			}
		}
	}
}
