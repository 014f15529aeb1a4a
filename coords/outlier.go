package coords

const (
	// outlierWindow is how many residuals make up "the usual" ([3] uses the
	// forces of the recent past in the same way).
	outlierWindow = 64
	// outlierWarmUp is how many are needed before anything is rejected.
	outlierWarmUp = 16
	// outlierFloor is the least deviation, in ms: in a perfect network every
	// wiggle would be an outlier otherwise.
	outlierFloor = 2.0
)

// outliers tells samples that pull far harder than the recent ones. Rejected
// residuals are remembered too: when more than half of the world changed, the
// world is right.
type outliers struct {
	residuals []float64 // ring
	next      int
}

// reject records a residual (ms, >= 0) and reports whether it lies above the
// median of those before it by more than factor deviations.
func (o *outliers) reject(residual, factor float64) bool {
	rejected := false
	if len(o.residuals) >= outlierWarmUp {
		median, mad := spreadOf(o.residuals)
		rejected = residual > median+factor*max(mad, outlierFloor)
	}
	if len(o.residuals) < outlierWindow {
		o.residuals = append(o.residuals, residual)
	} else {
		o.residuals[o.next] = residual
		o.next = (o.next + 1) % outlierWindow
	}
	return rejected
}
