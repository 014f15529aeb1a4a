package sim

import (
	"log/slog"
	"time"
)

// Options configure one simulation. Equal options give equal worlds and equal
// schedules.
type Options struct {
	Seed uint64
	// Peers, Sites and Pages are numbers of each.
	Peers, Sites, Pages int
	// Gap is the politeness delay that the sites require and the peers keep.
	Gap time.Duration
	// Faults is the time after the seeding of the crawl in which faults start.
	Faults time.Duration
	// Level selects the faults that may occur.
	Level Level
	// Disturbance, if not empty, replaces the schedule and the size of the world.
	Disturbance Disturbance
	// Dir is an empty directory for the peers' keys. They store nothing else on the
	// real disk.
	Dir string
	// Logger receives the peers' log records, with the peer's number as an attribute;
	// nil discards them.
	Logger *slog.Logger
}

// Level selects the faults that a schedule may contain.
type Level int

const (
	// Calm has no faults.
	Calm Level = iota
	// Returning has the faults that a peer recovers from: kills, power failures that
	// lose unsynced commits, pauses, partitions of seconds and of minutes, slow and
	// lossy links, reset connections, full and slow disks, wrong clocks, and a clean
	// leave.
	Returning
	// Losing adds one peer that never returns, or returns with an empty disk.
	Losing
	// Moving adds a site that moves to another subnet. Peers take an hour or more to
	// detect this, so the lower levels do not have it.
	Moving
)

// DefaultOptions returns the options of "peerd-lab sim".
func DefaultOptions(seed uint64) Options {
	return Options{
		Seed: seed, Peers: 7, Sites: 12, Pages: 180, Gap: 2 * time.Second, Faults: 90 * time.Second,
		Level: Returning,
	}
}
