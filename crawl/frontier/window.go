package frontier

import (
	"bytes"
	"fmt"
	"slices"

	"peerd/store"
)

// A window is the part of a host's queue that has been read ahead, so that not
// every job is a search on disk among the remains of those before it. The
// queue itself is only written by those who push, who say so, and by whoever
// has the host's one job.
//
// What is in the queue is in entries, or beyond the end, or in a level that is
// marked: no other place has to be looked at. An entry that is pushed goes
// behind all others of its depth, so either beyond the end, or to a depth that
// was passed.
type window struct {
	entries []store.Entry // in order
	end     []byte        // key of the last entry read in order; nil: none was
	depth   int           // of that entry
	seq     uint64
	passed  []level  // depths less than that, ascending
	doubts  [][]byte // keys of those entries that may have been moved
	changes int      // tells a read under way that it may be too old
}

// A level is a depth whose entries were read up to a place.
type level struct {
	depth int
	seq   uint64
	more  bool // there may be entries behind it
}

const (
	// maxAhead is how many bytes of entries all windows together hold, about;
	// every host may have one entry whatever that says.
	maxAhead = 16 << 20
	// mostAhead bounds the entries of one read.
	mostAhead = 64
	// entrySize is what an entry takes in memory besides its URL and key.
	entrySize = 128
	// maxLevels bounds the depths that are remembered. A window with more of
	// them begins anew.
	maxLevels = 64
)

// reset forgets what was read: the next entry is looked for from the start.
func (w *window) reset() { *w = window{changes: w.changes + 1} }

// pushed tells of a new entry of that depth.
func (w *window) pushed(depth int) {
	w.changes++
	depth = min(max(depth, 0), 0xffff) // as the store keeps it
	if w.end == nil || depth >= w.depth {
		return
	}
	i, ok := w.find(depth)
	if !ok {
		if len(w.passed) == maxLevels {
			w.reset()
			return
		}
		w.passed = slices.Insert(w.passed, i, level{depth: depth})
	}
	w.passed[i].more = true
}

func (w *window) find(depth int) (int, bool) {
	return slices.BinarySearchFunc(w.passed, depth, func(l level, d int) int { return l.depth - d })
}

// A place is where to read on.
type place struct {
	after   []byte // nil: from the start
	level   *level // instead of that, if not nil
	changes int
}

// next takes out the next entry, if the window holds it, and says whether it
// may have been moved; else it returns where to read.
func (w *window) next() (e store.Entry, doubt bool, from place, ok bool) {
	from = place{after: w.end, changes: w.changes}
	first := 1 << 16
	if len(w.entries) > 0 {
		first, _ = w.entries[0].Place()
	}
	for _, l := range w.passed {
		if l.more && l.depth < first {
			from.level = &l
			return e, false, from, false
		}
	}
	if len(w.entries) == 0 {
		return e, false, from, false
	}
	e, doubt = w.pop()
	return e, doubt, from, true
}

func (w *window) pop() (e store.Entry, doubt bool) {
	e, w.entries[0] = w.entries[0], e // the array keeps no URL
	w.entries = w.entries[1:]
	i := slices.IndexFunc(w.doubts, func(key []byte) bool { return bytes.Equal(key, e.Key) })
	if i < 0 {
		return e, false
	}
	w.doubts = slices.Delete(w.doubts, i, i+1)
	return e, true
}

// back puts the entry taken out last in again. Whoever had it may have moved it
// behind those of its depth, if doubt.
func (w *window) back(e store.Entry, doubt bool) {
	if doubt {
		depth, _ := e.Place()
		w.pushed(depth)
	}
	if w.end == nil || bytes.Compare(e.Key, w.end) > 0 {
		return // it is read again
	}
	w.entries = slices.Insert(w.entries, 0, e)
	if doubt {
		w.doubts = append(w.doubts, e.Key)
	}
}

// fill takes in what was read from a place; all says that there is no more
// there. It returns the first of it. Nothing is kept if the queue has changed
// meanwhile.
func (w *window) fill(from place, got []store.Entry, all bool) (e store.Entry, ok bool) {
	fresh := from.changes == w.changes
	switch {
	case !fresh && len(got) > 0:
		return got[0], true
	case !fresh:
		return e, false
	case from.level != nil:
		i, _ := w.find(from.level.depth)
		l := &w.passed[i]
		l.more = !all
		if len(got) > 0 {
			_, l.seq = got[len(got)-1].Place()
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

// extend moves the end.
func (w *window) extend(got []store.Entry) {
	w.entries = got
	for _, e := range got {
		depth, seq := e.Place()
		if w.end != nil && depth > w.depth {
			if len(w.passed) == maxLevels { // the least is the least likely to come again
				w.passed = slices.Delete(w.passed, 0, 1)
			}
			w.passed = append(w.passed, level{depth: w.depth, seq: w.seq})
		}
		w.end, w.depth, w.seq = e.Key, depth, seq
	}
}

// entry returns the entry of a job that take has given out, or
// store.ErrNotFound if the host's queue is empty.
func (f *Frontier) entry(j Job) (store.Entry, error) {
	for {
		f.mu.Lock()
		e, doubt, from, ok := j.host.window.next()
		room := maxAhead / max(len(f.hosts), 1)
		f.mu.Unlock()
		var err error
		if doubt {
			err = f.cfg.DB.View(func(tx *store.Tx) (err error) {
				ok, err = tx.Queued(e)
				return err
			})
		}
		if err != nil {
			return e, fmt.Errorf("frontier: next of %s: %w", j.Host, err)
		}
		if ok {
			return e, nil
		}
		if doubt {
			continue
		}
		got, all, err := f.read(j.Host, from, room)
		if err != nil {
			return e, fmt.Errorf("frontier: next of %s: %w", j.Host, err)
		}
		f.mu.Lock()
		e, ok = j.host.window.fill(from, got, all)
		f.mu.Unlock()
		if ok {
			return e, nil
		}
		if from.after == nil {
			return e, store.ErrNotFound
		}
	}
}

// read returns the next entries of a host's queue from a place on, about as
// many as there is room for, one at least; all says that there are no more.
func (f *Frontier) read(host string, from place, room int) (got []store.Entry, all bool, err error) {
	all = true
	add := func(e store.Entry) (bool, error) {
		got = append(got, e)
		room -= len(e.URL) + len(e.Key) + entrySize
		all = room > 0 && len(got) < mostAhead
		return all, nil
	}
	err = f.cfg.DB.View(func(tx *store.Tx) error {
		if from.level != nil {
			return tx.QueueOf(host, from.level.depth, from.level.seq, add)
		}
		return tx.Queue(host, from.after, add)
	})
	return got, all, err
}
