// Package list puts the experiments together: the only place that knows all of
// them. It imports lab and every package of experiments, and is imported by the
// command line alone.
package list

import (
	"slices"

	"peerd/node/lab"
	"peerd/node/lab/choose"
	"peerd/node/lab/coordinates"
	"peerd/node/lab/delegate"
	"peerd/node/lab/malet"
	"peerd/node/lab/scale"
)

// Experiments lists all experiments, in the order in which they are shown.
func Experiments() []lab.Experiment {
	return slices.Concat(
		choose.Experiments(), coordinates.Experiments(), scale.Experiments(), delegate.Experiments(), malet.Experiments(),
	)
}
