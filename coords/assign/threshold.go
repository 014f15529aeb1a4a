package assign

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"peerd/coords"
)

// ThresholdConfig holds what the strategies of Papapetrou 2003 have in common:
// they probe candidates until one is near enough.
type ThresholdConfig struct {
	// Threshold is the probing threshold: "the maximum acceptable probing time
	// from a crawler to a page" (7.2). 0: nobody is near enough, so all that may
	// be probed are. >= 0.
	Threshold time.Duration
	// ProbesMax bounds how many candidates are probed for a decision. 0: every
	// candidate may be, once. >= 0.
	ProbesMax int
	// Via is how they are probed.
	Via Via
}

// DefaultThresholdConfig returns 50 ms, which the thesis found "to give a good
// ratio of quality for number of probes" (7.2), at most 12 probes, and pages
// that have to be fetched anyway.
func DefaultThresholdConfig() ThresholdConfig {
	return ThresholdConfig{Threshold: 50 * time.Millisecond, ProbesMax: 12, Via: ViaPage}
}

// Validate names every field that is out of its range.
func (c ThresholdConfig) Validate() error {
	var errs []error
	if c.Threshold < 0 {
		errs = append(errs, fmt.Errorf("assign: Threshold is %v, want >= 0", c.Threshold))
	}
	if c.ProbesMax < 0 {
		errs = append(errs, fmt.Errorf("assign: ProbesMax is %d, want >= 0", c.ProbesMax))
	}
	if c.Via != ViaPage && c.Via != ViaConnect {
		errs = append(errs, fmt.Errorf("assign: Via is %d, want ViaPage or ViaConnect", c.Via))
	}
	return errors.Join(errs...)
}

// ProbeTime is what a sample counts for as a probe, in ms: the handshake where
// there was one, else the first byte; +Inf for a failure, for "failures are
// probes too" and take longer than any success.
func ProbeTime(s coords.Sample) float64 {
	switch {
	case s.Failed:
		return math.Inf(1)
	case !s.Reused && s.Connect > 0:
		return float64(s.Connect) / float64(time.Millisecond)
	}
	return float64(s.FirstByte) / float64(time.Millisecond)
}

// search is a decision of a strategy that probes until somebody is near enough.
type search struct {
	cfg  ThresholdConfig
	e    Evidence
	open []Candidate // sorted by name
	// times holds the least probe time of everybody who probed, ms.
	times map[string]float64
	spent int // candidates that probed
	// allowed is false when there may be no further probe.
	allowed bool
}

// begin checks the evidence and works out the probes so far.
func (c ThresholdConfig) begin(e Evidence) (*search, error) {
	open, err := e.open()
	if err != nil {
		return nil, err
	}
	s := &search{cfg: c, e: e, open: open, times: make(map[string]float64)}
	for _, sample := range e.samples() {
		t := ProbeTime(sample)
		if old, ok := s.times[sample.Peer]; !ok || t < old {
			s.times[sample.Peer] = t
		}
	}
	for _, cand := range e.Candidates { // also those excluded since: a probe is a probe
		if _, ok := s.times[cand.ID]; ok {
			s.spent++
		}
	}
	s.allowed = e.CanProbe && (c.ProbesMax == 0 || s.spent < c.ProbesMax)
	return s, nil
}

// isOpen reports whether a peer may be probed and chosen.
func (s *search) isOpen(id string) bool {
	_, ok := slices.BinarySearchFunc(s.open, id, func(c Candidate, id string) int { return cmp.Compare(c.ID, id) })
	return ok
}

// probed reports whether a peer probed.
func (s *search) probed(id string) bool {
	_, ok := s.times[id]
	return ok
}

// near reports whether a peer probed within the threshold.
func (s *search) near(id string) bool {
	t, ok := s.times[id]
	return ok && t <= float64(s.cfg.Threshold)/float64(time.Millisecond) && s.cfg.Threshold > 0
}

// probe is the step that lets a peer probe.
func (s *search) probe(id string) Step { return Step{Probe: id, Via: s.cfg.Via} }

// walk takes the candidates in an order: it stops at the first that is near
// enough, lets those probe that did not, and in the end chooses the best.
// Names that are no open candidates are passed over.
func (s *search) walk(order func(yield func(string) bool)) Step {
	first := ""
	for id := range order {
		if !s.isOpen(id) {
			continue
		}
		if first == "" {
			first = id
		}
		if s.near(id) {
			return Step{Choice: id}
		}
		if !s.probed(id) && s.allowed {
			return s.probe(id)
		}
	}
	return s.best(first)
}

// best chooses the candidate whose probe took the least. If none succeeded it
// is the given one, unless that failed, or "" was given: then the deciding peer
// if it can.
func (s *search) best(otherwise string) Step {
	choice, least := "", math.Inf(1)
	for _, c := range s.open {
		if t, ok := s.times[c.ID]; ok && t < least {
			choice, least = c.ID, t
		}
	}
	switch {
	case choice != "":
		return Step{Choice: choice}
	case otherwise != "" && !s.probed(otherwise):
		return Step{Choice: otherwise}
	case s.isOpen(s.e.Self):
		return Step{Choice: s.e.Self}
	}
	return Step{Choice: s.e.byScore(names(s.open))}
}

// shuffled yields the open candidates in an order that is random by subnet.
func (s *search) shuffled() []string {
	key, ids := s.e.key(), names(s.open)
	scores := make(map[string]uint64, len(ids))
	for _, id := range ids {
		scores[id] = score(key, id, 0)
	}
	slices.SortFunc(ids, func(a, b string) int {
		return cmp.Or(cmp.Compare(scores[b], scores[a]), cmp.Compare(a, b))
	})
	return ids
}

// names lists the candidates' names.
func names(cs []Candidate) []string {
	out := make([]string, len(cs))
	for i, c := range cs {
		out[i] = c.ID
	}
	return out
}
