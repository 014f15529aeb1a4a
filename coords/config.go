package coords

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"time"
)

// Config holds the parameters of an Estimator. Bracketed numbers are the
// sources listed in the package comment.
type Config struct {
	// Dimensions is the number of components of the point; the height is added to them. All
	// peers of a network must use the same number. In [1, 16].
	Dimensions int
	// Gain (c_c in [1]) is the share of the mean force of all neighbours by which one pass
	// moves the point, before the adaptive timestep e_i/(e_i+e_j). In (0, 1].
	Gain float64
	// Passes is the maximum number of times that the springs of all remembered neighbours
	// are applied with each new sample. In [1, 64].
	Passes int
	// ErrorGain (c_e in [1]) bounds how far one sample moves the error estimate. In (0, 1].
	ErrorGain float64
	// RemoteErrorFloor is the least error that a remote coordinate is assumed to have,
	// whatever it claims, so that no peer gains weight by claiming a small error. In (0, 1].
	RemoteErrorFloor float64
	// HeightMin is the least height, and the initial one. Milliseconds, > 0.
	HeightMin float64
	// RTTMax is the longest round trip that is accepted. > 0, at most MaxComponent.
	RTTMax time.Duration
	// RTTFloor is the least round trip with which relative errors are computed, so that
	// peers on one local network do not have large errors because of microseconds. > 0.
	RTTFloor time.Duration
	// Window is the number of latest round trips per neighbour that are filtered into one
	// ([2] moving-percentile filter). In [1, 64].
	Window int
	// Percentile selects the round trip that is used, .5 for the median. In [0, 1].
	Percentile float64
	// MaxNeighbours bounds the peers remembered; the least recently observed one is dropped.
	// In [1, 65536].
	MaxNeighbours int
	// Inertia is the number of neighbours at rest that the current position counts as. It
	// keeps the first few samples from moving the point far, and two peers that know only
	// each other from both moving the whole way. >= 0.
	Inertia float64
	// OutlierFactor cuts the springs of neighbours with a relative residual above the
	// median of all of them by more than this many median absolute deviations ([3]). > 0.
	OutlierFactor float64
	// WarmUp is the number of samples during which moves are not limited. >= 0.
	WarmUp int
	// MoveMax limits the move of one sample after the warm-up. Milliseconds, > 0.
	MoveMax float64
	// GravityRho is the distance from the origin, in milliseconds, at which the pull towards
	// it is one millisecond per sample; the pull grows with the square of the distance ([2]
	// gravity). It keeps the space from drifting. > 0.
	GravityRho float64
	// Rand breaks ties between coincident points. Nil is rejected, so that every caller
	// chooses between a seeded and a real source. The Estimator uses it without a lock.
	Rand *rand.Rand
}

// DefaultConfig returns the parameters of the network without Rand.
// docs/protocol/coordinates.md gives the reasons.
func DefaultConfig() Config {
	return Config{
		Dimensions:       4,
		Gain:             1,
		Passes:           8,
		ErrorGain:        0.25,
		RemoteErrorFloor: 0.1,
		HeightMin:        0.1,
		RTTMax:           20 * time.Second,
		RTTFloor:         time.Millisecond,
		Window:           5,
		Percentile:       0.5,
		MaxNeighbours:    128,
		Inertia:          2,
		OutlierFactor:    8,
		WarmUp:           64,
		MoveMax:          5,
		GravityRho:       500,
	}
}

// Validate returns an error that names every field that is out of range.
func (c Config) Validate() error {
	var errs []error
	check := func(ok bool, name string, value any, want string) {
		if !ok {
			errs = append(errs, fmt.Errorf("coords: %s is %v, want %s", name, value, want))
		}
	}
	const most = MaxComponent
	check(c.Dimensions >= 1 && c.Dimensions <= 16, "Dimensions", c.Dimensions, "1 to 16")
	check(c.Gain > 0 && c.Gain <= 1, "Gain", c.Gain, "in (0, 1]")
	check(c.Passes >= 1 && c.Passes <= 64, "Passes", c.Passes, "1 to 64")
	check(c.ErrorGain > 0 && c.ErrorGain <= 1, "ErrorGain", c.ErrorGain, "in (0, 1]")
	check(c.RemoteErrorFloor > 0 && c.RemoteErrorFloor <= 1, "RemoteErrorFloor", c.RemoteErrorFloor,
		"in (0, 1]")
	check(c.HeightMin > 0 && c.HeightMin <= most, "HeightMin", c.HeightMin, "in (0, MaxComponent]")
	check(c.RTTMax > 0 && millis(c.RTTMax) <= most, "RTTMax", c.RTTMax, "in (0, 1m]")
	check(c.RTTFloor > 0 && c.RTTFloor <= c.RTTMax, "RTTFloor", c.RTTFloor, "in (0, RTTMax]")
	check(c.Window >= 1 && c.Window <= 64, "Window", c.Window, "1 to 64")
	check(c.Percentile >= 0 && c.Percentile <= 1, "Percentile", c.Percentile, "in [0, 1]")
	check(c.MaxNeighbours >= 1 && c.MaxNeighbours <= 1<<16, "MaxNeighbours", c.MaxNeighbours,
		"1 to 65536")
	check(c.Inertia >= 0, "Inertia", c.Inertia, ">= 0")
	check(c.OutlierFactor > 0, "OutlierFactor", c.OutlierFactor, "> 0")
	check(c.WarmUp >= 0, "WarmUp", c.WarmUp, ">= 0")
	check(c.MoveMax > 0, "MoveMax", c.MoveMax, "> 0")
	check(c.GravityRho > 0, "GravityRho", c.GravityRho, "> 0")
	check(c.Rand != nil, "Rand", "nil", "a source")
	return errors.Join(errs...)
}
