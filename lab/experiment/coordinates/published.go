package coordinates

import (
	"math/rand/v2"

	"peerd/coords"
)

// published are the round trips that each peer has published, by the number of the other one.
// Liars collude: half of theirs say that other liars are where they claim to be, and the rest that
// honest peers are not.
type published struct {
	t       contest
	c       *course
	players []player
	liar    []bool
	rng     *rand.Rand

	round int
	trips []map[int]float64 // ms
}

// renew has all peers publish again before a round.
func (p *published) renew(round int) {
	p.round, p.trips = round, make([]map[int]float64, len(p.players))
	for i := range p.players {
		p.trips[i] = map[int]float64{}
		if p.lies(i) {
			for _, j := range p.rng.Perm(len(p.players))[:min(coords.TripsMax, len(p.players))] {
				p.trips[i][j] = 0 // told by observed
			}
			continue
		}
		for _, t := range p.players[i].trips() {
			p.trips[i][number(t.Peer)] = t.RTT.Seconds() * 1000
		}
	}
}

func (p *published) lies(i int) bool { return p.liar[i] && p.round >= p.t.from }

// about returns what reader knows of the round trips to peer j, which claims to be at the place
// at. Liars tell each reader what suits their claims.
func (p *published) about(reader, j int, at coords.Coordinate) []coords.Observation {
	all, known := coords.NewObservations(), map[int]bool{j: true}
	add := func(peer int, observed []coords.Observation) {
		for _, o := range observed {
			all.Add(o.By, o.From, []coords.Trip{{Peer: name(peer), RTT: o.RTT}})
		}
	}
	of := p.observed(reader, j, at)
	add(j, of)
	for _, o := range of {
		if by := number(o.By); !known[by] {
			known[by] = true
			add(by, p.observed(reader, by, o.From))
		}
	}
	return all.Of(name(j))
}

// observed returns what has been published to reader about peer j.
func (p *published) observed(reader, j int, at coords.Coordinate) []coords.Observation {
	var all []coords.Observation
	for i, trips := range p.trips {
		ms, ok := trips[j]
		if !ok || i == j {
			continue
		}
		from := p.players[i].tell()
		if p.lies(i) {
			// A liar with the same place for the whole round is harder to find out.
			rng := rand.New(rand.NewPCG(uint64(i), uint64(reader)))
			from, _ = p.t.told(rng, reader, i, p.round, p.players[reader].tell(), from,
				p.c.truth[reader][i])
			if ms = from.Distance(at); !p.liar[j] {
				ms = falseTrip
			}
		}
		all = append(all, coords.Observation{By: name(i), From: from.Coordinate, RTT: millis(ms)})
	}
	return all
}

// falseTrip is the round trip, in ms, that liars report of honest peers.
const falseTrip = 2000
