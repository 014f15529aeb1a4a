package revisit

import "math"

// The freshness of a page with rate r and interval I is F = (1-exp(-x))/x, where x = rI is
// the number of changes per interval (Cho and Garcia-Molina, TODS 2003). One more visit
// adds gain(x)/r of fresh time. The interval is optimal for a price if this equals the
// price.

// gain returns 1-(1+x)exp(-x).
func gain(x float64) float64 { return -math.Expm1(-x) - x*math.Exp(-x) }

// peak is the x at which optimal intervals are shortest: exp(x) = 1+x+x². Pages that change
// faster are visited less often again.
const peak = 1.79328

// optimum returns the best interval in seconds for a rate per second and a price in
// seconds, or +Inf if no visit is worth the price.
func optimum(rate, price float64) float64 {
	want := rate * price
	if want >= 1 {
		return math.Inf(1)
	}
	return bisect(0, 64, func(x float64) bool { return gain(x) < want }) / rate
}

// slowRate returns the rate of slow pages with the given best interval. If the interval is
// shorter than all best intervals, it returns the rate with the shortest one.
func slowRate(interval, price float64) float64 {
	x := bisect(1e-6, peak, func(x float64) bool { return x/gain(x) > interval/price })
	return gain(x) / price
}

// bisect returns the point at which below becomes false.
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
