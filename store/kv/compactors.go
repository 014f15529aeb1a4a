package kv

import (
	"slices"
	"time"
	_ "unsafe" // for go:linkname

	"github.com/dgraph-io/badger/v4"
)

// calmFor is how long no level needs a compaction before the compactors are stopped.
const calmFor = 30 * time.Second

// compactors runs badger's compactors only while there is something to compact. Each of them looks
// for work twenty times a second, and there must be two, which takes more processor time than
// everything else in a peer that is idle and alone. The zero value is that of an open database.
type compactors struct {
	neededAt time.Time // when a level last needed a compaction; zero: not looked yet
	stopped  bool
}

// update stops or starts the compactors. When level 0 has 15 tables badger lets writes wait for a
// compaction. If update is called each second, that takes two seconds longer at most.
func (c *compactors) update(db *badger.DB, now time.Time) {
	needed := slices.ContainsFunc(db.Levels(), func(l badger.LevelInfo) bool {
		return l.Score >= 1
	})
	switch {
	case needed || c.neededAt.IsZero():
		c.start(db, now)
	case !c.stopped && now.Sub(c.neededAt) >= calmFor:
		stopCompactions(db)
		c.stopped = true
	}
}

// start has the compactors run for calmFor at least.
func (c *compactors) start(db *badger.DB, now time.Time) {
	if c.neededAt = now; c.stopped {
		startCompactions(db)
		c.stopped = false
	}
}

// stopCompactions ends the compactors and waits for them. Badger calls it in Flatten and Close, and
// exports no method that does only this. If badger renames it, peerd does not link.
//
//go:linkname stopCompactions github.com/dgraph-io/badger/v4.(*DB).stopCompactions
func stopCompactions(db *badger.DB)

// startCompactions starts the compactors again, as Flatten does at its end.
//
//go:linkname startCompactions github.com/dgraph-io/badger/v4.(*DB).startCompactions
func startCompactions(db *badger.DB)
