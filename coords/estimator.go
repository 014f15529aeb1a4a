package coords

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"
)

// Errors of Observe.
var (
	// ErrRTT says that a round trip is not in (0, RTTMax].
	ErrRTT = errors.New("coords: implausible round trip")
	// ErrPeer says that the name of a peer is empty.
	ErrPeer = errors.New("coords: no peer")
	// ErrOutlier says that a sample was well-formed and yet not used: it pulled
	// far harder than the recent ones. Nobody needs to be at fault; callers
	// count it and go on.
	ErrOutlier = errors.New("coords: outlier rejected")
)

// Estimator finds the coordinate of one peer by the Vivaldi algorithm ([1]
// figure 3, with the height vectors of 5.4), fed with round trips to others.
// It has no clock and starts nothing. It is not safe for concurrent use: the
// owner serialises the calls.
type Estimator struct {
	cfg        Config
	at         Coordinate
	load       time.Duration
	neighbours map[string]*neighbour
	order      []*neighbour // the neighbours, in an order that runs repeat
	samples    uint64       // accepted or not

	push, random, start, shares, millis, sorted []float64 // room to compute in
}

// NewEstimator returns an Estimator at the origin, with an error of 1. The
// error is that of cfg.Validate.
func NewEstimator(cfg Config) (*Estimator, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	return &Estimator{
		cfg:        cfg,
		at:         Coordinate{Vec: make([]float64, cfg.Dimensions), Height: cfg.HeightMin, Error: 1},
		neighbours: make(map[string]*neighbour),
		push:       make([]float64, cfg.Dimensions),
		random:     make([]float64, cfg.Dimensions),
		start:      make([]float64, cfg.Dimensions),
	}, nil
}

// Observe takes in one exchange with a peer: the coordinate that it told,
// without load, and the raw round trip of the transport; the filters are in
// here. The point then moves as all remembered exchanges together push it.
//
// The errors wrap ErrPeer, ErrRTT, ErrDimension, ErrBounds (input that is
// refused as a whole) or ErrOutlier (input that was remembered but did not move
// anything).
func (e *Estimator) Observe(peer string, remote Coordinate, rtt time.Duration) error {
	if peer == "" {
		return ErrPeer
	}
	if err := remote.Validate(e.cfg.Dimensions); err != nil {
		return fmt.Errorf("coordinate of %s: %w", peer, err)
	}
	if rtt <= 0 || rtt > e.cfg.RTTMax {
		return fmt.Errorf("%w: %v to %s", ErrRTT, rtt, peer)
	}
	e.samples++
	n := e.neighbour(peer)
	n.seen = e.samples
	n.at = remote.Clone()
	n.add(millis(rtt), e.cfg.Window, e.cfg.Percentile)
	e.weigh()
	if n.weight == 0 {
		return fmt.Errorf("%w: %.1f ms off with %s", ErrOutlier, math.Abs(n.rtt-e.at.Distance(n.at)), peer)
	}
	e.learn(n)
	e.move()
	return nil
}

// learn takes the deviation from one neighbour into the own error ([1] 3.4).
func (e *Estimator) learn(n *neighbour) {
	relative := min(1, math.Abs(e.at.Distance(n.at)-n.rtt)/max(n.rtt, millis(e.cfg.RTTFloor)))
	alpha := e.cfg.ErrorGain * e.certainty(n)
	e.at.Error = clamp(relative*alpha+e.at.Error*(1-alpha), 0.001, 1)
}

// certainty is the published weight of a sample: it leans to whoever of the two
// is more certain, by their errors.
func (e *Estimator) certainty(n *neighbour) float64 {
	return e.at.Error / (e.at.Error + clamp(n.at.Error, e.cfg.RemoteErrorFloor, 1))
}

// stepMin is the move, in ms, below which another pass is not worth its time.
const stepMin = 0.1

// move applies the springs of all neighbours, up to Passes times. Of the way
// that they want, Inertia takes its share.
func (e *Estimator) move() {
	copy(e.start, e.at.Vec)
	height := e.at.Height
	for range e.cfg.Passes {
		if e.step() < stepMin {
			break
		}
	}
	used := 0.0
	for _, n := range e.order {
		if n.weight > 0 {
			used++
		}
	}
	share := used / (used + e.cfg.Inertia)
	for i, x := range e.start {
		e.at.Vec[i] = x + (e.at.Vec[i]-x)*share
	}
	e.at.Height = height + (e.at.Height-height)*share
	if e.samples > uint64(e.cfg.WarmUp) {
		e.limit(height)
	}
	e.gravitate()
}

// step moves point and height by the weighted mean of what the springs of the
// neighbours would each move them: Gain · e_i/(e_i+e_j) · (rtt - distance), away
// from the neighbour and upwards ([1] figure 3, summed over a set of neighbours
// as [2] does). It returns how far that was, in ms.
func (e *Estimator) step() float64 {
	clear(e.push)
	up, mass := 0.0, 0.0
	for _, n := range e.order {
		if n.weight == 0 {
			continue
		}
		mass += n.mass
		flat := e.at.spread(n.at)
		// A place told to be far off pulls no harder than the round trip could push.
		force := n.weight * max(n.rtt-flat-e.at.Height-n.at.Height, -n.rtt-shortTrip)
		up += force
		if flat < 1e-6 {
			// Coincident points know no direction: any will do.
			length := e.randomDirection(e.random)
			for i, x := range e.random {
				e.push[i] += force * x / length
			}
			continue
		}
		for i := range e.push {
			e.push[i] += force * (e.at.Vec[i] - n.at.Vec[i]) / flat
		}
	}
	if mass == 0 {
		return 0
	}
	gain, length := e.cfg.Gain/mass, math.Abs(up)
	for i, x := range e.push {
		length = math.Hypot(length, x)
		e.at.Vec[i] = clamp(e.at.Vec[i]+gain*x, -MaxComponent, MaxComponent)
	}
	e.at.Height = clamp(e.at.Height+gain*up, e.cfg.HeightMin, MaxComponent)
	return gain * length
}

// limit cuts the way from where the point was at MoveMax, and the change of
// height likewise.
func (e *Estimator) limit(height float64) {
	moved := e.at.spread(Coordinate{Vec: e.start})
	if moved > e.cfg.MoveMax {
		for i, x := range e.start {
			e.at.Vec[i] = x + (e.at.Vec[i]-x)*e.cfg.MoveMax/moved
		}
	}
	e.at.Height = clamp(e.at.Height, height-e.cfg.MoveMax, height+e.cfg.MoveMax)
}

// randomDirection fills v with a random direction and returns its length.
func (e *Estimator) randomDirection(v []float64) float64 {
	for {
		sum := 0.0
		for i := range v {
			v[i] = e.cfg.Rand.NormFloat64()
			sum += v[i] * v[i]
		}
		if sum > 1e-6 {
			return math.Sqrt(sum)
		}
	}
}

// gravitate pulls the point to the origin by (|x|/rho)^2 milliseconds ([2]).
func (e *Estimator) gravitate() {
	length := e.at.spread(Coordinate{})
	if length == 0 {
		return
	}
	pull := min(length, (length/e.cfg.GravityRho)*(length/e.cfg.GravityRho))
	for i := range e.at.Vec {
		e.at.Vec[i] -= pull * e.at.Vec[i] / length
	}
}

// SetLoad sets the backlog: what a new task would wait here. It is added to the
// announced height and never touches the point. Negative means none.
func (e *Estimator) SetLoad(wait time.Duration) { e.load = max(0, wait) }

// Coordinate returns a copy of the own coordinate without load: the one to
// exchange for Observe and to rank by together with a separate wait.
func (e *Estimator) Coordinate() Coordinate { return e.at.Clone() }

// Announced returns a copy of the own coordinate with the load in its height:
// the one whose plain distances count the load in.
func (e *Estimator) Announced() Coordinate { return e.at.Loaded(e.load) }

// Forget drops what is remembered of a peer; the own coordinate stays.
func (e *Estimator) Forget(peer string) {
	delete(e.neighbours, peer)
	e.order = slices.DeleteFunc(e.order, func(n *neighbour) bool { return n.id == peer })
}
