package coords

import (
	"math/rand/v2"
	"time"
)

// Config holds the parameters of an Estimator. Bracketed numbers are the
// sources listed in the package comment.
type Config struct {
	// Dimensions is the number of components of the point; the height is added to them. All
	// peers of a network must use the same number. > 0.
	Dimensions int
	// Passes is the maximum number of times that the springs of all remembered neighbours
	// are applied with each new sample. > 0.
	Passes int
	// MaxNeighbours bounds the peers remembered; the least recently observed one is dropped. > 0.
	MaxNeighbours int
	// OutlierFactor cuts the springs of neighbours with a logarithmic residual above the
	// median of all of them by more than this many median absolute deviations ([3]). > 0.
	OutlierFactor float64
	// MoveMax limits the move of one sample after the first MaxNeighbours ones. Milliseconds, > 0.
	MoveMax float64
	// GravityRho is the distance from the origin, in milliseconds, at which the pull towards
	// it is one millisecond per sample; the pull grows with the square of the distance ([2] 7.2,
	// where it costs no accuracy from 256 on). It keeps the space from drifting. > 0.
	GravityRho float64
	// Rand breaks ties between coincident points. Required, so that every caller
	// chooses between a seeded and a real source. The Estimator uses it without a lock.
	Rand *rand.Rand
}

// DefaultConfig returns the parameters of the network without Rand.
// docs/protocol/coordinates.md gives the reasons.
func DefaultConfig() Config {
	return Config{Dimensions: 4, Passes: 8, MaxNeighbours: 128, OutlierFactor: 6,
		MoveMax: shortTrip, GravityRho: 1024}
}

const (
	// errorGain (c_e in [1]) bounds how far one sample moves the error estimate. The gain of the
	// point (c_c) is 1, before the adaptive timestep e_i/(e_i+e_j).
	errorGain = 0.25
	// heightMin is the least height, and the initial one, in milliseconds.
	heightMin = 0.1
	// rttMax is the longest round trip that is accepted.
	rttMax = 20 * time.Second
	// window is the number of latest round trips per neighbour of which the median is used ([2]
	// moving-percentile filter).
	window = 5
	// inertia is the number of neighbours at rest that the current position counts as. It
	// keeps the first few samples from moving the point far, and two peers that know only
	// each other from both moving the whole way.
	inertia = 2
)
