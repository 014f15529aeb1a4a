package frontier

import (
	"fmt"

	"peerd/store"
)

// A window is the part of a host's queue that has been read ahead, so that not
// every job is a search on disk among the remains of those before it. The
// queue itself is only written by those who push and by whoever has the host's
// one job; what they do is either behind the window or resets it.
type window struct {
	entries []store.Entry
	after   []byte // key of the last entry read; nil: from the start
	depth   int    // of that entry
	resets  int
	doubt   bool // the first entry may have been moved behind the others
}

const (
	// maxRead is how many entries all windows together hold, about.
	maxRead = 1 << 16
	// A window holds between leastAhead and mostAhead entries.
	leastAhead, mostAhead = 4, 64
)

// reset forgets what was read: the next entry is looked for from the start.
func (w *window) reset() { *w = window{resets: w.resets + 1} }

// pushed tells of a new entry. It belongs behind those of its depth; the window
// is only wrong if it has reached beyond these.
func (w *window) pushed(depth int) {
	if w.after != nil && depth < w.depth {
		w.reset()
	}
}

// next takes out the next entry, if the window holds it.
func (w *window) next() (e store.Entry, ok bool) {
	if len(w.entries) == 0 {
		return e, false
	}
	e, w.entries[0] = w.entries[0], e
	w.entries = w.entries[1:]
	return e, true
}

// back puts the entry taken out last in again. Whoever had it may have moved it
// in the queue, if doubt.
func (w *window) back(e store.Entry, doubt bool) {
	if w.after != nil {
		w.entries = append([]store.Entry{e}, w.entries...)
		w.doubt = doubt
	}
}

// entry returns the entry of a job that take has given out, or
// store.ErrNotFound if the host's queue is empty.
func (f *Frontier) entry(j Job) (store.Entry, error) {
	f.mu.Lock()
	e, ok := j.host.window.next()
	doubt := ok && j.host.window.doubt
	j.host.window.doubt = false
	read := j.host.window
	n := min(max(maxRead/max(len(f.hosts), 1), leastAhead), mostAhead)
	f.mu.Unlock()
	if doubt {
		err := f.cfg.DB.View(func(tx *store.Tx) (err error) {
			ok, err = tx.Queued(e)
			return err
		})
		if err != nil {
			return e, fmt.Errorf("frontier: next of %s: %w", j.Host, err)
		}
		if !ok {
			return f.entry(j)
		}
	}
	if ok {
		return e, nil
	}
	ahead, err := f.read(j.Host, read.after, n)
	if err == nil && len(ahead) == 0 && read.after != nil {
		ahead, err = f.read(j.Host, nil, n) // what was left behind
	}
	if err != nil {
		return e, fmt.Errorf("frontier: next of %s: %w", j.Host, err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	w := &j.host.window
	if len(ahead) == 0 {
		w.reset()
		return e, store.ErrNotFound
	}
	if w.resets == read.resets {
		last := ahead[len(ahead)-1]
		w.entries, w.after, w.depth = ahead[1:], last.Key, last.Depth
	}
	return ahead[0], nil
}

// read returns the next n entries of a host's queue.
func (f *Frontier) read(host string, after []byte, n int) ([]store.Entry, error) {
	var ahead []store.Entry
	err := f.cfg.DB.View(func(tx *store.Tx) error {
		return tx.Queue(host, after, func(e store.Entry) (bool, error) {
			ahead = append(ahead, e)
			return len(ahead) < n, nil
		})
	})
	return ahead, err
}
