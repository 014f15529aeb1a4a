// Package choose compares ways of choosing the peer for a server from a few
// estimations, over response times that were measured or made of round trips.
//
// It owns the experiment "choose". It may import lab, lab/data and room coords,
// and no other package of experiments: what the peers run is coords/assign, and
// the rivals are here.
//
// Files: choose.go the experiment and the protocol that peers run; world.go what
// may be measured, and the truth; malet.go the thesis' way.
package choose

import "peerd/node/lab"

// Experiments lists those of this package.
func Experiments() []lab.Experiment {
	return []lab.Experiment{choose()}
}
