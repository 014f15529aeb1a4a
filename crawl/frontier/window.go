package frontier

import (
	"bytes"
	"slices"

	"peerd/store"
)

// A window is the part of a finder's queue that has been read ahead, so that not every job
// requires a search on disk past the tombstones of earlier entries. Only two parties write
// to the queue: pushers, which report their entries, and the holder of the host's single
// job.
//
// Every entry of the queue is in entries, after end, or in a level that is marked with
// more. A pushed entry follows all others of its place, so it is either after end or at a
// place in passed.
type window struct {
	entries   []store.Entry // in order
	end       []byte        // key of the last entry read in order; nil: none yet
	place     int           // of that entry
	seq       uint64
	passed    []placePos // lower places, ascending
	uncertain [][]byte   // keys of entries that may have been moved
	version   int        // tells a concurrent read that it is outdated
}

// A placePos is a place and the position up to which its entries were read.
type placePos struct {
	place int
	seq   uint64
	more  bool // there may be entries after it
}

const (
	// maxAheadBytes is the approximate total size of the entries in all windows: hosts have equal
	// shares, and so have the finders of a host. Each may have one entry in any case.
	maxAheadBytes = 16 << 20
	// maxReadEntries is the maximum number of entries per read.
	maxReadEntries = 64
	// entryOverhead is the memory of an entry besides its URL and key.
	entryOverhead = 128
	// maxLevels is the maximum number of places in passed. A window that needs more
	// starts over.
	maxLevels = 64
)

// reset discards what was read. The next read starts at the beginning.
func (w *window) reset() { *w = window{version: w.version + 1} }

// pushed records a new entry at a place.
func (w *window) pushed(place int) {
	w.version++
	if w.end == nil || place >= w.place {
		return
	}
	i, ok := w.find(place)
	if !ok {
		if len(w.passed) == maxLevels {
			w.reset()
			return
		}
		w.passed = slices.Insert(w.passed, i, placePos{place: place})
	}
	w.passed[i].more = true
}

func (w *window) find(place int) (int, bool) {
	return slices.BinarySearchFunc(w.passed, place, func(l placePos, at int) int {
		return l.place - at
	})
}

// A readPos is a position from which to read on.
type readPos struct {
	after   []byte    // nil: from the start
	level   *placePos // if not nil, replaces after
	version int
}

// next removes and returns the next entry, and whether it may have been moved in the store.
// If the window does not hold the next entry, ok is false and from is where to read.
func (w *window) next() (e store.Entry, moved bool, from readPos, ok bool) {
	from = readPos{after: w.end, version: w.version}
	first := 1 << 16
	if len(w.entries) > 0 {
		first, _ = w.entries[0].Position()
	}
	for _, l := range w.passed {
		if l.more && l.place < first {
			from.level = &l
			return e, false, from, false
		}
	}
	if len(w.entries) == 0 {
		return e, false, from, false
	}
	e, moved = w.pop()
	return e, moved, from, true
}

func (w *window) pop() (e store.Entry, moved bool) {
	e, w.entries[0] = w.entries[0], e // do not retain the URL
	w.entries = w.entries[1:]
	i := slices.IndexFunc(w.uncertain, func(key []byte) bool { return bytes.Equal(key, e.Key) })
	if i < 0 {
		return e, false
	}
	w.uncertain = slices.Delete(w.uncertain, i, i+1)
	return e, true
}

// putBack returns the entry that was removed last. If moved is set, the holder may have
// moved it behind the others of its place or of its host.
func (w *window) putBack(e store.Entry, moved bool) {
	if moved {
		place, _ := e.Position()
		w.pushed(place)
	}
	if w.end == nil || bytes.Compare(e.Key, w.end) > 0 {
		return // it will be read again
	}
	w.entries = slices.Insert(w.entries, 0, e)
	if moved {
		w.uncertain = append(w.uncertain, e.Key)
	}
}

// addRead adds what was read from a position and returns the first entry; all says that
// nothing follows. It keeps nothing if the queue has changed in the meantime.
func (w *window) addRead(from readPos, got []store.Entry, all bool) (e store.Entry, ok bool) {
	fresh := from.version == w.version
	switch {
	case !fresh && len(got) > 0:
		return got[0], true
	case !fresh:
		return e, false
	case from.level != nil:
		i, _ := w.find(from.level.place)
		l := &w.passed[i]
		l.more = !all
		if len(got) > 0 {
			_, l.seq = got[len(got)-1].Position()
		}
		w.entries = append(got, w.entries...)
	case len(got) == 0:
		w.reset()
	default:
		w.extend(got)
	}
	if len(got) == 0 {
		return e, false
	}
	e, _ = w.pop()
	return e, true
}

// extend moves the end of the window.
func (w *window) extend(got []store.Entry) {
	w.entries = got
	for _, e := range got {
		place, seq := e.Position()
		if w.end != nil && place > w.place {
			if len(w.passed) == maxLevels { // a push to the lowest place is the least likely
				w.passed = slices.Delete(w.passed, 0, 1)
			}
			w.passed = append(w.passed, placePos{place: w.place, seq: w.seq})
		}
		w.end, w.place, w.seq = e.Key, place, seq
	}
}

// entryOf returns the next entry of a finder of a host. ok is false if it has none.
func (f *Frontier) entryOf(h *host, q *finder) (e store.Entry, ok bool, err error) {
	for {
		f.mu.Lock()
		e, moved, from, ok := q.window.next()
		space := maxAheadBytes / max(len(f.hosts), 1) / max(h.turns.waiting(), 1)
		f.mu.Unlock()
		if moved {
			err := f.cfg.DB.View(func(tx *store.Tx) (err error) {
				ok, err = tx.Queued(e)
				return err
			})
			if err != nil {
				return e, false, err
			}
		}
		if ok {
			return e, true, nil
		}
		if moved {
			continue
		}
		got, all, err := f.read(h.name, q.number, from, space)
		if err != nil {
			return e, false, err
		}
		f.mu.Lock()
		e, ok = q.window.addRead(from, got, all)
		f.mu.Unlock()
		if ok || from.after == nil {
			return e, ok, nil
		}
	}
}

// read returns the next entries of a finder from a position, at least one and about as many
// as fit into space; all says that there are no more.
func (f *Frontier) read(
	host string, finder int, from readPos, space int,
) (got []store.Entry, all bool, err error) {
	all = true
	add := func(e store.Entry) (bool, error) {
		if finderOf(e) != finder {
			return false, nil
		}
		got = append(got, e)
		space -= len(e.URL) + len(e.Key) + entryOverhead
		all = space > 0 && len(got) < maxReadEntries
		return all, nil
	}
	err = f.cfg.DB.View(func(tx *store.Tx) error {
		switch {
		case from.level != nil:
			return tx.QueueAt(host, from.level.place, from.level.seq, add)
		case from.after != nil:
			return tx.Queue(host, from.after, add)
		}
		return tx.QueueFrom(host, finder*store.FinderPlaces, add)
	})
	return got, all, err
}
