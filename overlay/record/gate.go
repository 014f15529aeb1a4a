package record

import (
	"context"
	"time"

	"golang.org/x/sync/semaphore"

	"peerd/internal/backoff"
)

// Turn is the place of one writer among those that read and write records at the same time.
// Their number is bounded, so that they do not slow each other down: a writer must be much
// faster than the wait in Settle. A writer that waits to read back has no place. A nil Turn is
// of a writer that is not bounded. It is not safe for concurrent use.
type Turn struct {
	gate    *semaphore.Weighted
	inside  bool
	entered time.Time
}

// enter waits for a place. The error is the cause of the end of ctx.
func (t *Turn) enter(ctx context.Context) error {
	if t.gate.Acquire(ctx, 1) != nil {
		return context.Cause(ctx)
	}
	t.inside, t.entered = true, time.Now()
	return nil
}

// late reports whether more than d has passed since the writer entered. A nil Turn is never late.
func (t *Turn) late(d time.Duration) bool { return t != nil && time.Since(t.entered) > d }

// Leave gives the place to another writer. A second call does nothing.
func (t *Turn) Leave() {
	if t != nil && t.inside {
		t.inside = false
		t.gate.Release(1)
	}
}

// pause leaves, waits for d, and enters again. The error is the cause of the end of ctx.
func (t *Turn) pause(ctx context.Context, d time.Duration) error {
	t.Leave()
	if backoff.Sleep(ctx, d) != nil {
		return context.Cause(ctx)
	}
	if t == nil {
		return nil
	}
	return t.enter(ctx)
}
