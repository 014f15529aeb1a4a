package revisit

import (
	"math"
	"slices"
)

const day = 86400.0 // seconds

const (
	// maxBins is the maximum number of bins of Evidence. Intervals from 1 s to 136 years
	// need 16.
	maxBins = 16
	// minBinWeight is the weight below which a bin of old visits is dropped.
	minBinWeight = 1.0 / 16
)

// Evidence is the data on which the likelihood of a rate of change r depends. A visit that
// found no change after an interval t contributes exp(-rt). A change at a known time, T
// before the visit, contributes r exp(-rT), whatever happened before it. A change at an
// unknown time contributes 1-exp(-rt). Their product is greatest where
//
//	Dated/r + sum over undated t/(exp(rt)-1) = Unchanged.
//
// The undated intervals are kept in bins, and each counts as the mean of its bin. If
// intervals differ by a factor of 100, this shifts the rate by up to 5 %. Times are in
// seconds. The weights are fractions because evidence is halved as it ages. Copies share
// their bins, which are never modified.
type Evidence struct {
	Same      float32 `cbor:"1,keyasint,omitempty"` // visits that found no change
	Dated     float32 `cbor:"2,keyasint,omitempty"` // changes at a known time
	Unchanged float32 `cbor:"3,keyasint,omitempty"` // total time known to be without a change
	Observed  float32 `cbor:"4,keyasint,omitempty"` // sum of all intervals
	Undated   []Bin   `cbor:"5,keyasint,omitempty"` // changes at an unknown time
}

// Bin sums intervals of similar length: those with the same log4, rounded down.
type Bin struct {
	_     struct{} `cbor:",toarray"`
	Count float32
	Span  float32
}

// class returns the logarithm of the bin's mean to base 4, rounded down.
func (b Bin) class() int { return class(float64(b.Span) / float64(b.Count)) }

func class(interval float64) int {
	_, exp := math.Frexp(interval)
	return (exp - 1) >> 1
}

func (e *Evidence) same(interval float64) {
	e.Same++
	e.Unchanged += float32(interval)
	e.Observed += float32(interval)
}

func (e *Evidence) dated(interval, since float64) {
	e.Dated++
	e.Unchanged += float32(since)
	e.Observed += float32(interval)
}

func (e *Evidence) undated(interval float64) {
	e.Observed += float32(interval)
	bins := slices.Clone(e.bins())
	i := slices.IndexFunc(bins, func(b Bin) bool { return b.class() == class(interval) })
	if i < 0 && len(bins) < maxBins {
		bins, i = append(bins, Bin{}), len(bins)
	}
	if i >= 0 {
		bins[i].Count++
		bins[i].Span += float32(interval)
	}
	e.Undated = bins
}

// bins returns the undated changes, limited because a History may come from another peer.
func (e *Evidence) bins() []Bin { return e.Undated[:min(len(e.Undated), maxBins)] }

// changes returns the weight of the undated changes.
func (e *Evidence) changes() (n float64) {
	for _, b := range e.bins() {
		n += float64(b.Count)
	}
	return n
}

func (e *Evidence) visits() float64 { return float64(e.Same) + float64(e.Dated) + e.changes() }

func (e *Evidence) halve() {
	var bins []Bin
	for _, b := range e.bins() {
		if b.Count >= 2*minBinWeight {
			bins = append(bins, Bin{Count: b.Count / 2, Span: b.Span / 2})
		}
	}
	e.Undated = bins
	for _, f := range []*float32{&e.Same, &e.Dated, &e.Unchanged, &e.Observed} {
		*f /= 2
	}
}

// rateWith estimates the changes per second with a prior that weighs as much as half a
// change at the expected rate of an unknown page. It is never 0.
func (e *Evidence) rateWith(prior float64) float64 {
	const weight = 0.5
	return e.solve(float64(e.Dated)+weight, float64(e.Unchanged)+weight/prior)
}

// Bounds of solve, in changes per second: from one in 30,000 years to one per tenth of a
// second.
const minRate, maxRate = 1e-12, 10

// solve returns the maximum-likelihood rate, given k dated changes and the total time
// without a change. The left side of the equation falls as the rate grows.
func (e *Evidence) solve(k, quiet float64) float64 {
	if k == 0 && len(e.bins()) == 0 {
		return 0
	}
	lo, hi := math.Log(minRate), math.Log(maxRate)
	for range 50 {
		mid := (lo + hi) / 2
		if r := math.Exp(mid); k/r+e.sum(r) > quiet {
			lo = mid
		} else {
			hi = mid
		}
	}
	return math.Exp(lo)
}

// sum returns the sum of t/(exp(rt)-1) over the undated intervals.
func (e *Evidence) sum(r float64) (s float64) {
	for _, b := range e.bins() {
		if n, t := float64(b.Count), float64(b.Span); n > 0 && t > 0 {
			s += t / math.Expm1(r*t/n)
		}
	}
	return s
}
