package record

import "peerd/internal/lru"

// meanSize bounds the sealed records in memory: in bytes, times Config.CacheSize.
const meanSize = 1 << 10

// memory remembers a bounded number of entries, with a bounded number of bytes of sealed records;
// the opened ones take about as much again. When it is full, it forgets hearsay first, which
// strangers can make up, then records found in the DHT, and those that this peer wrote last; but
// it leaves each of the three a quarter. Of each it forgets what was not used for longest. It is
// for one goroutine at a time.
type memory[K comparable, R any] struct {
	size, bytes int           // at most
	ranks       [3]rank[K, R] // in the order in which they are forgotten
}

// rank is the entries of which this peer knows equally much.
type rank[K comparable, R any] struct {
	*lru.Simple[K, Entry[R]]
	bytes int
}

func newMemory[K comparable, R any](size int) *memory[K, R] {
	m := &memory[K, R]{size: size, bytes: size * meanSize}
	for i := range m.ranks {
		r := &m.ranks[i]
		r.Simple = lru.NewSimple(size, func(_ K, e Entry[R]) { r.bytes -= len(e.Sealed) })
	}
	return m
}

func (m *memory[K, R]) rankOf(e Entry[R]) *rank[K, R] {
	switch {
	case e.Won:
		return &m.ranks[2]
	case e.Known():
		return &m.ranks[1]
	}
	return &m.ranks[0]
}

func (m *memory[K, R]) get(k K) (Entry[R], bool) {
	for _, r := range m.ranks {
		if e, ok := r.Get(k); ok {
			return e, true
		}
	}
	return Entry[R]{}, false
}

func (m *memory[K, R]) remove(k K) {
	for _, r := range m.ranks {
		r.Remove(k)
	}
}

// put remembers e instead of what is remembered of k.
func (m *memory[K, R]) put(k K, e Entry[R]) {
	m.remove(k)
	r := m.rankOf(e)
	r.Add(k, e)
	r.bytes += len(e.Sealed)
	for m.shrink() {
	}
}

// shrink forgets one entry if there are too many or too large ones, and reports whether it did.
func (m *memory[K, R]) shrink() bool {
	size, bytes := 0, 0
	for _, r := range m.ranks {
		size, bytes = size+r.Len(), bytes+r.bytes
	}
	for _, r := range m.ranks {
		if r.Len() > 1 && (size > m.size && r.Len() > m.size/4 ||
			bytes > m.bytes && r.bytes > m.bytes/4) {
			r.RemoveOldest()
			return true
		}
	}
	return false
}
