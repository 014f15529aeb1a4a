package trap

const (
	ways        = 8   // slots in which a key may be
	maxShapes   = 256 // slots of the largest table
	maxSketches = 96  // slots that may hold registers; bounds the memory
)

// slot is what is known about one shape under one heuristic.
type slot struct {
	key      uint64 // 0: empty
	n        uint32 // URLs; the yield; or the budget spent
	used     uint32 // tick of the last use
	distinct sketch // distinct values, for heuristics that count them
}

// table is a set-associative cache of slots that evicts the least recently used. It doubles
// when a set overflows, from one set to maxShapes/ways. The position of a slot depends only
// on its key and the order of uses.
type table struct {
	slots    []slot
	tick     uint32
	sketches int // slots with registers
}

// find returns the slot of key, or nil. It does not count as a use.
func (t *table) find(key uint64) *slot {
	set := t.set(key)
	for i := range set {
		if set[i].key == key {
			return &set[i]
		}
	}
	return nil
}

// set returns the slots in which key may be.
func (t *table) set(key uint64) []slot {
	if len(t.slots) == 0 {
		return nil
	}
	first := int(key>>32) % (len(t.slots) / ways) * ways
	return t.slots[first : first+ways]
}

// use returns the slot of key, which it creates if necessary, and marks it as used. The
// pointer is valid until the next call of use.
func (t *table) use(key uint64) *slot {
	t.advanceTick()
	s := t.find(key)
	if s == nil {
		s = t.slotFor(key)
		t.clear(s)
		s.key = key
	}
	s.used = t.tick
	return s
}

// slotFor returns the slot for a new key: an empty one, or the least recently used of a set
// that cannot grow.
func (t *table) slotFor(key uint64) *slot {
	for {
		set := t.set(key)
		var oldest *slot
		for i := range set {
			if set[i].key == 0 {
				return &set[i]
			}
			if oldest == nil || set[i].used < oldest.used {
				oldest = &set[i]
			}
		}
		if len(t.slots) >= maxShapes {
			return oldest
		}
		t.grow()
	}
}

func (t *table) grow() {
	old := t.slots
	t.slots = make([]slot, max(2*len(old), ways))
	for _, s := range old {
		if s.key != 0 {
			*t.slotFor(s.key) = s
		}
	}
}

// clear empties s.
func (t *table) clear(s *slot) {
	if !s.distinct.exact() {
		t.sketches--
	}
	*s = slot{}
}

// count counts h in s. If that needs registers and too many slots have some, it evicts the
// least recently used of those.
func (t *table) count(s *slot, h uint64) {
	was := s.distinct.exact()
	if was && s.distinct.full() && !s.distinct.has(h) && t.sketches >= maxSketches {
		var oldest *slot
		for i := range t.slots {
			if o := &t.slots[i]; !o.distinct.exact() && (oldest == nil || o.used < oldest.used) {
				oldest = o
			}
		}
		t.clear(oldest)
	}
	s.distinct = s.distinct.add(h)
	if was && !s.distinct.exact() {
		t.sketches++
	}
}

// advanceTick increments the tick. Before it would overflow, all ticks are halved.
func (t *table) advanceTick() {
	t.tick++
	if t.tick == 1<<32-1 {
		t.tick /= 2
		for i := range t.slots {
			t.slots[i].used /= 2
		}
	}
}
