package coords

import (
	"fmt"
	"math"
)

// TraitsMax bounds the number of components of Traits, and TraitMax each of
// them.
const (
	TraitsMax = 96
	TraitMax  = 1e4
)

// Traits is a vector that a peer learns of itself, or an owner of a web server:
// the factors of download times that distance does not explain.
type Traits []float64

// Validate reports whether traits of foreign origin may be used. The errors
// wrap ErrDimension or ErrBounds.
func (t Traits) Validate() error {
	if len(t) > TraitsMax {
		return fmt.Errorf("%w: %d traits, at most %d", ErrDimension, len(t), TraitsMax)
	}
	for i, x := range t {
		if !(math.Abs(x) <= TraitMax) {
			return fmt.Errorf("%w: trait %d is %v", ErrBounds, i, x)
		}
	}
	return nil
}
