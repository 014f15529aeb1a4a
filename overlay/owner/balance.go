package owner

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"net/netip"
	"slices"
	"time"

	"peerd/coords/assign"
)

// PlainPages is what a plain peer fetches, pages a day: at some 100 kB each it is
// what 10 Mbit/s carry. The unit of capacities in beacons.
const PlainPages = 1e6

// Limits are how much a peer wants to do.
type Limits struct {
	// Pages is how many it fetches a day; 0 is no bound.
	Pages float64
	// Closed says that its working hours are over, or nearly so: it takes nothing
	// in and gives away what has work.
	Closed bool
}

const (
	// measureEvery is the time between two looks at what there is to do,
	// and closedEvery that while the hours are over, for what has work to leave soon.
	measureEvery = 15 * time.Second
	closedEvery  = 2 * time.Second
	// smoothing is the time constant of the load's mean, and overFor how long that
	// must have been above the bound for subnets to be given away.
	smoothing = 5 * time.Minute
	overFor   = 5 * time.Minute
	// relieveGap is the time between two subnets that are given away for load, and
	// loadRest how long such a one neither comes back nor goes on for load.
	relieveGap = time.Minute
	loadRest   = 30 * time.Minute
	// settles is how long what was given may be missing in the room that its new
	// owner announces.
	settles = 5 * time.Minute
	// An overloaded peer gives until relieved of its bound is left. Others offer the
	// room up to fillTo of theirs, so that what is given overloads nobody.
	relieved = 0.9
	fillTo   = 0.8
	// takenFor is how long an offer that was accepted once is not refused for load:
	// it may have been granted since.
	takenFor = time.Hour
)

var (
	errClosed = errors.New("owner: outside the working hours, or nearly; no subnets are taken")
	errFull   = errors.New("owner: no capacity left for another subnet")
	errRests  = errors.New("owner: the subnet was given away for overload a short time ago")
)

// balancer decides when a peer has too much, and what goes. It knows no clock and
// talks to nobody; loads are pages a day.
//
//	        load above the bound for overFor
//	(fits) -------------------------------> (relieving: one subnet a minute)
//	   ^------- load below relieved of it -------'
type balancer struct {
	limits   Limits
	load     float64   // smoothed
	raw      float64   // at the last look, and what was taken since
	subnets  int       // of which raw is
	at       time.Time // of the last look; zero: none
	over     time.Time // since when load is above the bound; zero: it is not
	relieves bool
	last     time.Time                  // when the last subnet was given
	given    []gift                     // of the last settles
	rests    map[netip.Prefix]time.Time // when those were given away that must not come back yet
	taken    map[netip.Prefix]time.Time // when offers were accepted
}

// gift is a subnet that was given away for load, or given back.
type gift struct {
	to   string
	size float64
	at   time.Time
}

func newBalancer() *balancer {
	return &balancer{rests: map[netip.Prefix]time.Time{}, taken: map[netip.Prefix]time.Time{}}
}

// observe takes in the limits and the sum of the loads of n subnets.
func (b *balancer) observe(now time.Time, l Limits, raw float64, n int) {
	if b.at.IsZero() || now.Before(b.at) {
		b.load = raw
	} else {
		b.load += (raw - b.load) * (1 - math.Exp(-float64(now.Sub(b.at))/float64(smoothing)))
	}
	b.limits, b.raw, b.subnets, b.at = l, raw, n, now
	maps.DeleteFunc(b.rests, func(_ netip.Prefix, at time.Time) bool { return now.Sub(at) >= loadRest })
	maps.DeleteFunc(b.taken, func(_ netip.Prefix, at time.Time) bool { return now.Sub(at) >= takenFor })
	b.given = slices.DeleteFunc(b.given, func(g gift) bool { return now.Sub(g.at) >= settles })
	switch bound := l.Pages; {
	case bound == 0 || b.load <= relieved*bound:
		b.over, b.relieves = time.Time{}, false
	case b.load <= bound:
		b.over = time.Time{} // goes on with what it began
	case b.over.IsZero():
		b.over = now
	case now.Sub(b.over) >= overFor:
		b.relieves = true
	}
}

// decide returns the subnet that is to go now, if any; loads are those that can,
// room what others have announced.
func (b *balancer) decide(now time.Time, self string, loads []assign.Load, room map[string]float64) []assign.Release {
	if !b.relieves || now.Sub(b.last) < relieveGap {
		return nil
	}
	left := map[string]float64{}
	for who, r := range room {
		left[who] = b.leftOf(who, r)
	}
	maps.DeleteFunc(left, func(_ string, r float64) bool { return r <= 0 })
	var can []assign.Load
	for _, l := range loads {
		if at, came := b.taken[l.Subnet]; came && now.Sub(at) < loadRest || l.Size <= 0 {
			continue
		}
		l.Probes = maps.Clone(l.Probes)
		maps.DeleteFunc(l.Probes, func(who string, _ float64) bool { return who != self && left[who] < l.Size })
		can = append(can, l)
	}
	out := assign.Relieve(self, can, min(b.load, b.raw)-relieved*b.limits.Pages, left)
	return out[:min(len(out), 1)]
}

// leftOf is what is left of the room that a peer has announced, after what it was
// given of late.
func (b *balancer) leftOf(who string, room float64) float64 {
	for _, g := range b.given {
		if g.to == who {
			room -= g.size
		}
	}
	return room
}

// gave takes in that a subnet leaves for load.
func (b *balancer) gave(now time.Time, r assign.Release, size float64) {
	b.last, b.rests[r.Subnet] = now, now
	delete(b.taken, r.Subnet)
	b.given = append(b.given, gift{r.To, size, now})
	b.load, b.raw, b.subnets = max(0, b.load-size), max(0, b.raw-size), max(0, b.subnets-1)
}

// room is what this peer can still take.
func (b *balancer) room() float64 {
	switch {
	case b.limits.Closed:
		return 0
	case b.limits.Pages == 0:
		return PlainPages
	}
	return max(0, fillTo*b.limits.Pages-max(b.load, b.raw))
}

// full says why this peer takes nothing; nil if it does.
func (b *balancer) full() error {
	switch {
	case b.limits.Closed:
		return errClosed
	case b.limits.Pages > 0 && b.raw >= b.limits.Pages:
		return fmt.Errorf("%w: %.0f pages a day of %.0f", errFull, b.raw, b.limits.Pages)
	}
	return nil
}

// accept says why a subnet that is offered is not taken. One that is counts as an
// average one until the next look, and is not given on for a while.
func (b *balancer) accept(now time.Time, p netip.Prefix) error {
	if _, again := b.taken[p]; again {
		return nil
	}
	if err := b.full(); err != nil {
		return err
	}
	if at, gone := b.rests[p]; gone && now.Sub(at) < loadRest {
		return errRests
	}
	b.raw += b.raw / float64(max(1, b.subnets))
	b.subnets++
	b.taken[p] = now
	return nil
}
