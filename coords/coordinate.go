package coords

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"
)

// Errors of coordinates that were received from elsewhere.
var (
	// ErrDimension is returned for a coordinate with the wrong number of components.
	ErrDimension = errors.New("coords: wrong dimension")
	// ErrBounds is returned for a number that is NaN, infinite or out of its bounds.
	ErrBounds = errors.New("coords: number out of bounds")
)

// MaxComponent bounds every component and the height of a coordinate, in milliseconds.
// One minute is longer than any round trip that is worth predicting.
const MaxComponent = 60_000.0

// Coordinate is a position in the space of round-trip times: a point, and a height above
// it that models the access link, which all paths of the node share ([1] 5.4). The zero
// value is not valid: it has no dimension.
type Coordinate struct {
	// Vec is the point. Milliseconds.
	Vec []float64 `cbor:"1,keyasint" json:"vec"`
	// Height is the cost of the access link, part of every path to and from this node.
	// Milliseconds, >= 0.
	Height float64 `cbor:"2,keyasint" json:"height"`
	// Error is the node's own estimate of its relative error, in [0, 1].
	Error float64 `cbor:"3,keyasint" json:"error"`
}

// Distance returns the predicted round trip between c and o in milliseconds, heights
// included. It never panics: components that only one of the two has are treated as zero
// in the other. Call Validate first on coordinates that were received from another peer.
func (c Coordinate) Distance(o Coordinate) float64 {
	return c.spread(o) + (c.Height + o.Height) // this order makes the result exactly symmetric
}

// spread returns the distance of the two points without the heights.
func (c Coordinate) spread(o Coordinate) float64 {
	long, short := c.Vec, o.Vec
	if len(long) < len(short) {
		long, short = short, long
	}
	sum := 0.0
	for i, x := range long {
		if i < len(short) {
			x -= short[i]
		}
		sum += x * x
	}
	return math.Sqrt(sum)
}

// Validate reports whether c may be used in arithmetic: dims components, all finite and
// within MaxComponent, a height in [0, MaxComponent] and an error in [0, 1]. The errors
// wrap ErrDimension or ErrBounds.
func (c Coordinate) Validate(dims int) error {
	if len(c.Vec) != dims {
		return fmt.Errorf("%w: %d components, want %d", ErrDimension, len(c.Vec), dims)
	}
	for i, x := range c.Vec {
		if !(math.Abs(x) <= MaxComponent) {
			return fmt.Errorf("%w: component %d is %v", ErrBounds, i, x)
		}
	}
	if !(c.Height >= 0 && c.Height <= MaxComponent) {
		return fmt.Errorf("%w: height is %v", ErrBounds, c.Height)
	}
	if !(c.Error >= 0 && c.Error <= 1) {
		return fmt.Errorf("%w: error is %v", ErrBounds, c.Error)
	}
	return nil
}

// Clone returns a deep copy of c.
func (c Coordinate) Clone() Coordinate {
	c.Vec = slices.Clone(c.Vec)
	return c
}

// Loaded returns a copy of c with wait, the time that a new task would wait at the node,
// added to its height. The height is limited to MaxComponent.
func (c Coordinate) Loaded(wait time.Duration) Coordinate {
	c = c.Clone()
	c.Height = min(MaxComponent, c.Height+max(0, millis(wait)))
	return c
}

// Unloaded undoes Loaded with the same wait, unless the height was limited. Round trips
// must only be compared with coordinates without load.
func (c Coordinate) Unloaded(wait time.Duration) Coordinate {
	c = c.Clone()
	c.Height = max(0, c.Height-max(0, millis(wait)))
	return c
}

// millis converts to milliseconds.
func millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// duration converts from milliseconds and saturates instead of overflowing.
func duration(ms float64) time.Duration {
	const most = float64(math.MaxInt64) / float64(time.Millisecond)
	switch {
	case math.IsNaN(ms) || ms >= most:
		return math.MaxInt64
	case ms <= 0:
		return 0
	}
	return time.Duration(ms * float64(time.Millisecond))
}
