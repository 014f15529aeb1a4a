package wan

import (
	"sync"
	"time"
)

// deadline is a point in time that can be waited for, and changed during the wait. The
// zero deadline never passes. It is safe for concurrent use.
type deadline struct {
	mu    sync.Mutex
	timer *time.Timer
	turn  int           // number of calls of set, to ignore timers of earlier ones
	done  chan struct{} // closed when the deadline has passed
}

// set sets the deadline to t; the zero time means never.
func (d *deadline) set(t time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.turn++
	if d.timer != nil {
		d.timer.Stop()
		d.timer = nil
	}
	over := d.isOver()
	wait := time.Until(t)
	if !t.IsZero() && wait <= 0 {
		if !over {
			close(d.channel())
		}
		return
	}
	if over {
		d.done = nil
	}
	if !t.IsZero() {
		turn := d.turn
		d.timer = time.AfterFunc(wait, func() { d.fire(turn) })
	}
}

func (d *deadline) fire(turn int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if turn == d.turn {
		close(d.channel())
	}
}

// passed returns a channel that is closed when the deadline has passed.
func (d *deadline) passed() <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.channel()
}

// channel returns the channel, which it creates when first needed. d.mu is held.
func (d *deadline) channel() chan struct{} {
	if d.done == nil {
		d.done = make(chan struct{})
	}
	return d.done
}

func (d *deadline) isOver() bool {
	select {
	case <-d.channel():
		return true
	default:
		return false
	}
}
