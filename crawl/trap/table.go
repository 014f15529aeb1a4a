package trap

const (
	ways        = 8   // places in which a key may stand
	maxShapes   = 256 // places of the largest table
	maxSketches = 96  // of them may hold registers, which bounds the bytes
)

// slot is what is known of one shape under one heuristic.
type slot struct {
	key  uint64 // 0: empty
	n    uint32 // URLs
	used uint32 // when last, in ticks of the table
	dist sketch // distinct values, for heuristics that count them
}

// table is a set-associative cache of slots, least recently used out first. It
// grows by doubling while a set overflows, from one set to maxShapes/ways.
// Where a slot stands follows from its key and the order of use alone.
type table struct {
	slots    []slot
	tick     uint32
	sketches int // slots with registers
}

// find returns the slot of key, or nil. It does not count as use.
func (t *table) find(key uint64) *slot {
	set := t.set(key)
	for i := range set {
		if set[i].key == key {
			return &set[i]
		}
	}
	return nil
}

// set returns the places in which key may stand.
func (t *table) set(key uint64) []slot {
	if len(t.slots) == 0 {
		return nil
	}
	first := int(key>>32) % (len(t.slots) / ways) * ways
	return t.slots[first : first+ways]
}

// take returns the slot of key, makes it if there is none, and marks it used.
// The pointer is good until the next take.
func (t *table) take(key uint64) *slot {
	t.advance()
	s := t.find(key)
	if s == nil {
		s = t.place(key)
		t.drop(s)
		s.key = key
	}
	s.used = t.tick
	return s
}

// place returns where a new key goes: an empty slot, or the least recently used
// of a set that cannot grow.
func (t *table) place(key uint64) *slot {
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
			*t.place(s.key) = s
		}
	}
}

// drop empties s.
func (t *table) drop(s *slot) {
	if !s.dist.exact() {
		t.sketches--
	}
	*s = slot{}
}

// count counts h in s. If that needs registers and there are too many, the
// least recently used slot that has some is forgotten.
func (t *table) count(s *slot, h uint64) {
	was := s.dist.exact()
	if was && s.dist.full() && !s.dist.has(h) && t.sketches >= maxSketches {
		var oldest *slot
		for i := range t.slots {
			if o := &t.slots[i]; !o.dist.exact() && (oldest == nil || o.used < oldest.used) {
				oldest = o
			}
		}
		t.drop(oldest)
	}
	s.dist = s.dist.add(h)
	if was && !s.dist.exact() {
		t.sketches++
	}
}

// advance moves the clock; before it would wrap, ages are halved.
func (t *table) advance() {
	t.tick++
	if t.tick == 1<<32-1 {
		t.tick /= 2
		for i := range t.slots {
			t.slots[i].used /= 2
		}
	}
}
