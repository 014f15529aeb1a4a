package coords

import (
	"math"
	"slices"
)

const (
	// outlierWarmUp is how many neighbours are needed to say what is usual: among
	// fewer, a few liars too easily are the majority.
	outlierWarmUp = 8
	// outlierShare and outlierMS are the least deviations from the usual, as a
	// share of the round trip and in ms: in a perfect network every wiggle would
	// be an outlier otherwise.
	outlierShare, outlierMS = 0.1, 5.0
	// shortTrip is the round trip, in ms, below which shorter ones do not weigh
	// more: down there one measures jitter.
	shortTrip = 5.0
	// tolerance is the relative residual at which a spring has half its strength,
	// unless residuals are usually larger.
	tolerance = 0.5
	// ageMin and ageShare say when what a neighbour told is half worth, counted in
	// own samples: after ageMin, or that share of all samples so far. At first the
	// whole space turns and unfolds and what was told is soon wrong; later it
	// holds. ageMax is the bound, so that a place left long ago is forgotten.
	ageMin, ageShare, ageMax = 5.0, 0.15, 1000.0
)

// weigh sets the weight of every neighbour's spring. What counts is the residual
// as a share of the round trip, so that short trips are not drowned by long
// ones. A residual above the median of all neighbours' by more than
// OutlierFactor median absolute deviations cuts the spring ([3]); the share
// tells liars about short trips, milliseconds those about long ones. Below that,
// Cauchy's weight makes springs slack that deviate much. Each neighbour has one
// vote in what is usual, however often it talks, and the cut ones keep theirs:
// when more than half of the world changed, the world is right.
func (e *Estimator) weigh() {
	e.shares, e.millis = e.shares[:0], e.millis[:0]
	for _, n := range e.order {
		off := math.Abs(n.rtt - e.at.Distance(n.at))
		e.millis = append(e.millis, off)
		e.shares = append(e.shares, off/(n.rtt+shortTrip))
	}
	mostShare, mostMS, slack := math.Inf(1), math.Inf(1), tolerance
	if len(e.order) >= outlierWarmUp {
		median, mad := e.usual(e.shares)
		mostShare = median + e.cfg.OutlierFactor*max(mad, outlierShare)
		slack = max(slack, median)
		median, mad = e.usual(e.millis)
		mostMS = median + e.cfg.OutlierFactor*max(mad, outlierMS)
	}
	half := min(max(ageMin, ageShare*float64(e.samples)), ageMax)
	for i, n := range e.order {
		r := e.shares[i]
		if r > mostShare || e.millis[i] > mostMS {
			n.weight, n.mass = 0, 0
			continue
		}
		age := float64(e.samples-n.seen) / half
		n.mass = 1 / (n.rtt + shortTrip) / (1 + age*age)
		n.weight = n.mass / (1 + r*r/(slack*slack)) * e.certainty(n)
		// One that is alone and far off has little weight, and must not get all of
		// it back when the mean is taken: mass falls no further than for a residual
		// of the whole round trip.
		n.mass /= 1 + min(r*r, 1)/(slack*slack)
	}
}

// usual returns the median of v and the median absolute deviation from it,
// without allocating.
func (e *Estimator) usual(v []float64) (median, mad float64) {
	s := append(e.sorted[:0], v...)
	slices.Sort(s)
	e.sorted = s
	half := (len(s) - 1) / 2
	median = s[half]
	// The deviations grow both ways from the median: they are merged, not sorted.
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
