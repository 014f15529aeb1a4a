package malet

import (
	"fmt"
	"math"
	"math/rand/v2"
	"net/netip"
	"time"

	"peerd/coords/assign"
	"peerd/lab/experiment/crawlsim"
	"peerd/node/config"
	"peerd/node/strategy"
)

// misled is the share of servers that strategy geo-misled locates wrongly: their addresses are
// registered at the seat of their holder.
const misled = 0.3

// contender is a strategy with its name in the tables.
type contender struct {
	name string
	// make returns the strategy of a peer in a simulation. sim is set before the strategy is
	// first called.
	make maker
	// samples is the number of downloads that the strategy wants to be stored; 0 means the
	// peers' default.
	samples int
	// perPage has each page fetched by the peer that is fastest for it at that moment, and not by
	// the owner.
	perPage bool
}

// maker creates the strategies of one simulation.
type maker = func(w *crawlsim.World, seed uint64, s **crawlsim.Sim) func(self string) (
	assign.Strategy, error)

// same returns a maker that uses one strategy for all peers.
func same(f func() (assign.Strategy, error)) maker {
	return func(*crawlsim.World, uint64, **crawlsim.Sim) func(string) (assign.Strategy, error) {
		return func(string) (assign.Strategy, error) { return f() }
	}
}

// product returns a strategy of the peers, created as they do.
func product(name string) contender {
	return contender{name: name, make: func(w *crawlsim.World, seed uint64, _ **crawlsim.Sim) func(
		string) (assign.Strategy, error) {
		m := strategy.Config{Seed: seed}
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

// contenders returns all strategies that can be compared: those of the peers, that of the
// thesis, and two oracles. oracle-owner knows the true times of a page; oracle knows besides which
// peers are overloaded, their queues and transfers, and chooses for each page.
func contenders() []contender {
	vivaldi := func(theta float64) contender {
		return contender{name: fmt.Sprintf("vivaldi-%.2f", theta),
			make: same(func() (assign.Strategy, error) {
				return newOnePass(theta, thesisUpdates), nil
			}), samples: thesisUpdates + 8}
	}
	all := []contender{vivaldi(0.15), vivaldi(0.25), {name: "geo", make: geo(0)},
		{name: "geo-misled", make: geo(misled)}}
	for _, name := range strategy.Names() {
		if name != "geo" { // geo needs a database of places
			all = append(all, product(name))
		}
	}
	owner := func(w *crawlsim.World, _ uint64, s **crawlsim.Sim) func(string) (assign.Strategy,
		error) {
		return func(string) (assign.Strategy, error) { return oracle{w, s}, nil }
	}
	return append(all, contender{name: "oracle-owner", make: owner},
		contender{name: "oracle", make: owner, perPage: true})
}

// contenderNamed returns the contender with a name. It panics if there is none, because names
// are constants.
func contenderNamed(name string) contender {
	for _, c := range contenders() {
		if c.name == name {
			return c
		}
	}
	panic("malet: no strategy " + name)
}

// geo returns the strategy geo, with a database that is wrong about a share of the servers.
func geo(wrong float64) maker {
	return func(w *crawlsim.World, seed uint64, _ **crawlsim.Sim) func(string) (assign.Strategy,
		error) {
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
			return strategy.New("geo", strategy.Config{Self: self, Locate: locate})
		}
	}
}

// oracle chooses the peer that is fastest in truth, without other transfers.
type oracle struct {
	w   *crawlsim.World
	sim **crawlsim.Sim
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

// fastestNow returns the peer with the least time of a page of a server at this moment.
func fastestNow(s *crawlsim.Sim, peers, server int) (best int) {
	least := time.Duration(math.MaxInt64)
	for p := range peers {
		if t := s.Current(p, server); t < least {
			best, least = p, t
		}
	}
	return best
}

// fastest returns the peer, other than the excepted one, with the least true time of a page of
// a server, and that time.
func fastest(
	s *crawlsim.Sim, w *crawlsim.World, server, except int,
) (best int, least time.Duration) {
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
