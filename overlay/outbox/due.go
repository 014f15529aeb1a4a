package outbox

import (
	"context"
	"time"
)

// Kinds of work. Each has a limit of its own, so that failing name lookups do not delay
// batches, and owners that do not answer do not delay others.
const (
	names = iota
	batches
	retries
	claims
	refreshes
	probes // of a full store
	numKinds
)

// maxRunning is how many tasks of each kind may run concurrently. Lookups and claims mostly wait:
// for name servers, and for rival records (Settle in overlay/record). How many of them read
// and write records at the same time is limited there, and queries in crawl/resolve.
var maxRunning = [numKinds]int{
	names: 384, batches: 24, retries: 8, claims: 384, refreshes: 8, probes: 1,
}

// offlinePause is how long nothing is started while the network is down, unless RetryNow is
// called.
const offlinePause = time.Second

// A task returns only errors of the store.
type task func(context.Context) error

// due returns the tasks to start now, within the limits, and the time until the next one is
// due. It marks the tasks as started.
func (f *Forwarder) due(now time.Time) (tasks []task, next time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.cfg.Node.Online() {
		return nil, offlinePause
	}
	start := func(kind int, take func() task) {
		for f.running[kind] < maxRunning[kind] {
			run := take()
			if run == nil {
				return
			}
			f.running[kind]++
			tasks = append(tasks, func(ctx context.Context) error {
				err := run(ctx)
				f.withTable(func(*hostTable) { f.running[kind]-- })
				return err
			})
		}
	}
	start(refreshes, func() task {
		d, ok := f.table.reads.next(f.table.outboxes, now)
		if !ok {
			return nil
		}
		return func(ctx context.Context) error { f.refreshOwner(ctx, d); return nil }
	})
	f.table.evictIdle(now)
	free := func(kind int) bool { return f.running[kind] < maxRunning[kind] }
	if probeAt, full := f.space.full(); full {
		start(probes, func() task {
			if now.Before(probeAt) {
				return nil
			}
			return f.space.probe
		})
		next = max(probeAt.Sub(now), f.cfg.Retry)
	} else {
		f.beginWrites(now, start)
		next = f.table.untilDue(now, free(names), free(batches), free(retries), free(claims))
	}
	if free(refreshes) {
		next = f.table.reads.until(now, next)
	}
	return tasks, next
}

// beginWrites starts the due tasks that end with a write to the store. f.mu is held.
func (f *Forwarder) beginWrites(
	now time.Time, start func(kind int, take func() task),
) {
	start(names, func() task {
		e := f.table.nextLookup(now)
		if e == nil {
			return nil
		}
		return func(ctx context.Context) error { return f.resolve(ctx, e) }
	})
	for kind, line := range map[int]*timeline[*hostQueue]{
		batches: &f.table.batches, retries: &f.table.retries,
	} {
		start(kind, func() task {
			p, ok := f.table.nextBatch(line, now)
			if !ok {
				return nil
			}
			return func(ctx context.Context) error { return f.send(ctx, p) }
		})
	}
	start(claims, func() task {
		p, ok := f.table.nextClaim(now)
		if !ok {
			return nil
		}
		return func(ctx context.Context) error { f.claim(ctx, p); return nil }
	})
}
