package forward

import (
	"context"
	"time"
)

// The kinds of work, each with places of its own: names that nobody answers
// for hold up no batch, and owners that do not answer no others.
const (
	names = iota
	batches
	retries
	claims
	refreshes
	trials // of a store that was full
	kinds
)

// places is how much of each kind may be under way.
var places = [kinds]int{names: 32, batches: 24, retries: 8, claims: 16, refreshes: 8, trials: 1}

// task is one piece of work that is due. Its error is one of the store.
type task struct {
	kind int
	run  func(context.Context) error
}

// due returns what is to be done now, as far as there are places, having
// marked it as begun, and how long nothing else will be due.
func (f *Forwarder) due(now time.Time) (tasks []task, next time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	begin := func(kind int, take func() func(context.Context) error) {
		for f.running[kind] < places[kind] {
			run := take()
			if run == nil {
				return
			}
			f.running[kind]++
			tasks = append(tasks, task{kind, run})
		}
	}
	begin(refreshes, func() func(context.Context) error {
		owner, p, ok := f.book.doubted(now)
		if !ok {
			return nil
		}
		return func(ctx context.Context) error { f.refresh(ctx, owner, p); return nil }
	})
	f.book.tidy(now)
	free := func(kind int) bool { return f.running[kind] < places[kind] }
	if f.full.on {
		begin(trials, func() func(context.Context) error {
			if now.Before(f.full.next) {
				return nil
			}
			return f.tryDisk
		})
		next = max(f.full.next.Sub(now), f.cfg.Retry)
	} else {
		f.move(now, begin)
		next = f.book.until(now, free(names), free(batches), free(retries), free(claims))
	}
	if free(refreshes) {
		next = f.book.untilDoubt(now, next)
	}
	return tasks, next
}

// move begins all that ends with a write, as far as it is due. f.mu is held.
func (f *Forwarder) move(now time.Time, begin func(kind int, take func() func(context.Context) error)) {
	begin(names, func() func(context.Context) error {
		e := f.book.lookup(now)
		if e == nil {
			return nil
		}
		return func(ctx context.Context) error { return f.resolve(ctx, e) }
	})
	for kind, line := range map[int]*timeline[*lot]{batches: &f.book.batches, retries: &f.book.retries} {
		begin(kind, func() func(context.Context) error {
			p, ok := f.book.parcel(line, now)
			if !ok {
				return nil
			}
			return func(ctx context.Context) error { return f.send(ctx, p) }
		})
	}
	begin(claims, func() func(context.Context) error {
		p, ok := f.book.claim(now)
		if !ok {
			return nil
		}
		return func(ctx context.Context) error { f.claim(ctx, p); return nil }
	})
}
