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

// NominalPages is the number of pages per day that a peer of capacity 1 fetches: at
// about 100 kB each, what 10 Mbit/s carry. It is the unit of capacities in beacons.
const NominalPages = 1e6

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
	// loadCooldown the time for which such a subnet neither returns nor is given on for
	// load.
	relieveGap   = time.Minute
	loadCooldown = 30 * time.Minute
	// settles is how long what was given may be missing in the capacity that its new
	// owner announces.
	settles = 5 * time.Minute
	// An overloaded peer gives subnets away until its load is relieved times its limit.
	// Other peers offer capacity up to fillTo of their limits, so that what is given does
	// not overload them.
	relieved = 0.9
	fillTo   = 0.8
	// takenFor is how long an offer that was accepted once is not refused for load:
	// it may have been granted since.
	takenFor = time.Hour
)

var (
	errClosed     = errors.New("owner: outside working hours")
	errNoCapacity = errors.New("owner: no capacity for another subnet")
	errCooldown   = errors.New("owner: the subnet was recently given away for load")
)

// balancer decides when a peer has too much load, and which subnet leaves. It has no
// clock and does no I/O; loads are pages per day.
//
//	        load above the limit for overFor
//	(fits) -------------------------------> (relieving: one subnet a minute)
//	   ^------- load below relieved of it -------'
type balancer struct {
	limits    Limits
	load      float64   // smoothed
	raw       float64   // at the last look, and what was taken since
	subnets   int       // of which raw is
	at        time.Time // of the last look; zero: none
	over      time.Time // since when load is above the bound; zero: it is not
	relieves  bool
	last      time.Time                  // when the last subnet was given
	given     []release                  // of the last settles
	cooldowns map[netip.Prefix]time.Time // when those were given away that must not come back yet
	taken     map[netip.Prefix]time.Time // when offers were accepted
}

// release is a subnet that was given away for load, or given back.
type release struct {
	to   string
	size float64
	at   time.Time
}

func newBalancer() *balancer {
	return &balancer{cooldowns: map[netip.Prefix]time.Time{}, taken: map[netip.Prefix]time.Time{}}
}

// observe takes in the limits and the sum of the loads of n subnets.
func (b *balancer) observe(now time.Time, l Limits, raw float64, n int) {
	if b.at.IsZero() || now.Before(b.at) {
		b.load = raw
	} else {
		b.load += (raw - b.load) * (1 - math.Exp(-float64(now.Sub(b.at))/float64(smoothing)))
	}
	b.limits, b.raw, b.subnets, b.at = l, raw, n, now
	maps.DeleteFunc(b.cooldowns, func(_ netip.Prefix, at time.Time) bool {
		return now.Sub(at) >= loadCooldown
	})
	maps.DeleteFunc(b.taken, func(_ netip.Prefix, at time.Time) bool {
		return now.Sub(at) >= takenFor
	})
	b.given = slices.DeleteFunc(b.given, func(g release) bool { return now.Sub(g.at) >= settles })
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

// decide returns the subnet that is to leave now, if any; loads are the subnets that
// can, capacity what other peers have announced.
func (b *balancer) decide(
	now time.Time, self string, loads []assign.Load, capacity map[string]float64,
) []assign.Release {
	if !b.relieves || now.Sub(b.last) < relieveGap {
		return nil
	}
	left := map[string]float64{}
	for who, r := range capacity {
		left[who] = b.leftOf(who, r)
	}
	maps.DeleteFunc(left, func(_ string, r float64) bool { return r <= 0 })
	var can []assign.Load
	for _, l := range loads {
		if at, came := b.taken[l.Subnet]; came && now.Sub(at) < loadCooldown || l.Size <= 0 {
			continue
		}
		l.Probes = maps.Clone(l.Probes)
		maps.DeleteFunc(l.Probes, func(who string, _ float64) bool {
			return who != self && left[who] < l.Size
		})
		can = append(can, l)
	}
	out := assign.Relieve(self, can, min(b.load, b.raw)-relieved*b.limits.Pages, left)
	return out[:min(len(out), 1)]
}

// leftOf returns the rest of the capacity that a peer has announced, after what it was
// recently given.
func (b *balancer) leftOf(who string, capacity float64) float64 {
	for _, g := range b.given {
		if g.to == who {
			capacity -= g.size
		}
	}
	return capacity
}

// gave takes in that a subnet leaves for load.
func (b *balancer) gave(now time.Time, r assign.Release, size float64) {
	b.last, b.cooldowns[r.Subnet] = now, now
	delete(b.taken, r.Subnet)
	b.given = append(b.given, release{r.To, size, now})
	b.load, b.raw, b.subnets = max(0, b.load-size), max(0, b.raw-size), max(0, b.subnets-1)
}

// capacity returns what this peer can still take.
func (b *balancer) capacity() float64 {
	switch {
	case b.limits.Closed:
		return 0
	case b.limits.Pages == 0:
		return NominalPages
	}
	return max(0, fillTo*b.limits.Pages-max(b.load, b.raw))
}

// checkCapacity returns an error if this peer takes no subnets.
func (b *balancer) checkCapacity() error {
	switch {
	case b.limits.Closed:
		return errClosed
	case b.limits.Pages > 0 && b.raw >= b.limits.Pages:
		return fmt.Errorf("%w: %.0f pages a day of %.0f", errNoCapacity, b.raw, b.limits.Pages)
	}
	return nil
}

// accept says why a subnet that is offered is not taken. One that is counts as an
// average one until the next look, and is not given on for a while.
func (b *balancer) accept(now time.Time, p netip.Prefix) error {
	if _, again := b.taken[p]; again {
		return nil
	}
	if err := b.checkCapacity(); err != nil {
		return err
	}
	if at, gone := b.cooldowns[p]; gone && now.Sub(at) < loadCooldown {
		return errCooldown
	}
	b.raw += b.raw / float64(max(1, b.subnets))
	b.subnets++
	b.taken[p] = now
	return nil
}
