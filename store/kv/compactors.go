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
// everything else that an idle peer does. The zero value is of a database that was opened.
type compactors struct {
	neededAt time.Time // when a level last needed a compaction; zero: not looked yet
	stopped  bool
}

// update stops or starts the compactors. If it is called each second, writes wait for a compaction
// by two seconds more at most: badger lets them wait when level 0 has 15 tables.
func (c *compactors) update(db *badger.DB, now time.Time) {
	needed := slices.ContainsFunc(db.Levels(), func(l badger.LevelInfo) bool {
		return l.Score >= 1
	})
	switch {
	case needed || c.neededAt.IsZero():
		if c.neededAt = now; c.stopped {
			startCompactions(db)
			c.stopped = false
		}
	case !c.stopped && now.Sub(c.neededAt) >= calmFor:
		stopCompactions(db)
		c.stopped = true
	}
}

// stopCompactions ends the compactors and waits for them. Badger calls it in Flatten and Close. No
// exported method does only that; without this one peerd does not link.
//
//go:linkname stopCompactions github.com/dgraph-io/badger/v4.(*DB).stopCompactions
func stopCompactions(db *badger.DB)

// startCompactions starts the compactors again, as Flatten does at its end.
//
//go:linkname startCompactions github.com/dgraph-io/badger/v4.(*DB).startCompactions
func startCompactions(db *badger.DB)
