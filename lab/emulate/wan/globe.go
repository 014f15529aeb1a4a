package wan

import "math"

// Globe returns the position on the earth of each place of w. For a matrix, which has
// none, it chooses positions with distances that fit the round trips as well as
// possible. Equal worlds have equal globes.
func (w *World) Globe() []Place {
	rows := w.base.globe()
	all := make([]Place, len(w.nodes))
	for i, n := range w.nodes {
		all[i] = rows[n.row]
	}
	return all
}

// vector is a point on the unit sphere.
type vector [3]float64

// spreadOut chooses positions for the rows of a matrix by stochastic gradient descent of
// the stress: pair by pair, it moves two points along their great circle, in decreasing
// steps, towards the distance that light in glass covers at the mean inflation.
func spreadOut(b base, seed uint64) []Place {
	n := len(b.names)
	at := make([]vector, n)
	for i := range at {
		z := 2*unit(seed, saltGlobe, uint64(i), 0) - 1
		phi, r := 2*math.Pi*unit(seed, saltGlobe, uint64(i), 1), math.Sqrt(1-z*z)
		at[i] = vector{r * math.Cos(phi), r * math.Sin(phi), z}
	}
	rounds := max(10, min(40, 6000/max(1, n))) // with more pairs it converges in fewer rounds
	for round := range rounds {
		step := 0.5 * (1 - float64(round)/float64(rounds))
		for i := range n {
			for j := range i {
				km := b.rtt(i, j).Seconds() / 2 * fibreSpeed / ((minInflation + maxInflation) / 2)
				want := min(km/earthRadius, math.Pi)
				at[i], at[j] = apart(at[i], at[j], want, step)
			}
		}
	}
	rows := make([]Place, n)
	for i, v := range at {
		rows[i] = Place{b.names[i], math.Asin(max(-1, min(1, v[2]))) * 180 / math.Pi,
			math.Atan2(v[1], v[0]) * 180 / math.Pi}
	}
	return rows
}

// apart moves a and b along their great circle by a share of the difference between
// their angle and want.
func apart(a, b vector, want, share float64) (vector, vector) {
	dot := max(-1, min(1, a[0]*b[0]+a[1]*b[1]+a[2]*b[2]))
	angle := math.Acos(dot)
	sin := math.Sin(angle)
	if sin < 1e-6 { // equal or opposite points: the direction is undefined
		return a, b
	}
	half := share * (angle - want) / 2
	move := func(v, to vector) vector {
		var out vector
		for k := range v {
			out[k] = (v[k]*math.Sin(angle-half) + to[k]*math.Sin(half)) / sin
		}
		// Normalise, as rounding errors accumulate.
		length := math.Sqrt(out[0]*out[0] + out[1]*out[1] + out[2]*out[2])
		for k := range out {
			out[k] /= length
		}
		return out
	}
	return move(a, b), move(b, a)
}
