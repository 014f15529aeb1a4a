package store

import (
	"hash/maphash"
	"sync"
)

// seenCache remembers URLs that are known to be in the seen-set of their host,
// so that the same navigation links on every page of a site cost no look-up.
// It is a cache in front of the set on disk, which alone is exact and
// complete: what it does not know is looked up there. Its size is fixed.
//
// A URL is named by two keyed hashes of 64 bits. Their keys are of this
// process and secret, so nobody can make two URLs that share a name, and by
// chance it happens once in 2^128.
type seenCache struct {
	seeds [2]maphash.Seed

	mu    sync.RWMutex
	slots []sighting // empty, or of a URL that is seen
}

// A sighting names one URL; the zero value names none.
type sighting [2]uint64

// seenSlots is the number of URLs remembered, a power of two: 16 bytes each,
// 4 MiB.
const seenSlots = 1 << 18

// simulatedSlots is their number on a disk of a simulation, which opens thousands.
const simulatedSlots = 1 << 12

func newSeenCache(slots int) seenCache {
	return seenCache{seeds: [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}, slots: make([]sighting, slots)}
}

func (c *seenCache) name(u URL) sighting {
	return sighting{maphash.String(c.seeds[0], string(u)), maphash.String(c.seeds[1], string(u)) | 1}
}

// has says that s is seen; false says nothing.
func (c *seenCache) has(s sighting) bool {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.slots[s[0]&uint64(len(c.slots)-1)] == s
}

// committed takes in what a committed transaction found seen or made so, after
// it has forgotten everything if the transaction unmade any.
func (c *seenCache) committed(seen []sighting, forget bool) {
	if len(seen) == 0 && !forget {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if forget {
		clear(c.slots)
		return
	}
	for _, s := range seen {
		c.slots[s[0]&uint64(len(c.slots)-1)] = s
	}
}

// KnownSeen says, without a look at the disk, that u was accepted at its host
// before. False says nothing: ask Tx.Seen.
func (d *DB) KnownSeen(u URL) bool { return d.seen.has(d.seen.name(u)) }
