package coordinates

import (
	"math"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/hashicorp/serf/coordinate"

	"peerd/coords"
)

// place is the coordinate that a peer sends to another, in milliseconds.
type place struct {
	coords.Coordinate
	adjust float64 // serf only: an offset, which may be negative
}

// distance returns the predicted round trip. Like serf, it omits the offsets if they make the
// result negative.
func (p place) distance(o place) float64 {
	d := p.Distance(o.Coordinate)
	if with := d + p.adjust + o.adjust; with > 0 {
		return with
	}
	return d
}

// player is one peer of a comparison.
type player interface {
	tell() place
	// observe updates the peer with the coordinate of peer j and a measured round trip.
	observe(j int, told place, ms float64)
	// judge compares the place that peer j claims with what the peer has measured, and with the
	// observed of others. It returns where the peer takes j to be.
	judge(j int, told place, observed []coords.Observation) (place, coords.Standing)
	// place is judge by the observed only.
	place(told place, observed []coords.Observation) place
	// trips returns the round trips that the peer publishes.
	trips() []coords.Trip
}

// believer is the judge of algorithms that have none, and publish nothing.
type believer struct{}

func (believer) trips() []coords.Trip { return nil }

func (believer) place(told place, _ []coords.Observation) place { return told }

func (believer) judge(_ int, told place, _ []coords.Observation) (place, coords.Standing) {
	return told, coords.Claimed
}

// algorithm creates players.
type algorithm struct {
	name     string
	both     bool // both ends of an exchange update, not only the initiator
	attacked int  // run with liars, too: 1 with those of the claim, 2 with all
	partners int  // size of the neighbour set; 0: all peers
	make     func(*rand.Rand) (player, error)
}

// algorithms returns the algorithms that are compared. In peerd, both ends of an exchange
// measure the round trip; "peerd-one-way" is the same estimator if only the initiator does, as
// with serf and the published algorithm.
func algorithms() []algorithm {
	peerd := func(change func(*coords.Config)) func(*rand.Rand) (player, error) {
		return func(rng *rand.Rand) (player, error) {
			cfg := coords.DefaultConfig()
			cfg.Rand = rng
			if change != nil {
				change(&cfg)
			}
			return &peerdPlayer{coords.NewEstimator(cfg)}, nil
		}
	}
	return []algorithm{
		{name: "peerd", both: true, attacked: 2, make: peerd(nil)},
		{name: "peerd-one-way", make: peerd(nil)},
		{name: "peerd-32-partners", both: true, partners: 32, make: peerd(nil)},
		{name: "serf", attacked: 1, make: newSerf},
		{name: "vivaldi-2d+h", attacked: 1, make: newVivaldi(2, true)},
		{name: "vivaldi-5d+h", make: newVivaldi(5, true)},
		{name: "vivaldi-2d", make: newVivaldi(2, false)},
	}
}

// name and number convert between peer indices and peer names.
func name(j int) string { return strconv.Itoa(j) }

func number(s string) int {
	j, _ := strconv.Atoi(s)
	return j
}

// peerdPlayer is the estimator of the peers.
type peerdPlayer struct{ e *coords.Estimator }

func (p *peerdPlayer) tell() place { return place{Coordinate: p.e.Coordinate()} }

func (p *peerdPlayer) observe(j int, told place, ms float64) {
	// The algorithm rejects some samples; that is no failure.
	_ = p.e.Observe(name(j), told.Coordinate, millis(ms))
}

func (p *peerdPlayer) trips() []coords.Trip { return p.e.Trips() }

func (p *peerdPlayer) place(told place, observed []coords.Observation) place {
	at, _ := coords.Place(told.Coordinate, observed)
	return place{Coordinate: at}
}

func millis(ms float64) time.Duration { return time.Duration(ms * float64(time.Millisecond)) }

func (p *peerdPlayer) judge(
	j int, told place, observed []coords.Observation,
) (place, coords.Standing) {
	at, standing := p.e.Judge(name(j), told.Coordinate, observed)
	return place{Coordinate: at}, standing
}

// serfPlayer is hashicorp/serf's client with its own defaults. If two points are within a
// microsecond, serf uses the global source of math/rand, which cannot be seeded. To keep runs
// deterministic, nudge first moves the point by a few microseconds drawn from our source.
type serfPlayer struct {
	believer
	c   *coordinate.Client
	rng *rand.Rand
}

func newSerf(rng *rand.Rand) (player, error) {
	c, err := coordinate.NewClient(coordinate.DefaultConfig())
	return &serfPlayer{c: c, rng: rng}, err
}

func (p *serfPlayer) tell() place {
	c := p.c.GetCoordinate()
	out := place{adjust: c.Adjustment * 1000}
	out.Error, out.Height = c.Error, c.Height*1000
	for _, x := range c.Vec {
		out.Vec = append(out.Vec, x*1000)
	}
	return out
}

func (p *serfPlayer) observe(j int, told place, ms float64) {
	other := &coordinate.Coordinate{Error: told.Error, Height: told.Height / 1000,
		Adjustment: told.adjust / 1000}
	for _, x := range told.Vec {
		other.Vec = append(other.Vec, x/1000)
	}
	p.nudge(other.Vec)
	p.nudge(make([]float64, len(other.Vec))) // its gravity compares with the origin
	_, _ = p.c.Update(name(j), other, millis(ms))
}

// nudge moves the point away from x, in seconds, if they coincide.
func (p *serfPlayer) nudge(x []float64) {
	own := p.c.GetCoordinate()
	sum := 0.0
	for i := range x {
		sum += (own.Vec[i] - x[i]) * (own.Vec[i] - x[i])
	}
	if math.Sqrt(sum) > 2e-6 {
		return
	}
	for i := range own.Vec {
		own.Vec[i] += 1e-5 * (p.rng.Float64() - 0.5)
	}
	_ = p.c.SetCoordinate(own)
}

// vivaldiPlayer is Vivaldi as published (Dabek 2004, figure 3 and 5.4):
// adaptive timestep with c_c = c_e = .25, height if wanted, and nothing else.
type vivaldiPlayer struct {
	believer
	at     coords.Coordinate
	height bool
	rng    *rand.Rand
}

func newVivaldi(dims int, height bool) func(*rand.Rand) (player, error) {
	return func(rng *rand.Rand) (player, error) {
		p := &vivaldiPlayer{height: height, rng: rng}
		p.at = coords.Coordinate{Vec: make([]float64, dims), Error: 1}
		if height {
			p.at.Height = 1 // positive, as in the paper; smaller heights grow slowly
		}
		return p, nil
	}
}

func (p *vivaldiPlayer) tell() place { return place{Coordinate: p.at.Clone()} }

func (p *vivaldiPlayer) observe(_ int, told place, ms float64) {
	const cc, ce = 0.25, 0.25
	if ms <= 0 {
		return
	}
	d := p.at.Distance(told.Coordinate)
	w := p.at.Error / max(p.at.Error+told.Error, 1e-6)
	p.at.Error = min(1, math.Abs(d-ms)/ms*ce*w+p.at.Error*(1-ce*w))
	force := cc * w * (ms - d)
	flat := 0.0
	dir := make([]float64, len(p.at.Vec))
	for i := range dir {
		dir[i] = p.at.Vec[i] - told.Vec[i]
		flat += dir[i] * dir[i]
	}
	if flat = math.Sqrt(flat); flat < 1e-6 {
		flat = 0
		for i := range dir {
			dir[i] = p.rng.NormFloat64()
			flat += dir[i] * dir[i]
		}
		flat = math.Sqrt(flat)
		d = flat // the force acts on the vector only
	}
	norm := flat
	if p.height {
		norm = max(d, flat)
		p.at.Height = max(0.01, p.at.Height+force*(p.at.Height+told.Height)/norm)
	}
	for i := range dir {
		p.at.Vec[i] += force * dir[i] / norm
	}
}
