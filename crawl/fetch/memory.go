package fetch

import (
	"context"
	"sync/atomic"

	"golang.org/x/sync/semaphore"
)

// freeBody is the size of a body up to which no memory is reserved for it: nearly all pages are
// smaller.
const freeBody = 256 << 10

// memory limits what all bodies in progress and in use need together, apart from freeBody bytes of
// each. A nil memory has no limit.
type memory struct {
	max     int64
	sem     *semaphore.Weighted
	waiting atomic.Int64 // bodies
}

// newMemory returns a limit of max bytes; nil if max is 0.
func newMemory(limit int64) *memory {
	if limit == 0 {
		return nil
	}
	return &memory{max: limit, sem: semaphore.NewWeighted(limit)}
}

// reservation is the memory that one body holds. It is made at once for the largest size that the
// body may have, so that two bodies never wait for each other.
type reservation struct {
	memory *memory
	ctx    context.Context
	size   int64 // to reserve
	wait   *progress

	held atomic.Int64
}

// acquire waits for the memory of a body, unless it is held already. It fails when the request
// ends.
func (r *reservation) acquire() error {
	if r.memory == nil || r.held.Load() > 0 {
		return nil
	}
	n := min(r.size, r.memory.max) // a body that needs all memory gets it when no other is in use
	if !r.memory.sem.TryAcquire(n) {
		r.memory.waiting.Add(1)
		defer r.memory.waiting.Add(-1)
		r.wait.wait()
		defer r.wait.resume()
		if err := r.memory.sem.Acquire(r.ctx, n); err != nil {
			return err
		}
	}
	r.held.Store(n)
	r.wait.hold(r.memory)
	return nil
}

// release returns the memory. A second call does nothing.
func (r *reservation) release() {
	if n := r.held.Swap(0); n > 0 {
		r.memory.sem.Release(n)
	}
}
