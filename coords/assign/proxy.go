package assign

import (
	"errors"
	"fmt"
	"math"
	"time"

	"peerd/coords"
)

var _ Strategy = (*ProxyStrategy)(nil)

// ProxyConfig holds the parameters of a ProxyStrategy.
type ProxyConfig struct {
	// MeasureAll is the number of candidates up to which each is measured,
	// unless it is clearly worse. >= 1.
	MeasureAll int
	// Spread is how many candidates, far from each other, are measured before
	// the model is asked. >= 1.
	Spread int
	// Budget is how many candidates are measured successfully at most, when
	// there are more than MeasureAll. >= Spread.
	Budget int
	// ProbesMax bounds all probes, failed ones too. >= Budget, >= MeasureAll.
	ProbesMax int
	// MarginMin is the least relative error that predictions are trusted with,
	// however well they fitted so far. In (0, 0.9].
	MarginMin float64
	// GainMin is the least gain for which another candidate is measured while
	// traits are in play: the expected share by which it will be quicker than the
	// best one measured. 0 never stops before the budget is spent. In [0, 1).
	GainMin float64
	// FailureCost is the time that a failed download wastes. >= 0.
	FailureCost time.Duration
	// Tie is the difference that counts as none: the subnets of equally near
	// candidates are shared out by hashing. >= 0.
	Tie time.Duration
	// Fit places the servers.
	Fit coords.FitConfig
}

// DefaultProxyConfig returns the parameters of the network. coords/DESIGN.md
// has the reasons and the measurements.
func DefaultProxyConfig() ProxyConfig {
	return ProxyConfig{
		MeasureAll:  8,
		Spread:      4,
		Budget:      8,
		ProbesMax:   12,
		MarginMin:   0.4,
		GainMin:     0.03,
		FailureCost: time.Second,
		Tie:         2 * time.Millisecond, // what scheduling on a busy machine costs
		Fit:         coords.DefaultFitConfig(),
	}
}

// Validate names every field that is out of its range.
func (c ProxyConfig) Validate() error {
	var errs []error
	check := func(ok bool, name string, value any, want string) {
		if !ok {
			errs = append(errs, fmt.Errorf("assign: %s is %v, want %s", name, value, want))
		}
	}
	check(c.MeasureAll >= 1, "MeasureAll", c.MeasureAll, ">= 1")
	check(c.Spread >= 1, "Spread", c.Spread, ">= 1")
	check(c.Budget >= c.Spread, "Budget", c.Budget, ">= Spread")
	check(c.ProbesMax >= c.Budget && c.ProbesMax >= c.MeasureAll, "ProbesMax", c.ProbesMax, ">= Budget and MeasureAll")
	check(c.MarginMin > 0 && c.MarginMin <= 0.9, "MarginMin", c.MarginMin, "in (0, 0.9]")
	check(c.GainMin >= 0 && c.GainMin < 1, "GainMin", c.GainMin, "in [0, 1)")
	check(c.FailureCost >= 0, "FailureCost", c.FailureCost, ">= 0")
	check(c.Tie >= 0, "Tie", c.Tie, ">= 0")
	return errors.Join(append(errs, c.Fit.Validate())...)
}

// ProxyStrategy lets some candidates download one page each, places the server
// among them, and chooses the candidate with the least expected time of a
// typical page, its waiting time counted in.
//
// It measures actively: first the deciding peer itself, which has asked for
// robots.txt already, then peers far from each other, then those that the model
// finds most promising, until none of the rest is promising enough.
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

// Next decides on a probe while one pays, and then on an owner.
func (s *ProxyStrategy) Next(e Evidence) (Step, error) {
	open, err := e.open()
	if err != nil {
		return Step{}, err
	}
	v := s.look(e, open)
	step := Step{Proxy: v.proxy, Predicted: v.predicted()}
	if e.CanProbe {
		step.Probe = s.probe(v)
	}
	if step.Probe == "" {
		step.Choice = s.choose(e, v)
	}
	return step, nil
}

// probe returns the candidate to measure next, or "" when it is time to choose.
func (s *ProxyStrategy) probe(v view) string {
	measured := 0
	for _, o := range v.options {
		if o.measured() {
			measured++
		}
		if o.ID == v.self && !o.tried() {
			return o.ID
		}
	}
	many := len(v.options) > s.cfg.MeasureAll
	switch {
	case v.ok == 0 && v.spent >= s.cfg.Spread:
		return "" // a dead server: further probes tell nothing
	case len(v.options) == 1, v.spent >= s.cfg.ProbesMax, many && measured >= s.cfg.Budget:
		return ""
	}
	spread := s.cfg.Spread
	if v.traits { // they tell more than distance from each other
		spread = 0
		if v.places {
			spread = min(s.cfg.Spread, s.cfg.Fit.MinPeers)
		}
	}
	if measured < spread {
		if id := farthest(v); id != "" {
			return id
		}
	}
	if v.traits {
		if len(v.options) > s.cfg.MeasureAll && measured < blindProbes && !v.places && s.cfg.GainMin == 0 {
			if id := v.anybody(); id != "" {
				return id
			}
		}
		return s.gainful(v)
	}
	return promising(v)
}

// blindProbes is how many candidates without places are measured, whatever is
// expected of them, where every probe is to be made: peers learn from servers
// that they were not chosen for, too.
const blindProbes = 2

// anybody returns an untried candidate, each for its share of the subnets, or "".
func (v view) anybody() string {
	var names []string
	for _, o := range v.options {
		if !o.tried() {
			names = append(names, o.ID)
		}
	}
	return v.e.byScore(names)
}

// farthest returns the untried candidate whose point is farthest from the
// points of all tried ones, or "" if all were tried. Vague coordinates count
// less: their distance is mostly error.
func farthest(v view) string {
	id, most := "", -1.0
	for _, o := range v.options {
		if o.tried() {
			continue
		}
		least := math.Inf(1)
		for _, t := range v.options {
			if t.tried() {
				flat := o.At.Distance(t.At) - o.At.Height - t.At.Height
				least = min(least, flat)
			}
		}
		if least = min(least, coords.MaxComponent) * (1 - min(o.At.Error, 0.9)); least > most {
			id, most = o.ID, least
		}
	}
	return id
}

// promising returns the unsettled candidate with the least expected time, or ""
// if all of them are clearly worse than the best measured one: slower even when
// the model errs by its whole margin.
func promising(v view) string {
	id, least, unknown := "", math.Inf(1), ""
	best := v.bestMeasured()
	for _, o := range v.options {
		switch {
		case o.settled():
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

// choose returns the candidate with the least expected time and waiting time.
// One that was only predicted must win with its whole margin against it.
func (s *ProxyStrategy) choose(e Evidence, v view) string {
	best := math.Inf(1)
	for _, o := range v.options {
		best = min(best, o.high+o.wait())
	}
	if math.IsInf(best, 1) {
		return s.blind(e, v)
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

// blind chooses when nothing is known: everything stays as it is, if it can.
func (s *ProxyStrategy) blind(e Evidence, v view) string {
	var names []string
	for _, o := range v.options {
		if o.ID == v.self {
			return o.ID
		}
		names = append(names, o.ID)
	}
	return e.byScore(names)
}
