package scale

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"

	"peerd/coords"
	"peerd/coords/assign"
)

// scaleFound is the number of peers that a search returns, as in overlay/nearest.
const scaleFound = 8

// candidate returns a peer as described by its beacon, and as another one judges its place.
func (s *scaleRun) candidate(by, i int, observed *coords.Observations) assign.Candidate {
	c := assign.Candidate{
		ID: s.views.names[i], Wait: scaleTime(s.wait[i]), Capacity: 1,
		Addr: netip.AddrFrom4([4]byte{100, 64, byte(i >> 8), byte(i)}),
	}
	c.At, c.Place = s.views.peers[by].Judge(c.ID, s.at[i], observed.Of(c.ID))
	return c
}

// observed returns what the peers that one knows report.
func (s *scaleRun) observed(by int) *coords.Observations {
	all := coords.NewObservations()
	add := func(i int) { all.Add(s.views.names[i], s.at[i], s.views.peers[i].Trips()) }
	add(by)
	for _, id := range idsOf(s.views.tables[by]) {
		add(int(id))
	}
	return all
}

// choose lets a strategy of the peers decide for a peer that knows only its table. As real
// peers do, it searches for peers near the server as soon as the server has a coordinate, and
// again when twice as many samples determine it.
func (s *scaleRun) choose(
	strategy assign.Strategy, owner int, server scaleServer, find func(coords.Proxy) ([]int, error),
) (int, error) {
	e := assign.Evidence{Subnet: netip.MustParsePrefix("192.0.2.0/24"), Self: s.views.names[owner],
		CanProbe: true}
	known, observed := map[int]bool{}, s.observed(owner)
	learn := func(i int) {
		if !known[i] {
			known[i] = true
			e.Candidates = append(e.Candidates, s.candidate(owner, i, observed))
		}
	}
	learn(owner)
	for _, id := range idsOf(s.views.tables[owner]) {
		learn(int(id))
	}
	asked := 0
	for range 2 * s.strategyMost {
		slices.SortFunc(e.Candidates, func(a, b assign.Candidate) int {
			return cmp.Compare(a.ID, b.ID)
		})
		step, err := strategy.Next(e)
		if err != nil {
			return 0, fmt.Errorf("scale: %w", err)
		}
		if step.Choice != "" {
			return int(s.views.index[step.Choice]), nil
		}
		if p := step.Proxy; p != nil && p.Samples >= max(1, 2*asked) {
			asked = p.Samples
			near, err := find(*p)
			if err != nil {
				return 0, err
			}
			for _, i := range near {
				learn(i)
			}
			continue // a peer that was found may be the better one to ask
		}
		i := int(s.views.index[step.Probe])
		e.Samples = append(e.Samples, s.world.sample(i, step.Probe, s.at[i], server, s.rng))
	}
	return 0, fmt.Errorf("scale: no decision after %d samples", len(e.Samples))
}

// target returns the proxy coordinate of a server after four estimations: by the owner, and by
// peers of its table that are far from each other.
func (s *scaleRun) target(owner int, server scaleServer) (coords.Proxy, error) {
	chosen := []int{owner}
	table := idsOf(s.views.tables[owner])
	for len(chosen) < min(4, len(table)+1) {
		far, farthest := -1.0, 0
		for _, id := range table {
			least := s.at[owner].Distance(s.at[id])
			for _, c := range chosen {
				least = min(least, s.at[c].Distance(s.at[id]))
			}
			if least > far && !slices.Contains(chosen, int(id)) {
				far, farthest = least, int(id)
			}
		}
		chosen = append(chosen, farthest)
	}
	var samples []coords.Sample
	for _, i := range chosen {
		samples = append(samples, s.world.sample(i, s.views.names[i], s.at[i], server, s.rng))
	}
	target, err := coords.Locate(samples)
	if err != nil {
		return target, fmt.Errorf("scale: %w", err)
	}
	return target, nil
}

// byCost returns the peers with the least predicted cost.
func (s *scaleRun) byCost(target coords.Proxy, all []int) []int {
	type priced struct {
		who  int
		cost float64
	}
	best := make([]priced, 0, scaleFound+1)
	for _, i := range all {
		c := s.cost(target, i)
		if len(best) == scaleFound && c >= best[scaleFound-1].cost {
			continue
		}
		k, _ := slices.BinarySearchFunc(best, c, func(p priced, c float64) int {
			return cmp.Compare(p.cost, c)
		})
		best = slices.Insert(best, k, priced{i, c})
		best = best[:min(len(best), scaleFound)]
	}
	out := make([]int, len(best))
	for k, p := range best {
		out[k] = p.who
	}
	return out
}
