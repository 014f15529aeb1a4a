package frontier

import (
	"fmt"
	"slices"

	"peerd/store"
)

// turns are the queues of a host, one for each finder of its URLs. They take turns, so that many
// URLs of one finder do not delay those of others: with n finders each gets a share of one nth.
// What was deferred comes when no finder has anything else.
type turns struct {
	known   bool // finders has all that have entries
	finders []*finder
}

// finder is a peer that found URLs of a host; some may share a number. Guarded by Frontier.mu.
type finder struct {
	number  int
	waiting bool // it may have entries
	pushes  int  // times that it may have got some
	window  window
	credit  float64
	missing float64 // share of the URLs fetched last that do not exist
}

const (
	// deferred is the number under which deferred entries are kept.
	deferred = store.DeferredPlace / store.FinderPlaces
	// missingLast is over about how many URLs finder.missing is an average.
	missingLast = 16
	// lowShare is the share of a finder that finds more URLs that do not exist than others,
	// where that of others is 1.
	lowShare = 0.25
)

// finderOf returns the number of the finder of an entry that was read from the queue.
func finderOf(e store.Entry) int {
	place, _ := e.Position()
	return place / store.FinderPlaces
}

// share returns the part of the turns that a finder gets. This peer itself finds only what pages
// link to.
func (q *finder) share() float64 {
	if q.number != 0 && q.missing > 0.5 {
		return lowShare
	}
	return 1
}

// of returns the finder with a number.
func (t *turns) of(number int) *finder {
	i, ok := slices.BinarySearchFunc(t.finders, number, func(q *finder, n int) int {
		return q.number - n
	})
	if !ok {
		t.finders = slices.Insert(t.finders, i, &finder{number: number})
	}
	return t.finders[i]
}

// got records that a finder may have an entry that it had not before.
func (q *finder) got() {
	q.waiting = true
	q.pushes++
}

// pushed records a new entry at a place.
func (t *turns) pushed(place int) {
	q := t.of(place / store.FinderPlaces)
	q.got()
	q.window.pushed(place)
}

// putBack returns the entry that was removed last. If moved is set, the holder may have moved it.
func (t *turns) putBack(e store.Entry, moved bool) {
	q := t.of(finderOf(e))
	q.got()
	q.window.putBack(e, moved)
	if moved {
		t.pushed(store.RetryPlace)
	}
}

// reset discards what was read.
func (t *turns) reset() {
	t.known = false
	for _, q := range t.finders {
		q.waiting = false
		q.window.reset()
	}
}

// waiting returns the number of finders that may have entries.
func (t *turns) waiting() (n int) {
	for _, q := range t.finders {
		if q.waiting {
			n++
		}
	}
	return n
}

// next returns the finder that is next; nil if none is known to have entries. Each earns
// credit in proportion to its share.
func (t *turns) next() (best *finder) {
	sum := 0.0
	for _, q := range t.finders {
		switch {
		case !q.waiting:
			q.credit = 0
			continue
		case q.number == deferred:
			if best == nil {
				best = q // the last one
			}
			continue
		}
		q.credit += q.share()
		sum += q.share()
		if best == nil || q.credit > best.credit {
			best = q
		}
	}
	if best != nil {
		best.credit -= sum
	}
	return best
}

// Answered records that the site has answered the request of a job, and whether the page does not
// exist. A finder of which most URLs do not exist gets fewer turns.
func (f *Frontier) Answered(j Job, missing bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	q, now := j.host.turns.of(finderOf(j.Entry)), 0.0
	if missing {
		now = 1
	}
	q.missing += (now - q.missing) / missingLast
}

// entry returns the entry of a job that take has returned, or store.ErrNotFound if the
// host's queue is empty.
func (f *Frontier) entry(j Job) (store.Entry, error) {
	for searched := false; ; {
		f.mu.Lock()
		var q *finder
		pushes := 0
		if j.host.turns.known {
			if q = j.host.turns.next(); q != nil {
				pushes = q.pushes
			}
		}
		f.mu.Unlock()
		switch {
		case q == nil && searched:
			return store.Entry{}, store.ErrNotFound
		case q == nil:
			searched = true
			if err := f.findFinders(j.host); err != nil {
				return store.Entry{}, fmt.Errorf("frontier: finders of %s: %w", j.Host, err)
			}
			continue
		}
		e, ok, err := f.entryOf(j.host, q)
		if err != nil {
			return e, fmt.Errorf("frontier: next of %s: %w", j.Host, err)
		}
		if ok {
			return e, nil
		}
		f.mu.Lock()
		q.waiting = q.pushes != pushes
		f.mu.Unlock()
	}
}

// findFinders finds out which finders of a host have entries.
func (f *Frontier) findFinders(h *host) error {
	var found []int
	err := f.cfg.DB.View(func(tx *store.Tx) error {
		for next := 0; next <= deferred; {
			n := deferred + 1
			err := tx.QueueFrom(h.name, next*store.FinderPlaces,
				func(e store.Entry) (bool, error) {
					n = finderOf(e)
					found = append(found, n)
					return false, nil
				})
			if err != nil {
				return err
			}
			next = n + 1
		}
		return nil
	})
	f.mu.Lock()
	defer f.mu.Unlock()
	h.turns.known = err == nil
	for _, n := range found {
		h.turns.of(n).got()
	}
	return err
}
