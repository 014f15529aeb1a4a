// Package scale builds networks of ten to ten thousand peers: what each says at
// rest, and how the peers near a server are found by those who know few.
//
// It owns the experiment "scale". It may import lab, rooms coords and overlay,
// and no other package of experiments.
//
// Files: scale.go the experiment; choose.go who is chosen; views.go whom a peer knows; world.go who is
// where.
package scale

import "peerd/node/lab"

// Experiments lists those of this package.
func Experiments() []lab.Experiment {
	return []lab.Experiment{Scale()}
}
