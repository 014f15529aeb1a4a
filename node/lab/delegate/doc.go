// Package delegate compares strategies that probe and those that know who holds
// an address, over worlds of crawlers and sites: Papapetrou's experiments.
//
// It owns the experiments "delegate" and "papapetrou-...". It may import lab,
// lab/data, room coords and node/strategy, and no other package of experiments.
//
// Files: delegate.go the comparison that takes any worlds; papapetrou.go the
// tables and figures; delegations.go how sites are handed out and counted;
// places.go what crawlers learn of themselves.
package delegate

import "peerd/node/lab"

// Experiments lists those of this package.
func Experiments() []lab.Experiment {
	return append([]lab.Experiment{delegate()}, papapetrou()...)
}
