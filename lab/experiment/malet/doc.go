// Package malet repeats the experiments of chapter 5 of Malet's thesis, which crawls from
// PlanetLab, in simulated worlds.
//
// Files: malet.go what all experiments share; figure*.go one or two experiments each;
// natures.go the influence of the synthetic world; choices.go how good the chosen owners are,
// neighbours.go if they know of decided neighbours; strategy.go the strategies compared;
// vivaldi.go the algorithm of the thesis.
package malet

import "peerd/lab/experiment"

// Experiments lists those of this package.
func Experiments() []experiment.Experiment {
	return []experiment.Experiment{malet51(), malet54(), malet56(), malet57(), malet58(), malet59(),
		malet510(), malet512(), natures(), choices(), neighbours()}
}
