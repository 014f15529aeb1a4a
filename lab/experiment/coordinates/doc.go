// Package coordinates compares algorithms that compute coordinates of peers from round
// trips, over a matrix of measured ones, with and without liars. Serf's client is one of
// the algorithms compared.
//
// Files: coordinates.go the experiment; algorithms.go the algorithms; attacks.go what liars
// report; report.go plots and claims.
package coordinates

import "peerd/lab/experiment"

// Experiments lists those of this package.
func Experiments() []experiment.Experiment {
	return []experiment.Experiment{coordinates()}
}
