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

// ThresholdConfig holds the common parameters of Papapetrou's strategies (2003), which
// probe candidates until one is near enough.
type ThresholdConfig struct {
	// Threshold is the probing threshold: "the maximum acceptable probing time from a
	// crawler to a page" (7.2). With 0 no candidate is near enough, and all that may be
	// probed are. >= 0.
	Threshold time.Duration
	// ProbesMax bounds the candidates probed per decision. 0: every candidate once. >= 0.
	ProbesMax int
	// Via is the way in which they are probed.
	Via Via
}

// DefaultThresholdConfig returns 50 ms, which the thesis found "to give a good ratio of
// quality for number of probes" (7.2), at most 12 probes, and probes with pages that
// have to be fetched anyway.
func DefaultThresholdConfig() ThresholdConfig {
	return ThresholdConfig{Threshold: 50 * time.Millisecond, ProbesMax: 12, Via: ViaPage}
}

// Validate returns an error that names every field that is out of range.
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

// ProbeTime returns the time of a sample as a probe, in ms: the handshake if there was
// one, otherwise the first byte; +Inf for a failure, because "failures are probes too"
// and take longer than any success.
func ProbeTime(s coords.Sample) float64 {
	switch {
	case s.Failed:
		return math.Inf(1)
	case !s.Reused && s.Connect > 0:
		return ms(s.Connect)
	}
	return ms(s.FirstByte)
}

// search is a decision of a strategy that probes until a candidate is near enough.
type search struct {
	cfg  ThresholdConfig
	e    Evidence
	open []Candidate // sorted by name
	// times holds the least probe time of every peer that probed, in ms.
	times map[string]float64
	spent int // candidates that probed
	// allowed is false if no further probe may be made.
	allowed bool
}

// begin checks the evidence and evaluates the probes so far.
func (c ThresholdConfig) begin(e Evidence) (*search, error) {
	open, err := e.openCandidates()
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
	_, ok := slices.BinarySearchFunc(s.open, id, func(c Candidate, id string) int {
		return cmp.Compare(c.ID, id)
	})
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
	return ok && t <= ms(s.cfg.Threshold) && s.cfg.Threshold > 0
}

// probe returns the step that lets a peer probe.
func (s *search) probe(id string) Step { return Step{Probe: id, Via: s.cfg.Via} }

// walk goes through the candidates in the given order. It stops at the first that is
// near enough, lets those probe that have not, and finally chooses the best. Names that
// are no open candidates are skipped.
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

// best chooses the candidate with the least probe time. If no probe succeeded it chooses
// the given one, unless that failed or "" was given; then the deciding peer if possible.
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

// shuffled returns the open candidates in a pseudo-random order that depends on the
// subnet.
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

// names returns the candidates' names.
func names(cs []Candidate) []string {
	out := make([]string, len(cs))
	for i, c := range cs {
		out[i] = c.ID
	}
	return out
}
