package coords

import (
	"fmt"
	"math"
)

// MaxTraits bounds the number of components of Traits, and MaxTrait the absolute value
// of each.
const (
	MaxTraits = 96
	MaxTrait  = 1e4
)

// Traits is the vector of latent factors of a peer or of a web server. They explain the
// part of download times that distance does not.
type Traits []float64

// Validate reports whether traits that were received from another peer may be used. The
// errors wrap ErrDimension or ErrBounds.
func (t Traits) Validate() error {
	if len(t) > MaxTraits {
		return fmt.Errorf("%w: %d traits, at most %d", ErrDimension, len(t), MaxTraits)
	}
	for i, x := range t {
		if !(math.Abs(x) <= MaxTrait) {
			return fmt.Errorf("%w: trait %d is %v", ErrBounds, i, x)
		}
	}
	return nil
}
