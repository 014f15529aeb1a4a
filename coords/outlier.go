package coords

import (
	"math"
	"slices"
)

const (
	// shortTrip is the round trip, in ms, below which shorter ones do not weigh more, and to which
	// errors are relative, because they measure jitter. It and, of logarithmic residuals,
	// placeError are lower bounds of the median absolute deviation. Without them small fluctuations
	// would be outliers in a network without noise. It is also the typical height of a server.
	shortTrip = 5.0
	// tolerance is the logarithmic residual at which a spring has half its strength, unless the
	// median residual or the peer's own error is larger: before a peer knows where it is, a large
	// residual says nothing about the neighbour. It is also the least error that a neighbour is
	// assumed to have, whatever it claims: while a space unfolds honest errors are large, and liars
	// that claim small ones would outweigh twice as many honest peers.
	tolerance = 0.5
)

// enough is the number of round trips that determine a place, its height included, and one to
// spare. Among fewer, a few liars can be the majority.
func enough(dims int) int { return dims + 2 }

// logResidual is how far a distance and a round trip, in ms, are apart: their difference relative
// to either while that is small. A peer that claims to be ten times nearer than it is has as large
// a residual as one that claims to be ten times farther; relative to the round trip, that of the
// first would never be above 1.
func logResidual(distance, rtt float64) float64 {
	return math.Abs(math.Log((rtt + shortTrip) / (distance + shortTrip)))
}

// weigh sets the weight of every neighbour's spring. It uses logarithmic residuals, so that long
// trips do not dominate short ones. A residual above the median of all neighbours by more than
// OutlierFactor median absolute deviations cuts the spring ([3]); logarithmic residuals detect
// lies about short trips, milliseconds those about long ones. Below that limit Cauchy's weight
// weakens springs with a large residual. Each neighbour has one vote in the median however
// often it is observed, and outliers keep their vote: when more than half of the network has
// changed, the network is right.
func (e *Estimator) weigh() {
	many := len(e.order) >= enough(e.cfg.Dimensions)
	e.logs, e.absolute = e.logs[:0], e.absolute[:0]
	for _, n := range e.order {
		distance := e.at.Distance(n.at)
		e.absolute = append(e.absolute, math.Abs(n.rtt-distance))
		off := logResidual(distance, n.rtt)
		if !many {
			// No liar is cut yet: one that claims to be far away must not displace this peer.
			off = max(off, (distance-n.rtt)/(n.rtt+shortTrip))
		}
		e.logs = append(e.logs, off)
	}
	e.usualLog = e.usual(e.logs, placeError)
	e.usualMS = e.usual(e.absolute, shortTrip)
	mostLog, mostMS := math.Inf(1), math.Inf(1)
	slack := max(tolerance, e.at.Error)
	if many {
		mostLog = e.usualLog.above(e.cfg.OutlierFactor)
		mostMS = e.usualMS.above(e.cfg.OutlierFactor)
		slack = max(slack, e.usualLog.median)
	}
	// The space moves as a whole, and coordinates become wrong: one has half its weight after as
	// many samples as there are neighbours, in which each is observed once.
	half := float64(len(e.order))
	for i, n := range e.order {
		r := e.logs[i]
		if r > mostLog || e.absolute[i] > mostMS {
			n.weight, n.baseWeight = 0, 0
			continue
		}
		age := float64(e.samples-n.seen) / half
		n.baseWeight = 1 / (n.rtt + shortTrip) / (1 + age*age)
		n.weight = n.baseWeight / (1 + r*r/(slack*slack)) * e.sampleWeight(n)
		// A single distant neighbour has little weight and must not regain all of it in the
		// mean: baseWeight falls no further than for a residual of the whole round trip.
		n.baseWeight /= 1 + min(r*r, 1)/(slack*slack)
	}
}

// usual holds the median of residuals and the median absolute deviation from it.
type usual struct{ median, mad float64 }

// above returns the residual that is above the median by factor deviations.
func (u usual) above(factor float64) float64 { return u.median + factor*u.mad }

// usual returns the median of v, and the deviation, which is at least least.
func (e *Estimator) usual(v []float64, least float64) usual {
	median, mad := e.medianAndMAD(v)
	return usual{median, max(mad, least)}
}

// medianAndMAD returns the median of v and the median absolute deviation from it,
// without allocating.
func (e *Estimator) medianAndMAD(v []float64) (median, mad float64) {
	s := append(e.sorted[:0], v...)
	slices.Sort(s)
	e.sorted = s
	half := (len(s) - 1) / 2
	median = s[half]
	// The deviations grow in both directions from the median, so that they can be merged
	// instead of sorted.
	below, above := half, half+1
	for range half + 1 {
		if above == len(s) || below >= 0 && median-s[below] <= s[above]-median {
			mad = median - s[below]
			below--
		} else {
			mad = s[above] - median
			above++
		}
	}
	return median, mad
}
