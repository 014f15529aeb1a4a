package zone

import (
	"math"

	"peerd/coords"
)

// A Zone is a part of the space as seen from one point: a ring and a sector.
type Zone struct {
	// Ring 0 extends to InnerRadius, ring i to InnerRadius·2^i.
	Ring int
	// Sector is twice the index of the axis with the largest difference, plus one for its
	// negative direction. In [0, 2·dimensions).
	Sector int
}

// Of returns the zone of a point as seen from another one. It ignores heights, which
// have no direction. inner is the radius of ring 0 in milliseconds, > 0; the last ring
// extends to infinity. rings >= 1.
func Of(from, to coords.Coordinate, inner float64, rings int) Zone {
	var z Zone
	longest := 0.0
	for i, x := range to.Vec {
		if i < len(from.Vec) {
			x -= from.Vec[i]
		}
		if a := math.Abs(x); a > longest {
			longest, z.Sector = a, 2*i
			if x < 0 {
				z.Sector++
			}
		}
	}
	if d := flat(from, to); d > inner {
		z.Ring = int(min(math.Ceil(math.Log2(d/inner)), float64(rings-1)))
	}
	return z
}

// flat returns the distance of two points without heights, in milliseconds.
func flat(a, b coords.Coordinate) float64 {
	return coords.Coordinate{Vec: a.Vec}.Distance(coords.Coordinate{Vec: b.Vec})
}
