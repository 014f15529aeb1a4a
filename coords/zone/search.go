package zone

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"peerd/coords"
)

// Found is a peer that a Search has learned of.
type Found struct {
	Peer
	// Cost is the cost of choosing it: predicted time and wait. Milliseconds, not NaN.
	Cost float64
}

// Answer returns the indices of at most k of the known peers that help a search near a
// target. It alternates between the one of least cost, which may be the result, and the
// one nearest to the target, which knows more.
func Answer(target coords.Coordinate, known []Found, k int) []int {
	all := make([]candidate, len(known))
	costs, places := make([]int, len(known)), make([]int, len(known))
	for i, f := range known {
		all[i] = candidate{Found: f, far: flat(target, f.At)}
		costs[i], places[i] = i, i
	}
	slices.SortFunc(costs, func(a, b int) int { return better(&all[a], &all[b]) })
	slices.SortFunc(places, func(a, b int) int { return closer(&all[a], &all[b]) })
	k = min(max(k, 0), len(known))
	out := make([]int, 0, k)
	sent := make(map[int]bool, k)
	for len(out) < k {
		for _, order := range []*[]int{&costs, &places} {
			for len(*order) > 0 && sent[(*order)[0]] {
				*order = (*order)[1:]
			}
			if len(*order) > 0 && len(out) < k {
				sent[(*order)[0]] = true
				out = append(out, (*order)[0])
			}
		}
	}
	return out
}

// SearchConfig bounds a Search.
type SearchConfig struct {
	// Hops is the maximum number of hops, one after another. >= 1.
	Hops int
	// Width is the number of peers asked at once in a hop. >= 1. One follows the single best
	// way; more avoid bad tables.
	Width int
	// Known is the number of peers remembered, the best ones. >= Width.
	Known int
}

// DefaultSearchConfig returns the parameters of the network. Eight hops are log2 of the
// smallest network in which a search is needed.
func DefaultSearchConfig() SearchConfig {
	return SearchConfig{Hops: 8, Width: 2, Known: 256}
}

// Validate returns an error that names every field that is out of range.
func (c SearchConfig) Validate() error {
	var errs []error
	if c.Hops < 1 {
		errs = append(errs, fmt.Errorf("zone: Hops is %d, want >= 1", c.Hops))
	}
	if c.Width < 1 {
		errs = append(errs, fmt.Errorf("zone: Width is %d, want >= 1", c.Width))
	}
	if c.Known < c.Width {
		errs = append(errs, fmt.Errorf("zone: Known is %d, want >= Width", c.Known))
	}
	return errors.Join(errs...)
}

// A Search looks for the peers of least cost near a target. The caller asks the peers
// that Next returns and adds their answers. It is not safe for concurrent use.
type Search struct {
	target coords.Coordinate
	cfg    SearchConfig
	hops   int
	found  map[string]*candidate
}

type candidate struct {
	Found
	far    float64 // from the target, without heights
	asked  bool
	failed bool // asked without an answer: no result, but not asked again
}

// NewSearch returns a Search that knows no peer yet. The error is that of cfg.Validate.
func NewSearch(target coords.Coordinate, cfg SearchConfig) (*Search, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	return &Search{target: target, cfg: cfg, found: make(map[string]*candidate)}, nil
}

// Add adds a peer. A known one keeps its state and gets the new coordinate and cost.
func (s *Search) Add(f Found) {
	c := s.found[f.ID]
	if c == nil {
		c = &candidate{}
		s.found[f.ID] = c
	}
	c.Found, c.far = f, flat(s.target, f.At)
	if len(s.found) > s.cfg.Known+s.cfg.Known/4 {
		s.trim()
	}
}

// MarkAsked marks a peer that need not be asked, such as the searching one.
func (s *Search) MarkAsked(id string) {
	if c := s.found[id]; c != nil {
		c.asked = true
	}
}

// MarkFailed removes a peer that did not answer from the results.
func (s *Search) MarkFailed(id string) {
	if c := s.found[id]; c != nil {
		c.asked, c.failed = true, true
	}
}

// Next begins a hop: it returns the peers to ask now, all at once, and marks them as
// asked. It returns none when the search is over: the Width peers nearest to the target
// and the Width best ones have all been asked, or Hops is reached.
func (s *Search) Next() []Peer {
	if s.hops >= s.cfg.Hops {
		return nil
	}
	// Near peers know each other. The best ones may be farther off when the near ones are
	// busy.
	var next []*candidate
	for _, order := range []func(a, b *candidate) int{closer, better} {
		all := s.alive()
		slices.SortFunc(all, order)
		for _, c := range all[:min(len(all), s.cfg.Width)] {
			if !c.asked && len(next) < s.cfg.Width {
				c.asked = true
				next = append(next, c)
			}
		}
	}
	if len(next) == 0 {
		return nil
	}
	s.hops++
	out := make([]Peer, len(next))
	for i, c := range next {
		out[i] = c.Peer
	}
	return out
}

// Best returns the k peers of least cost, best first.
func (s *Search) Best(k int) []Found {
	all := s.alive()
	slices.SortFunc(all, better)
	out := make([]Found, 0, min(max(k, 0), len(all)))
	for _, c := range all[:cap(out)] {
		out = append(out, c.Found)
	}
	return out
}

// Hops returns the number of hops so far.
func (s *Search) Hops() int { return s.hops }

func (s *Search) alive() []*candidate {
	all := make([]*candidate, 0, len(s.found))
	for _, c := range s.found {
		if !c.failed {
			all = append(all, c)
		}
	}
	return all
}

// trim drops the worst peers except those that were asked, which could be asked again
// otherwise.
func (s *Search) trim() {
	keep := make(map[string]*candidate, s.cfg.Known)
	for id, c := range s.found {
		if c.asked {
			keep[id] = c
		}
	}
	for _, order := range []func(a, b *candidate) int{closer, better} {
		all := s.alive()
		slices.SortFunc(all, order)
		for _, c := range all[:min(len(all), (s.cfg.Known+1)/2)] {
			keep[c.ID] = c
		}
	}
	s.found = keep
}

func closer(a, b *candidate) int {
	return cmp.Or(cmp.Compare(a.far, b.far), better(a, b))
}

func better(a, b *candidate) int {
	return cmp.Or(cmp.Compare(a.Cost, b.Cost), cmp.Compare(a.ID, b.ID))
}
