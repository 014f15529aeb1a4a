package malet

import (
	"context"
	"fmt"
	"math"
	"os"
	"slices"
	"time"

	"peerd/lab/emulate/wan"
	"peerd/lab/experiment"
	"peerd/lab/experiment/crawlsim"
)

// thesis is the source of all experiments of this package.
const thesis = "Malet 2009"

// simulated is a note of all experiments.
const simulated = "Malet measures on PlanetLab; here peers and servers are simulated on virtual " +
	"time (lab/experiment/crawlsim), their coordinates, decisions and moves by the code that " +
	"peers run."

// ground is the network of a simulated crawl.
type ground struct {
	net    *wan.World
	places []wan.Place // nil: unknown
}

// newGround returns the round trips of the matrix, if there is one, or else a globe of cities.
func newGround(p experiment.Params, seed uint64) (ground, error) {
	if p.Matrix == "" {
		places := wan.Cities()
		return ground{wan.NewWorld(places, seed), places}, nil
	}
	f, err := os.Open(p.Matrix)
	if err != nil {
		return ground{}, fmt.Errorf("%w: %w", experiment.ErrParams, err)
	}
	defer f.Close()
	names, rtt, err := wan.LoadMatrix(f)
	if err != nil {
		return ground{}, fmt.Errorf("%w: %s: %w", experiment.ErrParams, p.Matrix, err)
	}
	net, err := wan.FromMatrix(names, rtt, seed)
	if err != nil {
		return ground{}, fmt.Errorf("%w: %s: %w", experiment.ErrParams, p.Matrix, err)
	}
	return ground{net: net}, nil
}

// world draws a world on g.
func (g ground) world(peers, sites int, n crawlsim.Nature, seed uint64) *crawlsim.World {
	return crawlsim.NewWorld(g.net, g.places, peers, sites, n, seed)
}

// quiet removes the spells of overload from a nature, for experiments with a disturbance of
// their own.
func quiet(n crawlsim.Nature) crawlsim.Nature {
	n.Spells = crawlsim.Spells{}
	n.PeerLagSigma, n.PeerBpsSigma = 0.5, 0.5
	return n
}

// play is the description of a simulation.
type play struct {
	who   contender
	world *crawlsim.World
	seed  uint64
	tune  func(*crawlsim.Config)
	hooks func(*crawlsim.Sim) // called before it runs
}

// stage runs simulations and reports their progress.
type stage struct {
	ctx    context.Context
	out    experiment.Out
	total  int
	done   int
	events uint64
	began  time.Time
}

func newStage(ctx context.Context, out experiment.Out, total int) *stage {
	return &stage{ctx: ctx, out: out, total: total, began: time.Now()}
}

// run runs the simulation p.
func (g *stage) run(p play) (*crawlsim.Sim, error) {
	cfg := crawlsim.Default()
	cfg.World, cfg.Seed = p.world, p.seed
	if p.who.samples > 0 {
		cfg.Samples = p.who.samples
	}
	if p.tune != nil {
		p.tune(&cfg)
	}
	var s *crawlsim.Sim
	cfg.Strategy = p.who.make(p.world, p.seed, &s)
	if p.who.perPage {
		cfg.Fetcher = func(n *crawlsim.Subnet) int {
			return fastestNow(s, len(p.world.Peers), n.Server)
		}
	}
	s, err := crawlsim.New(cfg)
	if err != nil {
		return nil, err
	}
	if p.hooks != nil {
		p.hooks(s)
	}
	err = s.Run(g.ctx, func(share float64) {
		g.tell((float64(g.done)+share)/float64(g.total), p, s.Counts().Events)
	})
	if err != nil {
		return nil, err
	}
	g.done++
	g.events += s.Counts().Events
	g.tell(float64(g.done)/float64(g.total), p, 0)
	return s, nil
}

// tell reports the progress and the events per second of real time. These are only shown, and
// never part of the results.
func (g *stage) tell(share float64, p play, events uint64) {
	n := float64(g.events + events)
	g.out.Progress(share, fmt.Sprintf("%s, seed %d, %.3g M events, %.3g M/s", p.who.name, p.seed,
		n/1e6, n/1e6/max(time.Since(g.began).Seconds(), 1e-3)))
}

// ms returns a duration in milliseconds.
func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// round rounds to a number of decimal places, so that tables are readable.
func round(x float64, digits int) float64 {
	f := math.Pow10(digits)
	return math.Round(x*f) / f
}

// quantile returns the nearest rank of a sorted list; NaN if it is empty.
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

// deviation returns the standard deviation.
func deviation(xs []float64) float64 {
	m, sum := mean(xs), 0.0
	for _, x := range xs {
		sum += (x - m) * (x - m)
	}
	return math.Sqrt(sum / float64(len(xs)))
}

// lower returns by how many percent a is below b.
func lower(a, b float64) float64 { return 100 * (1 - a/b) }

// sorted returns a sorted copy.
func sorted(xs []float64) []float64 { return slices.Sorted(slices.Values(xs)) }
