// Package coordinates compares algorithms that compute coordinates of peers from round
// trips, over a matrix of measured ones, with and without liars. Serf's client is one of
// the algorithms compared. A second experiment measures what liars do to peerd's, and to the
// choices of owners.
//
// Files: coordinates.go the experiment; algorithms.go the algorithms; attacks.go what liars
// report; report.go plots and claims; liars.go the second experiment.
package coordinates

import "peerd/lab/experiment"

// Experiments lists those of this package.
func Experiments() []experiment.Experiment {
	return []experiment.Experiment{coordinates(), liars()}
}
