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
	order      []string // keys of neighbours, in an order that runs repeat
	outliers   outliers
	samples    uint64 // accepted or not
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
	}, nil
}

// Observe takes in one exchange with a peer: the coordinate that it told,
// without load, and the raw round trip of the transport; the filters are in
// here. While the own error is high it also replays remembered exchanges.
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
	filtered := n.add(millis(rtt), e.cfg.Window)
	if residual := math.Abs(filtered - e.at.Distance(remote)); e.outliers.reject(residual, e.cfg.OutlierFactor) {
		return fmt.Errorf("%w: %.1f ms off with %s", ErrOutlier, residual, peer)
	}
	e.update(n)
	e.replay()
	return nil
}

// replay applies remembered exchanges again while the own error is high: a
// newcomer gets out of the few samples that it has what there is in them.
func (e *Estimator) replay() {
	if len(e.order) < 2 {
		return
	}
	for range e.cfg.Replay {
		if e.at.Error <= e.cfg.ReplayAbove {
			return
		}
		e.update(e.neighbours[e.order[e.cfg.Rand.IntN(len(e.order))]])
	}
}

// update is one step of the algorithm: towards or away from a neighbour.
func (e *Estimator) update(n *neighbour) {
	remoteError := clamp(n.at.Error, e.cfg.RemoteErrorFloor, 1)
	distance := e.at.Distance(n.at)
	// The published weight; it leans to whoever is more certain.
	weight := e.at.Error / (e.at.Error + remoteError)
	gain := e.gain() // before the error is touched
	relative := min(1, math.Abs(distance-n.rtt)/max(n.rtt, millis(e.cfg.RTTFloor)))
	alpha := e.cfg.ErrorGain * weight
	e.at.Error = clamp(relative*alpha+e.at.Error*(1-alpha), 0.001, 1)

	e.push(n.at, distance, gain*weight*(n.rtt-distance))
	e.gravitate()
}

// gain falls from Gain to MinGain as the own error falls to nothing.
func (e *Estimator) gain() float64 {
	return e.cfg.MinGain + (e.cfg.Gain-e.cfg.MinGain)*min(1, e.at.Error/0.3)
}

// push moves the own coordinate by force milliseconds away from other
// (towards it when negative), along the height vector between them.
func (e *Estimator) push(other Coordinate, distance, force float64) {
	if e.samples > uint64(e.cfg.WarmUp) {
		force = clamp(force, -e.cfg.MoveMax, e.cfg.MoveMax)
	}
	direction := make([]float64, len(e.at.Vec))
	flat := 0.0
	for i := range direction {
		direction[i] = e.at.Vec[i] - other.Vec[i]
		flat += direction[i] * direction[i]
	}
	flat = math.Sqrt(flat)
	if flat < 1e-6 {
		// Coincident points know no direction: any will do, with all the force.
		e.kick(force)
		return
	}
	norm := max(distance, flat)
	for i := range direction {
		e.at.Vec[i] = clamp(e.at.Vec[i]+force*direction[i]/norm, -MaxComponent, MaxComponent)
	}
	height := e.at.Height + force*(e.at.Height+other.Height)/norm
	e.at.Height = clamp(height, e.cfg.HeightMin, MaxComponent)
}

// kick moves the point by force milliseconds in a random direction.
func (e *Estimator) kick(force float64) {
	direction := make([]float64, len(e.at.Vec))
	length := e.randomDirection(direction)
	for i, x := range direction {
		e.at.Vec[i] = clamp(e.at.Vec[i]+force*x/length, -MaxComponent, MaxComponent)
	}
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
	e.order = slices.DeleteFunc(e.order, func(id string) bool { return id == peer })
}
