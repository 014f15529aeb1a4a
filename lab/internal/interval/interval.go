// Package interval computes confidence intervals of the results of experiments.
package interval

import "math"

// student95 are the 97.5 % quantiles of Student's t distribution with 1 to 9 degrees of freedom.
var student95 = []float64{12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262}

// OfMean returns the mean of the results of independent runs, and half of the width of its
// 95 % interval; 0 for a single run. Both have four decimal places. From eleven runs on the
// quantile is that of ten.
func OfMean(xs []float64) (mean, half float64) {
	n := float64(len(xs))
	for _, x := range xs {
		mean += x / n
	}
	squares := 0.0
	for _, x := range xs {
		squares += (x - mean) * (x - mean)
	}
	round := func(x float64) float64 { return math.Round(x*1e4) / 1e4 }
	if len(xs) < 2 {
		return round(mean), 0
	}
	t := student95[min(len(xs)-2, len(student95)-1)]
	return round(mean), round(t * math.Sqrt(squares/(n-1)/n))
}
