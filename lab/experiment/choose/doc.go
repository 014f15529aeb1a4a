// Package choose compares methods that choose the peer for a server from a few estimations, on
// response times that were measured or derived from round trips. One method is coords/assign,
// which the peers run; the others are from the literature.
//
// Files: choose.go the experiment and the protocol of the peers; world.go what may be measured,
// and the true times; malet.go the algorithm of Malet's thesis.
package choose

import "peerd/lab/experiment"

// Experiments lists those of this package.
func Experiments() []experiment.Experiment {
	return []experiment.Experiment{choose()}
}
