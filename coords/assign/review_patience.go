package assign

import (
	"errors"
	"fmt"
	"math"
	"time"

	"peerd/coords"
)

// PatienceConfig says when a subnet moves that would be better off elsewhere.
type PatienceConfig struct {
	// Least is the least gain that counts, in (0, 1): the share of the owner's
	// time that a move saves.
	Least float64
	// Clear is the gain that moves a subnet after Hold. A lesser one takes longer, by the
	// square. In [Least, 1).
	Clear float64
	// Hold is how long a clear gain has to last. > 0.
	Hold time.Duration
	// Confirm is how many bouts the better peer must have had with the owner: pages
	// of both at about the same time. >= 1.
	Confirm int
	// Margin is what a move must save to be worth it, a share of the owner's time:
	// the doubt is whether it does. In [0, 1).
	Margin float64
	// Spend is how many needless moves an hour may be expected of a subnet,
	// whatever its page rate and the number of its candidates: each page of a
	// scout can be mistaken once, and is allowed its part. > 0.
	Spend float64
	// Back is the doubt at which a subnet goes back to whom it left within
	// Memory: that one was the better once, and each move is followed by one such
	// chance only. It halves with each further move. In (0, 0.5].
	Back float64
	// Alarm is the doubt at which a subnet leaves an owner that became slow within
	// AlarmLasts: after that somebody is the better one more often than not. It
	// must be rare: an alarm less than AlarmEvery after the one before allows in
	// proportion less. Alarm in (0, 0.5], the others > 0.
	Alarm                  float64
	AlarmLasts, AlarmEvery time.Duration
	// Cost is what a move costs, in time of the subnet: what it saves in Horizon
	// must be as much. >= 0.
	Cost, Horizon time.Duration
	// Rest is how long a subnet stays after a move; each further move within
	// Memory doubles it. >= 0.
	Rest time.Duration
	// Memory is how long a move is remembered. >= 0.
	Memory time.Duration
}

// DefaultPatience returns the parameters of the network. review_sim_test.go has
// what they cost: needless moves, and the time to a needful one.
func DefaultPatience() PatienceConfig {
	return PatienceConfig{
		Least: 0.12, Clear: 0.25, Hold: 30 * time.Second, Confirm: 3, Margin: 0.10, Spend: 0.005, Back: 0.005, Alarm: 0.002,
		AlarmLasts: 5 * time.Minute, AlarmEvery: 20 * time.Minute,
		Cost: 2 * time.Second, Horizon: 10 * time.Minute, Rest: 30 * time.Second, Memory: time.Hour,
	}
}

// Validate names every field that is out of its range.
func (c PatienceConfig) Validate() error {
	var errs []error
	check := func(ok bool, name string, value any, want string) {
		if !ok {
			errs = append(errs, fmt.Errorf("assign: %s is %v, want %s", name, value, want))
		}
	}
	check(c.Least > 0 && c.Least < 1, "Least", c.Least, "in (0, 1)")
	check(c.Clear >= c.Least && c.Clear < 1, "Clear", c.Clear, "in [Least, 1)")
	check(c.Hold > 0, "Hold", c.Hold, "> 0")
	check(c.Confirm >= 1, "Confirm", c.Confirm, ">= 1")
	check(c.Margin >= 0 && c.Margin < 1, "Margin", c.Margin, "in [0, 1)")
	check(c.Spend > 0, "Spend", c.Spend, "> 0")
	check(c.Back > 0 && c.Back <= 0.5, "Back", c.Back, "in (0, 0.5]")
	check(c.Alarm > 0 && c.Alarm <= 0.5, "Alarm", c.Alarm, "in (0, 0.5]")
	check(c.AlarmLasts > 0, "AlarmLasts", c.AlarmLasts, "> 0")
	check(c.AlarmEvery > 0, "AlarmEvery", c.AlarmEvery, "> 0")
	check(c.Cost >= 0, "Cost", c.Cost, ">= 0")
	check(c.Horizon >= 0, "Horizon", c.Horizon, ">= 0")
	check(c.Rest >= 0, "Rest", c.Rest, ">= 0")
	check(c.Memory >= 0, "Memory", c.Memory, ">= 0")
	return errors.Join(errs...)
}

// Patience is how long a subnet has been better off elsewhere. It is a value:
// Consider returns the next one. The zero Patience is at ease.
type Patience struct {
	// Credit is what speaks for a move so far; a move takes Hold of it.
	Credit time.Duration
	// Since is when Credit left zero; zero while nothing speaks for a move.
	Since time.Time
	// Last is when Consider was called last.
	Last time.Time
	// Alarm is when the owner was last found to have become slow, and Quiet how long
	// it was since the time before.
	Alarm time.Time
	Quiet time.Duration
}

// considerMax is the most that the time between two reviews counts.
const considerMax = 10 * time.Second

// Running says whether something speaks for a move.
func (p Patience) Running() bool { return !p.Since.IsZero() }

// Consider takes in a review, made at now of the samples of a subnet that self
// owns. moves are the times of the subnet's earlier moves. It returns the new state, and the peer to
// move to, or "".
//
// What lasts moves it only if the bouts of both peers leave little enough doubt
// (confirmed).
func (p Patience) Consider(c PatienceConfig, self string, r Review, samples []coords.Sample, moves []time.Time, now time.Time) (Patience, string) {
	step := time.Duration(0)
	if !p.Last.IsZero() {
		step = min(max(0, now.Sub(p.Last)), considerMax)
	}
	p.Last = now
	if quiet := now.Sub(p.Alarm); r.Worse && quiet >= c.AlarmLasts {
		p.Alarm, p.Quiet = now, quiet
	}
	if r.Better == "" || r.Gain < c.Least {
		// Twice as fast back: what is better half of the time is not better.
		if p.Credit -= 2 * step; p.Credit <= 0 {
			return Patience{Last: now, Alarm: p.Alarm, Quiet: p.Quiet}, ""
		}
		return p, ""
	}
	if !p.Running() {
		p.Since = now
		return p, ""
	}
	ratio := r.Gain / c.Clear
	p.Credit = min(p.Credit+time.Duration(float64(step)*min(ratio*ratio, 1)), 2*c.Hold)
	if p.Credit < c.Hold || now.Before(c.restsUntil(moves, now)) || !c.confirmed(self, r, samples, moves, p.alarmed(c, now), now) {
		return p, ""
	}
	return p, r.Better
}

// alarmed is the doubt that is allowed by an alarm; 0 without.
func (p Patience) alarmed(c PatienceConfig, now time.Time) float64 {
	if p.Alarm.IsZero() || now.Sub(p.Alarm) >= c.AlarmLasts {
		return 0
	}
	return c.Alarm * min(1, float64(p.Quiet)/float64(c.AlarmEvery))
}

// confirmed says whether so little doubt is left that the better peer saves
// Margin, and enough of it, that the needless moves stay within Spend; or that
// the owner fails where others do not.
func (c PatienceConfig) confirmed(self string, r Review, samples []coords.Sample, moves []time.Time, alarm float64, now time.Time) bool {
	pages := rate(samples, self)
	doubt := c.doubt(pages)
	if downloads(samples, r.Better, now.Add(-boutAge)) >= c.Confirm && failing(samples, self, now) <= doubt {
		return true
	}
	late, last := c.remembered(moves, now)
	if late > 0 && r.Better == former(samples, self, last) {
		doubt = max(doubt, c.Back*math.Exp2(-float64(late-1)))
	}
	doubt = max(doubt, alarm)
	d := c.duelOf(samples, self, r, now)
	if d.doubt > doubt {
		return false
	}
	saved := (1 - math.Exp(-d.lead)) * timeOf(samples, self) * pages * c.Horizon.Hours()
	return saved >= ms(c.Cost)
}

// doubt is what may be left at a move, at so many pages an hour: each may be the
// last word of a comparison if it is a scout's.
func (c PatienceConfig) doubt(pages float64) float64 {
	return min(max(c.Spend/max(scoutShare*pages, 1), doubtLeast), doubtMost)
}

const (
	// scoutShare is about the share of pages that are scouts'.
	scoutShare = 0.03
	// doubtLeast and doubtMost bound the doubt: no model of scatter holds further
	// out, and no bad luck of a first few pages shall do.
	doubtLeast, doubtMost = 1e-5, 5e-4
)

// timeOf is the median time of a peer's last pages, ms, their sizes as they are.
func timeOf(samples []coords.Sample, peer string) float64 {
	var all []weighted
	for i := len(samples) - 1; i >= 0 && len(all) < rateOf; i-- {
		if x := samples[i]; x.Peer == peer && !x.Failed {
			all = append(all, weighted{ms(x.FirstByte + x.Body), 1})
		}
	}
	if len(all) == 0 {
		return 0
	}
	return quantile(all, 0.5)
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
func (c PatienceConfig) remembered(moves []time.Time, now time.Time) (n int, last time.Time) {
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

// restsUntil is the end of the rest after the last of the moves.
func (c PatienceConfig) restsUntil(moves []time.Time, now time.Time) time.Time {
	n, last := c.remembered(moves, now)
	if n == 0 {
		return time.Time{}
	}
	return last.Add(time.Duration(float64(c.Rest) * math.Exp2(float64(min(n-1, 10)))))
}
