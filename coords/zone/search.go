package zone

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"peerd/coords"
)

// Found is a peer that a Search has heard of.
type Found struct {
	Peer
	// Cost is what choosing it would cost: the predicted time and its wait.
	// Milliseconds, not NaN.
	Cost float64
}

// Answer returns the indices of at most k peers of known that help somebody who
// searches near a target: in turn the one of the least cost and the one nearest
// to it, as the former may be what is sought and the latter knows more.
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
	told := make(map[int]bool, k)
	for len(out) < k {
		for _, order := range []*[]int{&costs, &places} {
			for len(*order) > 0 && told[(*order)[0]] {
				*order = (*order)[1:]
			}
			if len(*order) > 0 && len(out) < k {
				told[(*order)[0]] = true
				out = append(out, (*order)[0])
			}
		}
	}
	return out
}

// SearchConfig bounds a Search.
type SearchConfig struct {
	// Hops is how many times somebody is asked, one after the other. >= 1.
	Hops int
	// Width is how many peers are asked at once in a hop. >= 1. One follows the
	// single best way; more find their way around bad tables.
	Width int
	// Known is how many peers are remembered: the best ones. >= Width.
	Known int
}

// DefaultSearchConfig returns the parameters of the network. Eight hops are
// log2 of the least network in which anybody has to search.
func DefaultSearchConfig() SearchConfig {
	return SearchConfig{Hops: 8, Width: 2, Known: 256}
}

// Validate names every field that is out of its range.
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

// A Search looks for the peers of the least cost near a target. Whoever drives
// it asks those that Next names and adds what they answer. It is not safe for
// concurrent use.
type Search struct {
	target coords.Coordinate
	cfg    SearchConfig
	hops   int
	found  map[string]*candidate
}

type candidate struct {
	Found
	far   float64 // from the target, heights left out
	asked bool
	gone  bool // asked in vain: no result, but remembered as asked
}

// NewSearch returns a Search that knows nobody yet. The error is that of
// cfg.Validate.
func NewSearch(target coords.Coordinate, cfg SearchConfig) (*Search, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	return &Search{target: target, cfg: cfg, found: make(map[string]*candidate)}, nil
}

// Add takes in a peer. One that is known already keeps its state and gets the
// new place and cost.
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

// Asked marks a peer as one that need not be asked: the searcher itself.
func (s *Search) Asked(id string) {
	if c := s.found[id]; c != nil {
		c.asked = true
	}
}

// Gone removes a peer that did not answer from what the search finds.
func (s *Search) Gone(id string) {
	if c := s.found[id]; c != nil {
		c.asked, c.gone = true, true
	}
}

// Next begins a hop: it returns whom to ask now, all at once, and counts them
// as asked. None are returned when the search is over: the Width peers nearest
// to the target, and the Width best ones, have all been asked, or there were
// Hops hops.
func (s *Search) Next() []Peer {
	if s.hops >= s.cfg.Hops {
		return nil
	}
	// Who is near knows the near ones. Who is best may be some way off, when
	// the near ones are busy.
	var next []*candidate
	for _, order := range []func(a, b *candidate) int{closer, better} {
		all := s.living()
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

// Best returns the k peers of the least cost, best first.
func (s *Search) Best(k int) []Found {
	all := s.living()
	slices.SortFunc(all, better)
	out := make([]Found, 0, min(max(k, 0), len(all)))
	for _, c := range all[:cap(out)] {
		out = append(out, c.Found)
	}
	return out
}

// Hops is how many there were.
func (s *Search) Hops() int { return s.hops }

func (s *Search) living() []*candidate {
	all := make([]*candidate, 0, len(s.found))
	for _, c := range s.found {
		if !c.gone {
			all = append(all, c)
		}
	}
	return all
}

// trim forgets the worst peers, but nobody that was asked: he might be asked
// again.
func (s *Search) trim() {
	keep := make(map[string]*candidate, s.cfg.Known)
	for id, c := range s.found {
		if c.asked {
			keep[id] = c
		}
	}
	for _, order := range []func(a, b *candidate) int{closer, better} {
		all := s.living()
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
