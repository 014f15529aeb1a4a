package fetch

import (
	"context"
	"sync/atomic"
	"time"
)

// pace ends a body that drips: one of which less than Config.MinRate comes in
// any window of Config.RateWindow. Without it a server could hold a connection
// for all of Config.TotalTimeout at the price of a few bytes.
type pace struct {
	moved  *atomic.Int64
	least  int64 // bytes per window
	window time.Duration
	cancel context.CancelFunc

	timer *time.Timer
	last  int64 // moved at the end of the window before; the timer's
	slow  atomic.Bool
}

// watch begins the first window of a body that moved counts. A minRate of zero
// is no demand; then it returns nil.
func (f *Fetcher) watch(moved *atomic.Int64, cancel context.CancelFunc) *pace {
	if f.cfg.MinRate <= 0 {
		return nil
	}
	p := &pace{moved: moved, window: f.cfg.RateWindow, cancel: cancel}
	p.least = int64(float64(f.cfg.MinRate) * p.window.Seconds())
	p.timer = time.AfterFunc(p.window, p.check)
	return p
}

// check ends one window.
func (p *pace) check() {
	n := p.moved.Load()
	if n-p.last < p.least {
		p.slow.Store(true)
		p.cancel()
		return
	}
	p.last = n
	p.timer.Reset(p.window)
}

// stop ends the watch and says whether the body was too slow. A window that
// ends just now may set the timer once more; what it then cancels is over.
func (p *pace) stop() (slow bool) {
	if p == nil {
		return false
	}
	p.timer.Stop()
	return p.slow.Load()
}
