package owner

import (
	"context"
	"maps"
	"net/netip"
	"sync"
	"time"

	"peerd/internal/backoff"
)

// queue holds subnets with which something is to be done: each by one task at a time, and again
// after a failure with increasing delays. It is safe for concurrent use. Its mutex comes before
// that of the table.
type queue[T any] struct {
	most          int           // entries; more are not added. 0: no limit
	atOnce        int           // tasks
	wait, waitMax time.Duration // after a failure; it doubles
	cooldown      time.Duration // until a subnet may be added again after its task

	mu      sync.Mutex
	entries map[netip.Prefix]*entry[T]
}

// entryState is the state of an entry of a queue.
type entryState uint8

const (
	entryWaits entryState = iota // until its time
	entryBusy                    // a task is at work
	entryDone                    // nothing is to be done; forgotten at its time
)

// entry is what is known of a subnet in a queue.
type entry[T any] struct {
	about T
	state entryState
	fails int
	next  time.Time // not before
}

// verdict says what becomes of an entry that is due.
type verdict uint8

const (
	skip   verdict = iota // it is not to be begun yet
	begin                 // it becomes busy
	forget                // it is deleted
)

// add adds a subnet that is not there, unless there are too many; it is begun at next.
func (q *queue[T]) add(p netip.Prefix, next time.Time, about T) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.entries[p] != nil || q.most > 0 && len(q.entries) >= q.most {
		return
	}
	if q.entries == nil {
		q.entries = map[netip.Prefix]*entry[T]{}
	}
	q.entries[p] = &entry[T]{about: about, next: next}
}

// change calls fn with the entry of a subnet, if there is one, and reports whether there is.
func (q *queue[T]) change(p netip.Prefix, fn func(*entry[T])) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	e := q.entries[p]
	if e != nil {
		fn(e)
	}
	return e != nil
}

// get returns a copy of the entry of a subnet.
func (q *queue[T]) get(p netip.Prefix) (e entry[T], ok bool) {
	ok = q.change(p, func(is *entry[T]) { e = *is })
	return e, ok
}

// size returns the number of entries, those for which nothing is to be done included.
func (q *queue[T]) size() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.entries)
}

// count returns how many entries fit, those for which nothing is to be done included.
func (q *queue[T]) count(fit func(T) bool) (n int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, e := range q.entries {
		if fit(e.about) {
			n++
		}
	}
	return n
}

// busy returns how many entries are busy.
func (q *queue[T]) busy() (n int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, e := range q.entries {
		if e.state == entryBusy {
			n++
		}
	}
	return n
}

// due calls pick for each entry that waits and is due, in no order, and marks those as busy for
// which it says so. pick must not call the queue.
func (q *queue[T]) due(now time.Time, pick func(netip.Prefix, *entry[T]) verdict) {
	q.mu.Lock()
	defer q.mu.Unlock()
	maps.DeleteFunc(q.entries, func(p netip.Prefix, e *entry[T]) bool {
		if e.state == entryBusy || now.Before(e.next) {
			return false
		}
		return e.state == entryDone || e.decide(pick(p, e))
	})
}

// begin is due for one subnet; it reports whether the entry is busy now.
func (q *queue[T]) begin(p netip.Prefix, now time.Time, pick func(T) verdict) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	e := q.entries[p]
	if e == nil || e.state != entryWaits || now.Before(e.next) {
		return false
	}
	if e.decide(pick(e.about)) {
		delete(q.entries, p)
	}
	return e.state == entryBusy
}

// decide does what a verdict says and reports whether the entry is to be deleted.
func (e *entry[T]) decide(v verdict) bool {
	if v == begin {
		e.state = entryBusy
	}
	return v == forget
}

// done ends the task of a subnet for which nothing is to be done any more.
func (q *queue[T]) done(p netip.Prefix) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.entries, p)
}

// rest is done for a subnet that must not be added again for the cooldown.
func (q *queue[T]) rest(p netip.Prefix, now time.Time) {
	q.change(p, func(e *entry[T]) { e.state, e.next = entryDone, now.Add(q.cooldown) })
}

// tasks returns what does the entries that are due and wanted, some at once; the others are
// forgotten. Without wanted all are. An entry for which do returns an error is done again.
func (q *queue[T]) tasks(
	e *env, now time.Time, wanted func(netip.Prefix) bool,
	do func(context.Context, netip.Prefix, T) error,
) (tasks []func(context.Context)) {
	free := q.atOnce - q.busy()
	q.due(now, func(p netip.Prefix, is *entry[T]) verdict {
		switch {
		case free == 0:
			return skip
		case wanted != nil && !wanted(p):
			return forget
		}
		free--
		about := is.about
		tasks = append(tasks, func(ctx context.Context) {
			switch err := do(ctx, p, about); {
			case err != nil:
				q.fail(p, time.Now())
			case q.cooldown > 0:
				q.rest(p, time.Now())
			default:
				q.done(p)
			}
			e.wake()
		})
		return begin
	})
	return tasks
}

// fail ends a task that has to be done again.
func (q *queue[T]) fail(p netip.Prefix, now time.Time) {
	q.change(p, func(e *entry[T]) {
		e.state = entryWaits
		e.next = now.Add(backoff.Jitter(backoff.Double(q.wait, q.waitMax, e.fails)))
		e.fails++
	})
}
