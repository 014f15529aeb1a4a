// Package clock tells the time to what dates records and checks the dates of others, so that a
// simulation can give every peer a clock that is wrong. It also has what package time lacks to
// compare times. It imports nothing of this module.
package clock

import "time"

// A Clock tells the time. The zero Clock is that of the system.
type Clock struct{ now func() time.Time }

// Of returns a Clock that tells what now returns, which may be called concurrently. Nil is
// time.Now.
func Of(now func() time.Time) Clock { return Clock{now} }

// Now returns the current time.
func (c Clock) Now() time.Time {
	if c.now == nil {
		return time.Now()
	}
	return c.now()
}

// Elapsed returns the time from then to now by the clock that shows more: the monotonic clock
// stands still while a machine sleeps, and the wall clock may be set back.
func Elapsed(now, then time.Time) time.Duration {
	return max(now.Sub(then), now.Round(0).Sub(then.Round(0)))
}

// Later returns the later of two times.
func Later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}
