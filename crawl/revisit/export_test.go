package revisit

import "time"

// Interval returns the interval of a page with a known rate of changes per day, within
// [Min, Max].
func (p Policy) Interval(rate float64) time.Duration {
	return p.clamp(p.interval(rate / day))
}
