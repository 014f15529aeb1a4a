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

// Sleep waits until d is over or ctx ends. It returns the error of ctx.
func Sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
	return ctx.Err()
}
