package sim

import (
	"log/slog"
	"time"
)

// Options say what one simulation is made of. Equal options make equal worlds
// and equal schedules.
type Options struct {
	Seed uint64
	// Peers, Sites and Pages are how many there are.
	Peers, Sites, Pages int
	// Gap is the politeness that the sites demand and the peers keep.
	Gap time.Duration
	// Faults is how long faults go on after the crawl was seeded.
	Faults time.Duration
	// Level is what may happen: see Level.
	Level Level
	// Dir is an empty directory for the peers' keys; nothing else of theirs is on
	// the real disk.
	Dir string
	// Logger takes what the peers say, with the number of each; nil discards.
	Logger *slog.Logger
}

// Level is how much a schedule may do to a network.
type Level int

const (
	// Calm is a network to which nothing happens.
	Calm Level = iota
	// Returning is everything that a peer comes back from: kills, power cuts with
	// loss of what was not synced, pauses, cuts of seconds and of minutes, slow and
	// lossy links, lost connections, full and slow disks, clocks that are wrong, and
	// a clean leave.
	Returning
	// Losing adds one peer that never comes back, disk and all, or comes back without
	// what was on its disk.
	Losing
	// Moving adds a site that moves to another subnet, which takes an hour or more
	// to be noticed and is therefore no part of the others.
	Moving
)

// DefaultOptions are those of go test ./node -run Sim.
func DefaultOptions(seed uint64) Options {
	return Options{
		Seed: seed, Peers: 7, Sites: 12, Pages: 180, Gap: 2 * time.Second, Faults: 90 * time.Second, Level: Returning,
	}
}
