package coords

import (
	"math"
	"slices"
)

// lowerMedian returns the median of v, the lower one of two, because times err upwards.
// It returns NaN for an empty slice and does not change v.
func lowerMedian(v []float64) float64 {
	if len(v) == 0 {
		return math.NaN()
	}
	s := slices.Clone(v)
	slices.Sort(s)
	return s[(len(s)-1)/2]
}

// clamp limits x to [lo, hi].
func clamp(x, lo, hi float64) float64 { return min(max(x, lo), hi) }
