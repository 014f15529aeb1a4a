package soak

import "math"

// slope fits y = a + b·x by least squares and returns b with its standard error. Both
// are zero for fewer than three points or if all x are equal. Successive memory samples
// are correlated, so the standard error is underestimated.
func slope(x, y []float64) (b, stderr float64) {
	n := float64(len(x))
	if len(x) < 3 || len(x) != len(y) {
		return 0, 0
	}
	var mx, my float64
	for i := range x {
		mx += x[i] / n
		my += y[i] / n
	}
	var sxx, sxy float64
	for i := range x {
		sxx += (x[i] - mx) * (x[i] - mx)
		sxy += (x[i] - mx) * (y[i] - my)
	}
	if sxx == 0 {
		return 0, 0
	}
	b = sxy / sxx
	var rest float64
	for i := range x {
		d := y[i] - my - b*(x[i]-mx)
		rest += d * d
	}
	return b, math.Sqrt(rest / (n - 2) / sxx)
}
