package feed

import (
	"sync"
	"time"
)

// turn is shared by collectors: one of them at a time has the archive read, and then none for as
// long as that took. So they take at most half of a processor and of a disk, also those that ask
// for what does not exist. The collectors that want all have one of their own, so that they do not
// wait for those that want a part. The zero value is ready.
type turn struct {
	mu      sync.Mutex
	reading bool
	began   time.Time // reading: when it began
	until   time.Time // otherwise: the end of the rest
}

// take begins to read if no other collector does and the rest is over, and reports whether it did.
func (t *turn) take() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	if t.reading || now.Before(t.until) {
		return false
	}
	t.reading, t.began = true, now
	return true
}

// end ends what take began.
func (t *turn) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	t.reading, t.until = false, now.Add(now.Sub(t.began))
}
