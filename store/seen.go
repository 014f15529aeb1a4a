package store

import (
	"hash/maphash"
	"sync"
)

// seenCache remembers URLs that are in the seen set of their host, so that navigation
// links that appear on every page of a site need no disk access. It is a cache of fixed
// size in front of the set on disk; only the latter is complete.
//
// A URL is represented by two keyed 64-bit hashes. The keys are random for each process
// and secret, so other peers cannot construct URLs with equal hashes; the probability
// of a collision by chance is 2^-128.
type seenCache struct {
	seeds [2]maphash.Seed

	mu    sync.RWMutex
	slots []urlHash // zero, or the hash of a seen URL
}

// urlHash represents one URL. The zero value represents none.
type urlHash [2]uint64

// seenSlots is the number of URLs that are remembered, a power of two. At 16 bytes each
// they take 4 MiB.
const seenSlots = 1 << 18

// simulatedSeenSlots replaces seenSlots in simulations, which open thousands of stores.
const simulatedSeenSlots = 1 << 12

func newSeenCache(slots int) seenCache {
	return seenCache{seeds: [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()},
		slots: make([]urlHash, slots)}
}

func (c *seenCache) hash(u URL) urlHash {
	return urlHash{maphash.String(c.seeds[0], string(u)), maphash.String(c.seeds[1], string(u)) | 1}
}

// has reports whether s is known to be seen; if not, only the disk knows.
func (c *seenCache) has(s urlHash) bool {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.slots[s[0]&uint64(len(c.slots)-1)] == s
}

// update adds the hashes of the URLs that a committed transaction found or marked as
// seen. If the transaction deleted any (forget), it clears the cache instead.
func (c *seenCache) update(seen []urlHash, forget bool) {
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

// KnownSeen reports, without disk access, whether u is known to have been accepted at
// its host. If it returns false, Tx.Seen tells.
func (d *DB) KnownSeen(u URL) bool { return d.seen.has(d.seen.hash(u)) }
