// Package scale simulates networks of ten to ten thousand peers. It measures what each idle
// peer sends, and how peers that know only a few others find peers near a server.
//
// Files: scale.go the experiment; choose.go choosing a peer; views.go the peers that each peer
// knows; world.go round trips; volunteers.go what a network crawls on the whole Internet.
package scale

import "peerd/lab/experiment"

// Experiments lists those of this package.
func Experiments() []experiment.Experiment {
	return []experiment.Experiment{Scale(), Volunteers()}
}
