// Package backoff computes the time until something is tried again, and waits. It imports nothing
// of this module.
package backoff

import (
	"context"
	"math/rand/v2"
	"time"
)

// Double returns first, doubled n times, but at most longest. It does not overflow.
func Double(first, longest time.Duration, n int) time.Duration {
	for ; n > 0 && 0 < first && first < longest; n-- {
		first += min(first, longest-first)
	}
	return min(first, longest)
}

// Jitter returns a random duration of 75 to 125 % of d, so that peers that were started or
// interrupted together do not act together. d must not be negative.
func Jitter(d time.Duration) time.Duration { return d - d/4 + rand.N(d/2+1) }

// Later returns a random duration of 100 to 125 % of d, which must not be negative.
func Later(d time.Duration) time.Duration { return d + rand.N(d/4+1) }

// A Wake ends a Sleep early. It keeps one signal for the next Sleep, or for who else receives it.
type Wake chan struct{}

// NewWake returns a Wake without a signal.
func NewWake() Wake { return make(Wake, 1) }

// Signal ends the Sleep, or the next one. It does not block.
func (w Wake) Signal() {
	select {
	case w <- struct{}{}:
	default: // there is one
	}
}

// Sleep waits until d is over, ctx ends or there is a signal. It returns the error of ctx.
func (w Wake) Sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-w:
	case <-t.C:
	}
	return ctx.Err()
}

// Sleep waits until d is over or ctx ends. It returns the error of ctx.
func Sleep(ctx context.Context, d time.Duration) error { return Wake(nil).Sleep(ctx, d) }
