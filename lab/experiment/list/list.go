// Package list lists all experiments. It is the only package that imports all packages of
// experiments, and only the command line imports it.
package list

import (
	"slices"

	"peerd/lab/experiment"
	"peerd/lab/experiment/choose"
	"peerd/lab/experiment/coordinates"
	"peerd/lab/experiment/delegate"
	"peerd/lab/experiment/malet"
	"peerd/lab/experiment/scale"
	"peerd/lab/experiment/source"
)

// Experiments returns all experiments, in the order in which they are shown.
func Experiments() []experiment.Experiment {
	return slices.Concat(
		choose.Experiments(), coordinates.Experiments(), scale.Experiments(),
		delegate.Experiments(), malet.Experiments(), source.Experiments(),
	)
}
