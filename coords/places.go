package coords

import (
	"math"
	"math/rand/v2"
	"slices"
)

const (
	// placesDrawn is the number of places at which a server is imagined, and placesKept the
	// number of equally likely ones that represent them.
	placesDrawn = 1024
	placesKept  = 64
	// placePrior is the standard deviation of the relative error of a distance to a server
	// before any is measured.
	placePrior = 0.3
	// quantileSteps halves the range of a Mixture as often as its quantiles need.
	quantileSteps = 20
	// Tail is the probability that a time is below an 80 % interval, and that it is above.
	Tail = 0.1
)

// Mixture is a distribution of a time in ms: each of its components is equally likely.
type Mixture []Normal

// Moments returns the mean and the variance of m.
func (m Mixture) Moments() Normal {
	var sum Normal
	n := float64(len(m))
	for _, x := range m {
		sum.Mean += x.Mean / n
	}
	for _, x := range m {
		off := x.Mean - sum.Mean
		sum.Variance += (x.Variance + off*off) / n
	}
	return sum
}

// Saving returns the mean of what a time is below best, 0 if it is above. No time is below 0.
func (m Mixture) Saving(best float64) float64 {
	sum := 0.0
	for _, x := range m {
		sd := math.Sqrt(x.Variance)
		sum += saving(best-x.Mean, sd) - saving(-x.Mean, sd)
	}
	return max(0, sum/float64(len(m)))
}

// saving returns the mean of the positive part of a normal variable.
func saving(mean, spread float64) float64 {
	if spread <= 0 {
		return max(0, mean)
	}
	z := mean / spread
	density := math.Exp(-z*z/2) / math.Sqrt(2*math.Pi)
	return mean*normalCDF(z) + spread*density
}

// normalCDF returns the probability that a standard normal variable is less than z.
func normalCDF(z float64) float64 { return math.Erfc(-z/math.Sqrt2) / 2 }

// Quantile returns the time below which m is with probability q, in (0, 1), if all components
// have an additional variance in common.
func (m Mixture) Quantile(q, common float64) float64 {
	low, high, reach := math.Inf(1), math.Inf(-1), math.Sqrt2*math.Erfcinv(2*min(q, 1-q))
	for _, x := range m {
		sd := math.Sqrt(x.Variance + common)
		low, high = min(low, x.Mean-reach*sd), max(high, x.Mean+reach*sd)
	}
	for range quantileSteps {
		middle, below := (low+high)/2, 0.0
		for _, x := range m {
			sd := max(math.Sqrt(x.Variance+common), varianceLeast)
			below += normalCDF((middle - x.Mean) / sd)
		}
		if below < q*float64(len(m)) {
			low = middle
		} else {
			high = middle
		}
	}
	return (low + high) / 2
}

// Places are equally likely places of a server. Their errors are relative errors of distances.
type Places []Coordinate

// Believe returns the places where the server may be, by the peers for which use returns true.
// Before any measurement a server is expected near one of the peers, of which near holds the
// coordinates, about as far from it as the nearest of the others is (a distribution with heavy
// tails), or near one of the hints, and distances are expected to be wrong by placePrior. The drawn
// places count by how well they agree with the round trips (importance sampling). Half of them are
// near hints if there are any, so that wrong hints cost little precision. The result depends on the
// order of near. It is nil if there is no measurement.
func (d Digest) Believe(near []Coordinate, hints Hints, use func(peer string) bool) Places {
	anchors, _ := d.anchors(use)
	if len(anchors) == 0 || len(near) == 0 {
		return nil
	}
	rng := rand.New(rand.NewPCG(placesDrawn, placesKept)) // the same for equal evidence
	widths := apart(near)
	fit := placement{anchors: anchors}
	points, logs := make([][]float64, placesDrawn), make([]float64, placesDrawn)
	misplaced := make([]float64, placesDrawn)
	for k := range points {
		switch n := len(hints.at); {
		case n == 0:
			points[k] = drawNear(near[k%len(near)], widths[k%len(near)], rng)
		case k%2 == 0:
			of := k / 2 % len(near)
			points[k], logs[k] = drawNear(near[of], widths[of], rng), math.Log(1-hints.share)
		default:
			points[k] = drawNear(hints.at[k/2%n], hints.width, rng)
			logs[k] = math.Log(hints.share)
		}
		misplaced[k] = placePrior * math.Abs(rng.NormFloat64())
		for _, a := range anchors {
			a.sigma = math.Hypot(a.sigma, misplaced[k])
			logs[k] -= studentLoss(fit.residual(a, points[k], nil)) + math.Log(a.sigma)
		}
	}
	places := make(Places, 0, placesKept)
	for _, k := range systematic(logs, placesKept) {
		dims := len(points[k]) - 1
		places = append(places, Coordinate{Vec: points[k][:dims:dims], Height: points[k][dims],
			Error: misplaced[k]})
	}
	return places
}

// apart returns the distance of each point from the nearest other one, heights left out.
func apart(all []Coordinate) []float64 {
	out := make([]float64, len(all))
	for i, p := range all {
		out[i] = math.Inf(1)
		for j, q := range all {
			if i != j {
				out[i] = min(out[i], p.Distance(q)-p.Height-q.Height)
			}
		}
		if len(all) == 1 {
			out[i] = shortTrip
		}
	}
	return out
}

// drawNear draws the point and height of a server near a peer. Its distance is that of a
// multivariate Student's t distribution with two degrees of freedom.
func drawNear(peer Coordinate, width float64, rng *rand.Rand) []float64 {
	dims := len(peer.Vec)
	x := make([]float64, dims+1)
	width /= math.Sqrt(float64(dims) * (1 - rng.Float64()))
	for i, c := range peer.Vec {
		x[i] = c + width*rng.NormFloat64()
	}
	x[dims] = math.Abs(shortTrip * rng.NormFloat64())
	return x
}

// systematic returns n indices, drawn with probabilities in proportion to exp(logs): each is
// drawn as often as expected, rounded up or down.
func systematic(logs []float64, n int) []int {
	most, sum := slices.Max(logs), 0.0
	for _, l := range logs {
		sum += math.Exp(l - most)
	}
	out := make([]int, 0, n)
	below := 0.0
	for k, l := range logs {
		below += math.Exp(l-most) / sum * float64(n)
		for len(out) < n && float64(len(out))+0.5 < below {
			out = append(out, k)
		}
	}
	return out
}
