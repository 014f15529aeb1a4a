// Package malet crawls simulated worlds as Malet's chapter 5 does PlanetLab.
//
// It owns the experiments "malet-...". It may import lab, lab/sim, room coords,
// node/strategy and node/emulate/wan, and no other package of experiments.
//
// Files: malet.go what all have in common; figure*.go one experiment or two
// each; natures.go how
// much hangs on the made-up world; strategy.go who takes part; vivaldi.go the thesis' own way.
package malet

import "peerd/node/lab"

// Experiments lists those of this package.
func Experiments() []lab.Experiment {
	return []lab.Experiment{malet51(), malet54(), malet56(), malet57(), malet58(), malet59(), malet510(), malet512(), natures()}
}
