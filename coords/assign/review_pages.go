package assign

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"time"

	"peerd/coords"
)

const (
	// bodyLeast is the least size in bytes of a download from which the transfer rate is
	// estimated.
	bodyLeast = 512
	// sigmaPrior is the standard deviation of the logarithm of times assumed before there
	// are samples, and sigmaWeight its weight in samples.
	sigmaPrior, sigmaWeight = 0.2, 4
	// medianDiff is the median of the difference of two normal numbers of deviation 1: 0.6745
	// times the root of 2.
	medianDiff = 0.954
)

// page is one download with its size removed.
type page struct {
	peer   string
	log    float64 // logarithm of its time, ms
	age    time.Duration
	failed bool
}

// pagesOf returns the downloads of a subnet, oldest first, with the size removed, and the spread
// of the logarithms of the pages of each peer. The fixed part of a body's time is that of no
// byte, of a typical page, or all: little where the link is slow, much where slow start
// dominates. The one with the least scatter is used.
func pagesOf(samples []coords.Sample, now time.Time) (best []page, sigmas map[string]float64) {
	kb := typicalKB(samples)
	least := math.Inf(1)
	var diffs map[string][]weighted
	for _, fixed := range []float64{0, kb, math.Inf(1)} {
		pages := sizes{kb, fixed}.pages(now, samples)
		ds := differences(pages)
		if x := spread(slices.Concat(slices.Collect(maps.Values(ds))...), sigmaPrior); x < least {
			best, diffs, least = pages, ds, x
		}
	}
	sigmas = make(map[string]float64, len(diffs))
	for _, p := range best {
		if sigmas[p.peer] == 0 { // some links vary more than others
			sigmas[p.peer] = spread(diffs[p.peer], least)
		}
	}
	slices.SortStableFunc(best, func(a, b page) int { return cmp.Compare(b.age, a.age) })
	return best, sigmas
}

// typicalKB returns the mean size of the downloads that are not nearly empty.
func typicalKB(samples []coords.Sample) float64 {
	sum, n := 0.0, 0
	for _, x := range samples {
		if !x.Failed && x.Bytes >= bodyLeast {
			sum += float64(x.Bytes) / 1000
			n++
		}
	}
	if n == 0 {
		return 0
	}
	return sum / float64(n)
}

// sizes removes the influence of the size of pages: typical is the size to which they
// are scaled, and fixed the size of which the time is fixed, in kB.
type sizes struct{ typical, fixed float64 }

// body returns the time that a body of the typical size would have taken, in ms.
func (s sizes) body(x coords.Sample) float64 {
	if math.IsInf(s.fixed, 1) {
		return ms(x.Body)
	}
	return ms(x.Body) * (s.typical + s.fixed) / (float64(x.Bytes)/1000 + s.fixed)
}

// usual returns the body time assumed for nearly empty pages: the median of all others.
func (s sizes) usual(samples []coords.Sample) float64 {
	var bodies []weighted
	for _, x := range samples {
		if !x.Failed && x.Bytes >= bodyLeast {
			bodies = append(bodies, weighted{s.body(x), 1})
		}
	}
	return quantile(bodies, 0.5)
}

// pages returns the pages in the order of the samples. A handshake is none.
func (s sizes) pages(now time.Time, samples []coords.Sample) []page {
	out := make([]page, 0, len(samples))
	usual := s.usual(samples)
	for _, x := range samples {
		if x.HandshakeOnly() {
			continue
		}
		p := page{peer: x.Peer, age: longAgo, failed: x.Failed}
		switch {
		case now.IsZero():
			p.age = 0
		case !x.Taken.IsZero():
			p.age = max(0, now.Sub(x.Taken))
		}
		took := ms(x.FirstByte)
		switch {
		case x.Bytes >= bodyLeast:
			took += s.body(x)
		case !math.IsNaN(usual):
			took += usual
		}
		p.log = math.Log(max(took, 0.1))
		out = append(out, p)
	}
	return out
}

// differences returns those between successive pages of each peer, so that a change affects
// only one of them.
func differences(ps []page) map[string][]weighted {
	out, last := map[string][]weighted{}, map[string]float64{}
	for _, p := range ps {
		if p.failed {
			continue
		}
		if x, ok := last[p.peer]; ok {
			out[p.peer] = append(out[p.peer], weighted{math.Abs(p.log - x), 1})
		}
		last[p.peer] = p.log
	}
	return out
}

// spread returns the standard deviation estimated from differences and a prior.
func spread(diffs []weighted, prior float64) float64 {
	return quantile(append(diffs, weighted{prior * medianDiff, sigmaWeight}), 0.5) / medianDiff
}

// weighted is a value with a weight.
type weighted struct{ value, weight float64 }

// quantile returns the weighted q-quantile, interpolated between values; NaN without
// values. It sorts its argument.
func quantile(xs []weighted, q float64) float64 {
	if len(xs) == 0 {
		return math.NaN()
	}
	slices.SortFunc(xs, func(a, b weighted) int {
		switch { // no value is NaN
		case a.value < b.value || a.value == b.value && a.weight < b.weight:
			return -1
		case a.value > b.value || a.weight > b.weight:
			return 1
		}
		return 0
	})
	sum := 0.0
	for _, x := range xs {
		sum += x.weight
	}
	at, lastMiddle := 0.0, 0.0
	for i, x := range xs {
		middle := at + x.weight/2
		at += x.weight
		if middle < q*sum {
			lastMiddle = middle
			continue
		}
		if i == 0 {
			return x.value
		}
		share := (q*sum - lastMiddle) / (middle - lastMiddle)
		return xs[i-1].value + share*(x.value-xs[i-1].value)
	}
	return xs[len(xs)-1].value
}

// ms is a duration in milliseconds.
func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
