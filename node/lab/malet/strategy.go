package malet

import (
	"fmt"
	"math"
	"math/rand/v2"
	"net/netip"
	"time"

	"peerd/coords/assign"
	"peerd/node/config"
	"peerd/node/lab/sim"
	"peerd/node/strategy"
)

// misled is the share of servers that stand elsewhere than the data base of
// places says, in strategy geo-misled: their addresses are registered at their
// holder's seat.
const misled = 0.3

// contender is a strategy by the name that the tables give it.
type contender struct {
	name string
	// make returns that of a peer in a simulation. sim is set by the time that
	// it is asked.
	make maker
	// samples is how many downloads it wants remembered; 0 is the peers' own.
	samples int
}

// maker makes the strategies of one simulation.
type maker = func(w *sim.World, seed uint64, s **sim.Sim) func(self string) (assign.Strategy, error)

// same is a maker of one strategy for all.
func same(f func() (assign.Strategy, error)) maker {
	return func(*sim.World, uint64, **sim.Sim) func(string) (assign.Strategy, error) {
		return func(string) (assign.Strategy, error) { return f() }
	}
}

// product is a strategy that peers run, as they make it.
func product(name string) contender {
	return contender{name: name, make: func(w *sim.World, seed uint64, _ **sim.Sim) func(string) (assign.Strategy, error) {
		m := strategy.Material{Seed: seed}
		var err error
		if config.NeedsRegistry(name) {
			m.Table, err = w.Registry(seed)
		}
		return func(self string) (assign.Strategy, error) {
			if err != nil {
				return nil, err
			}
			m.Self = self
			return strategy.New(name, m)
		}
	}}
}

// contenders are all strategies that can be compared, by name: those that peers
// run, the thesis' own, and the oracle, who knows.
func contenders() []contender {
	vivaldi := func(theta float64) contender {
		return contender{fmt.Sprintf("vivaldi-%.2f", theta), same(func() (assign.Strategy, error) {
			return newOnePass(theta, thesisUpdates), nil
		}), thesisUpdates + 8}
	}
	all := []contender{vivaldi(0.15), vivaldi(0.25), {name: "geo", make: geo(0)}, {name: "geo-misled", make: geo(misled)}}
	for _, name := range strategy.Names() {
		if name != "geo" { // which wants a data base of places
			all = append(all, product(name))
		}
	}
	return append(all, contender{name: "oracle", make: func(w *sim.World, _ uint64, s **sim.Sim) func(string) (assign.Strategy, error) {
		return func(string) (assign.Strategy, error) { return oracle{w, s}, nil }
	}})
}

// contenderNamed panics on a name that it does not know: names are constants.
func contenderNamed(name string) contender {
	for _, c := range contenders() {
		if c.name == name {
			return c
		}
	}
	panic("lab: no strategy " + name)
}

// geo makes the strategy of geography, with a data base that is wrong about a
// share of the servers.
func geo(wrong float64) maker {
	return func(w *sim.World, seed uint64, _ **sim.Sim) func(string) (assign.Strategy, error) {
		rng := rand.New(rand.NewPCG(seed, 0x6e0))
		places := make(map[netip.Addr][2]float64, len(w.Peers)+len(w.Servers))
		for _, p := range w.Peers {
			places[p.Addr] = [2]float64{p.Lat, p.Lon}
		}
		for _, s := range w.Servers {
			at := s
			if seat := w.Servers[rng.IntN(len(w.Servers))]; rng.Float64() < wrong {
				at = seat
			}
			places[s.Subnet.Addr()] = [2]float64{at.Lat, at.Lon}
		}
		locate := func(a netip.Addr) (lat, lon float64, ok bool) {
			p, ok := places[a]
			return p[0], p[1], ok && !math.IsNaN(p[0])
		}
		return func(self string) (assign.Strategy, error) {
			return strategy.New("geo", strategy.Material{Self: self, Locate: locate})
		}
	}
}

// oracle chooses the peer that is fastest in truth, if it has the line for
// itself.
type oracle struct {
	w   *sim.World
	sim **sim.Sim
}

func (oracle) Name() string { return "oracle" }

func (o oracle) Next(e assign.Evidence) (assign.Step, error) {
	for i, s := range o.w.Servers {
		if s.Subnet == e.Subnet {
			best, _ := fastest(*o.sim, o.w, i, -1)
			return assign.Step{Choice: o.w.Peers[best].Name}, nil
		}
	}
	return assign.Step{}, assign.ErrEvidence
}

// fastest returns the peer that a page of a server takes least now, but not
// the one that is excepted, and that time.
func fastest(s *sim.Sim, w *sim.World, server, except int) (best int, least time.Duration) {
	best, least = -1, time.Duration(math.MaxInt64)
	for p := range w.Peers {
		if p == except {
			continue
		}
		if t := s.Expected(p, server); t < least {
			best, least = p, t
		}
	}
	return best, least
}
