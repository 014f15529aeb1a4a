package assign

import (
	"errors"
	"fmt"
	"math"
	"time"

	"peerd/coords"
)

// MoveConfig defines when a subnet moves to a better peer.
type MoveConfig struct {
	// Clear is the gain, the share of the owner's time that a move saves, that moves a subnet
	// after Hold. A smaller one takes longer, by the square. In [Margin, 1).
	Clear float64
	// Hold is the time that a clear gain has to last. > 0.
	Hold time.Duration
	// Confirm is the number of windows in which the better peer must have been compared with
	// the owner. >= 1.
	Confirm int
	// Margin is the share of the owner's time that a move must save, and the least gain that is
	// used: the p-value is the probability that it does not. In [0, 1).
	Margin float64
	// Spend is the error budget: the expected number of needless moves per hour and subnet,
	// whatever its page rate and the number of its candidates. Each page of a scout is
	// allowed its part. A subnet returns to the peer that it left within Memory if the p-value
	// is what may be spent in Memory: that peer was the better one before, and each move allows
	// only one return. That halves with each further move. > 0.
	Spend float64
	// AlarmLasts is the time after the owner became slow in which a subnet leaves it at a
	// larger p-value, as another peer is usually better then: what may be spent in the time since
	// the alarm before, twice longAgo at most. > 0.
	AlarmLasts time.Duration
	// Cooldown is the time that a subnet stays after a move; each further move within Memory
	// doubles it. >= 0.
	Cooldown time.Duration
	// Memory is the time for which a move is remembered. >= 0.
	Memory time.Duration
}

// DefaultMoveConfig returns the parameters of the network. review_sim_test.go measures
// their cost: needless moves, and the time to a useful one.
func DefaultMoveConfig() MoveConfig {
	return MoveConfig{
		Clear: worseLeast, Hold: spell, Confirm: changeSlow, Margin: reviewEqual, Spend: 0.005,
		AlarmLasts: worseAge, Cooldown: spell, Memory: time.Hour,
	}
}

// Validate returns an error that names every field that is out of range.
func (c MoveConfig) Validate() error {
	var errs []error
	check := func(ok bool, name string, value any, want string) {
		if !ok {
			errs = append(errs, fmt.Errorf("assign: %s is %v, want %s", name, value, want))
		}
	}
	check(c.Clear >= c.Margin && c.Clear < 1, "Clear", c.Clear, "in [Margin, 1)")
	check(c.Hold > 0, "Hold", c.Hold, "> 0")
	check(c.Confirm >= 1, "Confirm", c.Confirm, ">= 1")
	check(c.Margin >= 0 && c.Margin < 1, "Margin", c.Margin, "in [0, 1)")
	check(c.Spend > 0, "Spend", c.Spend, "> 0")
	check(c.AlarmLasts > 0, "AlarmLasts", c.AlarmLasts, "> 0")
	check(c.Cooldown >= 0, "Cooldown", c.Cooldown, ">= 0")
	check(c.Memory >= 0, "Memory", c.Memory, ">= 0")
	return errors.Join(errs...)
}

// MoveState is the accumulated evidence for a move. It is a value: Consider returns the
// next one. The zero MoveState has no evidence.
type MoveState struct {
	// Credit is the evidence for a move so far; a move requires Hold.
	Credit time.Duration
	// Since is the time at which Credit left zero; zero without evidence.
	Since time.Time
	// Last is the time of the last call of Consider.
	Last time.Time
	// Alarm is the time at which the owner was last found to have become slow, and
	// SinceAlarm the time between that and the previous alarm.
	Alarm      time.Time
	SinceAlarm time.Duration
}

// Running reports whether there is evidence for a move.
func (p MoveState) Running() bool { return !p.Since.IsZero() }

// Consider processes a review, made at now from the samples of a subnet that self owns.
// moves are the times of the subnet's earlier moves. It returns the new state and the
// peer to move to, or "".
//
// A lasting gain moves the subnet only if the comparison of both peers confirms it.
func (p MoveState) Consider(
	c MoveConfig, self string, r Review, samples []coords.Sample, moves []time.Time, now time.Time,
) (MoveState, string) {
	step := time.Duration(0)
	if !p.Last.IsZero() {
		step = min(max(0, now.Sub(p.Last)), windowNear)
	}
	p.Last = now
	if quiet := now.Sub(p.Alarm); r.Worse && quiet >= c.AlarmLasts {
		p.Alarm, p.SinceAlarm = now, quiet
	}
	if r.Better == "" || r.Gain < c.Margin {
		// Twice as fast back: a peer that is better half of the time is not better.
		if p.Credit -= 2 * step; p.Credit <= 0 {
			return MoveState{Last: now, Alarm: p.Alarm, SinceAlarm: p.SinceAlarm}, ""
		}
		return p, ""
	}
	if !p.Running() {
		p.Since = now
		return p, ""
	}
	ratio := r.Gain / c.Clear
	p.Credit = min(p.Credit+time.Duration(float64(step)*min(ratio*ratio, 1)), 2*c.Hold)
	if p.Credit < c.Hold || now.Before(c.cooldownEnd(moves, now)) || !c.confirmed(self, r, samples,
		moves, p.alarmed(c, now), now) {
		return p, ""
	}
	return p, r.Better
}

// alarmed returns the p-value allowed by an alarm; 0 without.
func (p MoveState) alarmed(c MoveConfig, now time.Time) float64 {
	if p.Alarm.IsZero() || now.Sub(p.Alarm) >= c.AlarmLasts {
		return 0
	}
	return c.Spend * min(p.SinceAlarm, 2*longAgo).Hours()
}

// confirmed reports whether the p-value for saving Margin is small enough that needless
// moves stay within Spend, or whether the owner fails where others do not.
func (c MoveConfig) confirmed(
	self string, r Review, samples []coords.Sample, moves []time.Time, alarm float64, now time.Time,
) bool {
	// Every page of a scout may complete a comparison.
	allowed := c.Spend / max(scoutShare*rate(samples, self), 1)
	if downloads(samples, r.Better, now.Add(-freshAge)) >= c.Confirm &&
		failing(samples, self, now) <= allowed {
		return true
	}
	late, last := c.remembered(moves, now)
	if late > 0 && r.Better == former(samples, self, last) {
		allowed = max(allowed, c.Spend*c.Memory.Hours()*math.Exp2(-float64(late-1)))
	}
	allowed = max(allowed, alarm)
	return c.compare(samples, self, r, now) <= allowed
}

// downloads counts the successful downloads of a peer since a time.
func downloads(samples []coords.Sample, peer string, since time.Time) int {
	n := 0
	for _, x := range samples {
		if x.Peer == peer && !x.Failed && !x.Taken.Before(since) {
			n++
		}
	}
	return n
}

// remembered counts the moves within Memory, and returns the last.
func (c MoveConfig) remembered(moves []time.Time, now time.Time) (n int, last time.Time) {
	for _, at := range moves {
		if now.Sub(at) > c.Memory {
			continue
		}
		if n++; at.After(last) {
			last = at
		}
	}
	return n, last
}

// cooldownEnd returns the end of the cooldown after the last of the moves.
func (c MoveConfig) cooldownEnd(moves []time.Time, now time.Time) time.Time {
	n, last := c.remembered(moves, now)
	if n == 0 {
		return time.Time{}
	}
	return last.Add(time.Duration(float64(c.Cooldown) * math.Exp2(float64(min(n-1, 10)))))
}
