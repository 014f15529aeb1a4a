// Package coordinates compares algorithms that place peers by their round
// trips, over a matrix of measured ones, with and without liars.
//
// It owns the experiment "coordinates". It may import lab, lab/data and room
// coords, and no other package of experiments; serf's client is a rival.
//
// Files: coordinates.go the experiment; algorithms.go who takes part; attacks.go
// what liars tell; report.go drawings and claims.
package coordinates

import "peerd/node/lab"

// Experiments lists those of this package.
func Experiments() []lab.Experiment {
	return []lab.Experiment{coordinates()}
}
