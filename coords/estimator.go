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
	// ErrRTT is returned for a round trip that is not in (0, 20s].
	ErrRTT = errors.New("coords: implausible round trip")
	// ErrPeer is returned for an empty peer name.
	ErrPeer = errors.New("coords: no peer")
	// ErrOutlier is returned for a sample that was valid but not used because its force was
	// far above that of recent samples. This is normal; callers count it and continue.
	ErrOutlier = errors.New("coords: outlier rejected")
)

// Estimator computes the coordinate of one peer by the Vivaldi algorithm ([1] figure 3,
// with the height vectors of 5.4) from round trips to other peers. It has no clock and
// starts no goroutine. It is not safe for concurrent use.
type Estimator struct {
	cfg        Config
	at         Coordinate
	load       time.Duration
	neighbours map[string]*neighbour
	order      []*neighbour // the neighbours in a reproducible order
	samples    uint64       // accepted or not
	moved      float64      // length of the path of the coordinate, in ms

	usualLog, usualMS usual // of the neighbours' residuals when the last sample arrived

	force, direction, start, logs, absolute, sorted []float64 // scratch space
}

// NewEstimator returns an Estimator at the origin, with an error of 1.
func NewEstimator(cfg Config) *Estimator {
	return &Estimator{
		cfg:        cfg,
		at:         Coordinate{Vec: make([]float64, cfg.Dimensions), Height: heightMin, Error: 1},
		neighbours: make(map[string]*neighbour),
		force:      make([]float64, cfg.Dimensions),
		direction:  make([]float64, cfg.Dimensions),
		start:      make([]float64, cfg.Dimensions),
	}
}

// Observe processes one exchange with a peer: the coordinate that the peer announced,
// without load, and the unfiltered round trip of the transport. The point then moves
// under the combined force of all remembered exchanges.
//
// The errors wrap ErrPeer, ErrRTT, ErrDimension or ErrBounds if the input is rejected,
// and ErrOutlier if it was remembered but did not move the point.
func (e *Estimator) Observe(peer string, remote Coordinate, rtt time.Duration) error {
	if peer == "" {
		return ErrPeer
	}
	if err := remote.Validate(e.cfg.Dimensions); err != nil {
		return fmt.Errorf("coordinate of %s: %w", peer, err)
	}
	if rtt <= 0 || rtt > rttMax {
		return fmt.Errorf("%w: %v to %s", ErrRTT, rtt, peer)
	}
	e.samples++
	n := e.neighbour(peer)
	n.seen = e.samples
	n.at, n.path = remote.Clone(), e.moved
	n.add(millis(rtt))
	e.weigh()
	if n.weight == 0 {
		return fmt.Errorf("%w: %.1f ms off with %s", ErrOutlier,
			math.Abs(n.rtt-e.at.Distance(n.at)), peer)
	}
	e.updateError(n)
	e.move()
	return nil
}

// updateError updates the local error by the deviation from one neighbour ([1] 3.4).
func (e *Estimator) updateError(n *neighbour) {
	relative := min(1, math.Abs(e.at.Distance(n.at)-n.rtt)/max(n.rtt, shortTrip))
	alpha := errorGain * e.sampleWeight(n)
	e.at.Error = clamp(relative*alpha+e.at.Error*(1-alpha), 0.001, 1)
}

// sampleWeight returns the published weight of a sample, which favours the more certain
// of the two peers by their errors.
func (e *Estimator) sampleWeight(n *neighbour) float64 {
	return e.at.Error / (e.at.Error + clamp(n.at.Error, tolerance, 1))
}

// move applies the springs of all neighbours, up to Passes times or until a move is less than the
// least height, and reduces the result by inertia.
func (e *Estimator) move() {
	copy(e.start, e.at.Vec)
	height := e.at.Height
	for range e.cfg.Passes {
		if e.step() < heightMin {
			break
		}
	}
	used := 0.0
	for _, n := range e.order {
		if n.weight > 0 {
			used++
		}
	}
	share := used / (used + inertia)
	for i, x := range e.start {
		e.at.Vec[i] = x + (e.at.Vec[i]-x)*share
	}
	e.at.Height = height + (e.at.Height-height)*share
	if e.samples > uint64(e.cfg.MaxNeighbours) {
		e.limit(height)
	}
	e.gravitate()
	e.moved += math.Hypot(e.at.spread(Coordinate{Vec: e.start}), e.at.Height-height)
}

// step moves point and height by the weighted mean of the moves that the springs of the
// neighbours ask for: e_i/(e_i+e_j) · (rtt - distance), away from the neighbour
// and upwards ([1] figure 3, summed over a set of neighbours as in [2]). It returns the
// length of the move in ms.
func (e *Estimator) step() float64 {
	clear(e.force)
	up, mass := 0.0, 0.0
	for _, n := range e.order {
		if n.weight == 0 {
			continue
		}
		mass += n.baseWeight
		flat := e.at.spread(n.at)
		// A neighbour that claims to be far off pulls no harder than the round trip could push.
		force := n.weight * max(n.rtt-flat-e.at.Height-n.at.Height, -n.rtt-shortTrip)
		up += force
		if flat < 1e-6 {
			// Coincident points have no direction between them: use a random one.
			length := e.randomDirection(e.direction)
			for i, x := range e.direction {
				e.force[i] += force * x / length
			}
			continue
		}
		for i := range e.force {
			e.force[i] += force * (e.at.Vec[i] - n.at.Vec[i]) / flat
		}
	}
	if mass == 0 {
		return 0
	}
	gain, length := 1/mass, math.Abs(up)
	for i, x := range e.force {
		length = math.Hypot(length, x)
		e.at.Vec[i] = clamp(e.at.Vec[i]+gain*x, -MaxComponent, MaxComponent)
	}
	e.at.Height = clamp(e.at.Height+gain*up, heightMin, MaxComponent)
	return gain * length
}

// limit limits the distance from the start of the move, and the change of height, to
// MoveMax.
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

// gravitate pulls the point towards the origin by (|x|/rho)^2 milliseconds ([2]).
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

// SetLoad sets the backlog, the time that a new task would wait here. It is added to the
// announced height and never changes the point. Negative values are treated as zero.
func (e *Estimator) SetLoad(wait time.Duration) { e.load = max(0, wait) }

// Coordinate returns a copy of the coordinate without load. Use it in exchanges for
// Observe, and to rank peers together with a separate wait.
func (e *Estimator) Coordinate() Coordinate { return e.at.Clone() }

// Announced returns a copy of the coordinate with the load added to its height.
// Distances to it include the load.
func (e *Estimator) Announced() Coordinate { return e.at.Loaded(e.load) }

// Moved returns the length of the path that the coordinate, without load, has taken since New, in
// milliseconds. That of a converged coordinate grows slowly: it drifts with the network.
func (e *Estimator) Moved() float64 { return e.moved }

// Forget removes a peer from the neighbours; the coordinate does not change.
func (e *Estimator) Forget(peer string) {
	delete(e.neighbours, peer)
	e.order = slices.DeleteFunc(e.order, func(n *neighbour) bool { return n.id == peer })
}
