package malet

import (
	"context"
	"fmt"
	"math"
	"os"
	"slices"
	"time"

	"peerd/node/emulate/wan"
	"peerd/node/lab"
	"peerd/node/lab/sim"
)

// thesis names the source of the experiments in the files malet*.go.
const thesis = "Malet 2009"

// simulated is the remark that all of them make.
const simulated = "Malet measures on PlanetLab; here peers and servers are simulated on virtual time (node/lab/sim), their coordinates, decisions and moves by the code that peers run."

// ground is where a simulated crawl takes place.
type ground struct {
	net    *wan.World
	places []wan.Place // nil: not known
}

// newGround takes the round trips of the matrix, if there is one, or else a globe of
// cities.
func newGround(p lab.Params, seed uint64) (ground, error) {
	if p.Matrix == "" {
		places := wan.Cities()
		return ground{wan.NewWorld(places, seed), places}, nil
	}
	f, err := os.Open(p.Matrix)
	if err != nil {
		return ground{}, fmt.Errorf("%w: %w", lab.ErrParams, err)
	}
	defer f.Close()
	names, rtt, err := wan.LoadMatrix(f)
	if err != nil {
		return ground{}, fmt.Errorf("%w: %s: %w", lab.ErrParams, p.Matrix, err)
	}
	net, err := wan.FromMatrix(names, rtt, seed)
	if err != nil {
		return ground{}, fmt.Errorf("%w: %s: %w", lab.ErrParams, p.Matrix, err)
	}
	return ground{net: net}, nil
}

// world draws a world on g.
func (g ground) world(peers, sites int, n sim.Nature, seed uint64) *sim.World {
	return sim.NewWorld(g.net, g.places, peers, sites, n, seed)
}

// quiet takes the spells of overload out of a nature: for experiments that
// bring their own disturbance.
func quiet(n sim.Nature) sim.Nature {
	n.Spells = sim.Spells{}
	n.PeerLagSigma, n.PeerBpsSigma = 0.5, 0.5
	return n
}

// play is a simulation to be run.
type play struct {
	who   contender
	world *sim.World
	seed  uint64
	tune  func(*sim.Config)
	hooks func(*sim.Sim) // before it runs
}

// stage runs simulations and tells how far they are.
type stage struct {
	ctx    context.Context
	out    lab.Out
	total  int
	done   int
	events uint64
	began  time.Time
}

func newStage(ctx context.Context, out lab.Out, total int) *stage {
	return &stage{ctx: ctx, out: out, total: total, began: time.Now()}
}

// run runs p to its end.
func (g *stage) run(p play) (*sim.Sim, error) {
	cfg := sim.Default()
	cfg.World, cfg.Seed = p.world, p.seed
	if p.who.samples > 0 {
		cfg.Samples = p.who.samples
	}
	if p.tune != nil {
		p.tune(&cfg)
	}
	var s *sim.Sim
	cfg.Strategy = p.who.make(p.world, p.seed, &s)
	s, err := sim.New(cfg)
	if err != nil {
		return nil, err
	}
	if p.hooks != nil {
		p.hooks(s)
	}
	err = s.Run(g.ctx, func(share float64) { g.tell((float64(g.done)+share)/float64(g.total), p, s.Counts().Events) })
	if err != nil {
		return nil, err
	}
	g.done++
	g.events += s.Counts().Events
	g.tell(float64(g.done)/float64(g.total), p, 0)
	return s, nil
}

// tell reports the progress, with the events a second of real time: on the
// screen only, never in the results.
func (g *stage) tell(share float64, p play, events uint64) {
	n := float64(g.events + events)
	g.out.Progress(share, fmt.Sprintf("%s, seed %d, %.3g M events, %.3g M/s", p.who.name, p.seed, n/1e6, n/1e6/max(time.Since(g.began).Seconds(), 1e-3)))
}

// ms is a duration in milliseconds.
func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// round keeps so many digits after the point, so that tables can be read.
func round(x float64, digits int) float64 {
	f := math.Pow10(digits)
	return math.Round(x*f) / f
}

// quantile is the nearest rank of a sorted list; NaN of none.
func quantile(sorted []float64, q float64) float64 {
	if len(sorted) == 0 {
		return math.NaN()
	}
	return sorted[min(len(sorted)-1, max(0, int(math.Ceil(q*float64(len(sorted))))-1))]
}

func mean(xs []float64) float64 {
	sum := 0.0
	for _, x := range xs {
		sum += x
	}
	return sum / float64(len(xs))
}

// deviation is the standard deviation.
func deviation(xs []float64) float64 {
	m, sum := mean(xs), 0.0
	for _, x := range xs {
		sum += (x - m) * (x - m)
	}
	return math.Sqrt(sum / float64(len(xs)))
}

// lower is by how much a is below b, in percent.
func lower(a, b float64) float64 { return 100 * (1 - a/b) }

// sorted returns a sorted copy.
func sorted(xs []float64) []float64 { return slices.Sorted(slices.Values(xs)) }
