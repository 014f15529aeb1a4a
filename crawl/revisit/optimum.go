package revisit

import "math"

// The freshness of a page with rate r that is visited each I is
// F = (1-exp(-x))/x with x = rI, the changes an interval (Cho and
// Garcia-Molina, TODS 2003). One visit more adds gain(x)/r of fresh time. A
// page is visited at the best interval for a price when this equals the price.

// gain is 1-(1+x)exp(-x).
func gain(x float64) float64 { return -math.Expm1(-x) - x*math.Exp(-x) }

// peak is the x at which optimal intervals are shortest: exp(x) = 1+x+x².
// Faster pages are visited less often again.
const peak = 1.79328

// optimum returns the best interval in seconds for a rate a second and a price
// in seconds, +Inf if no visit is worth the price.
func optimum(rate, price float64) float64 {
	want := rate * price
	if want >= 1 {
		return math.Inf(1)
	}
	return bisect(0, 64, func(x float64) bool { return gain(x) < want }) / rate
}

// slowRate returns the rate of the slow pages whose best interval this is, or
// the rate that has the shortest one if this is shorter still.
func slowRate(interval, price float64) float64 {
	x := bisect(1e-6, peak, func(x float64) bool { return x/gain(x) > interval/price })
	return gain(x) / price
}

// bisect returns where below turns false.
func bisect(lo, hi float64, below func(float64) bool) float64 {
	for range 60 {
		if mid := (lo + hi) / 2; below(mid) {
			lo = mid
		} else {
			hi = mid
		}
	}
	return (lo + hi) / 2
}
