package homing

import (
	"context"
	"net/netip"
	"time"
)

const (
	// aliveFor is how long the answer of Alive holds, and aliveNames how many names
	// are tried for it.
	aliveFor   = 5 * time.Second
	aliveNames = 3
)

// Alive says whether names can be looked up at all: one of some hosts of ours, which
// were looked up before. Without any host there is no telling, and it is true.
func (w *Watch) Alive(ctx context.Context) bool {
	if w.frontier == nil {
		return true
	}
	w.mu.Lock()
	known, alive := time.Since(w.aliveAt) < aliveFor, w.alive
	w.mu.Unlock()
	if known {
		return alive
	}
	alive = true
	for _, name := range w.frontier.Some(aliveNames) {
		if _, err := netip.ParseAddr(name); err == nil {
			continue
		}
		_, err := w.cfg.Look(ctx, name)
		if alive = err == nil; alive {
			break
		}
	}
	if ctx.Err() == nil {
		w.mu.Lock()
		w.aliveAt, w.alive = time.Now(), alive
		w.mu.Unlock()
	}
	return alive
}
