// Package delegate compares strategies that probe with strategies that use the holder of an
// address, over worlds of crawlers and sites: Papapetrou's experiments.
//
// Files: delegate.go the comparison over any worlds; papapetrou.go the tables and figures of
// the thesis, with location.go for figure 8.1 and balance.go for 7.6.3; delegations.go how sites
// are delegated and counted; places.go how crawlers learn their own coordinates.
package delegate

import "peerd/lab/experiment"

// Experiments lists those of this package.
func Experiments() []experiment.Experiment {
	return append([]experiment.Experiment{delegate()}, papapetrou()...)
}
