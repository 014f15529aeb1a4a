package coords

import (
	"cmp"
	"math"
	"slices"
)

// bodyRow is the transfer of one body: round trip, size and time.
type bodyRow struct{ rtt, kb, took float64 }

// fitBodies fits took = trips·rtt + perKB·kb, both >= 0, by least squares with Huber
// weights. An artificial row keeps a few rows from mistaking chance for slow start: a body is
// expected to cost no round trip, with a deviation of one, and its time varies by noisePrior.
func fitBodies(rows []bodyRow) (trips, perKB float64) {
	if len(rows) == 0 {
		return 0, 0
	}
	weights := make([]float64, len(rows))
	for i := range weights {
		weights[i] = 1
	}
	for range 8 {
		trips, perKB = weightedBodies(rows, weights)
		residuals := make([]float64, len(rows))
		for i, r := range rows {
			residuals[i] = math.Abs(r.took - trips*r.rtt - perKB*r.kb)
		}
		limit := max(2*lowerMedian(residuals), 0.1)
		for i, r := range residuals {
			weights[i] = min(1, limit/max(r, 1e-9))
		}
	}
	return trips, perKB
}

// bodySums are the sums of weighted rows and of the artificial row, of the products of round trip
// (r), size (k) and time (t).
type bodySums struct{ rr, rk, kk, rt, kt float64 }

func sumsOf(rows []bodyRow, weight func(row int) float64) bodySums {
	var s bodySums
	far := 0.0
	for i, r := range rows {
		w := weight(i)
		s.rr += w * r.rtt * r.rtt
		s.rk += w * r.rtt * r.kb
		s.kk += w * r.kb * r.kb
		s.rt += w * r.rtt * r.took
		s.kt += w * r.kb * r.took
		far = max(far, r.rtt)
	}
	s.rr += noisePrior * far * far
	return s
}

// weightedBodies returns one least squares solution for fitBodies.
func weightedBodies(rows []bodyRow, weights []float64) (trips, perKB float64) {
	s := sumsOf(rows, func(i int) float64 { return weights[i] })
	if det := s.rr*s.kk - s.rk*s.rk; det > 1e-9*s.rr*s.kk {
		trips = (s.rt*s.kk - s.kt*s.rk) / det
		perKB = (s.kt*s.rr - s.rt*s.rk) / det
		if trips >= 0 && perKB >= 0 {
			return trips, perKB
		}
	}
	if s.kk > 0 && trips <= 0 {
		return 0, s.kt / s.kk
	}
	if s.rr > 0 {
		return s.rt / s.rr, 0
	}
	return 0, 0
}

// tripsVariance returns the variance of the trips that fitBodies fits to rows, at most that of the
// artificial row, and the mean round trip of rows.
func tripsVariance(rows []bodyRow) (variance, near float64) {
	took, n := 0.0, float64(len(rows))
	for _, r := range rows {
		near += r.rtt / n
		took += r.took / n
	}
	s := sumsOf(rows, func(int) float64 { return 1 })
	if s.kk > 0 {
		s.rr -= s.rk * s.rk / s.kk // what the sizes explain as well
	}
	if s.rr <= 0 {
		return 1, near
	}
	return min(1, noisePrior*took*took/s.rr), near
}

// anchor is a peer with a known coordinate and a known round trip to the server.
type anchor struct {
	at    Coordinate
	rtt   float64 // ms
	sigma float64 // relative uncertainty of at and rtt together
}

// anchorAt returns the anchor of a peer that measured a round trip, in ms.
func anchorAt(at Coordinate, rtt float64) anchor {
	return anchor{at: at, rtt: rtt, sigma: placeErrorOf(at)}
}

// byRTT orders anchors by round trip, nearest first.
func byRTT(a, b anchor) int { return cmp.Compare(a.rtt, b.rtt) }

// studentDegrees is nu of the Student-t loss: deviations are known as if by priorCount
// observations. Its heavy tails keep a single wrong anchor from moving the server far.
const studentDegrees = priorCount

// placement finds the point and height at which the distances to the anchors agree with their
// round trips on a logarithmic scale. A weak prior favours the point of the nearest
// anchor and height zero; without it fewer anchors than unknowns would leave the
// position undetermined.
type placement struct {
	anchors     []anchor
	centre      []float64 // centre of the prior
	width       float64   // its width, ms
	heightWidth float64   // width of the prior of the height, ms
}

// newPlacement requires at least one anchor, and all of the same dimension.
func newPlacement(anchors []anchor, heights float64) placement {
	sorted := slices.SortedStableFunc(slices.Values(anchors), byRTT)
	// The width is the second least round trip, so that a single liar that claims to be next
	// to the server cannot fix its position.
	second := sorted[min(1, len(sorted)-1)]
	return placement{anchors: anchors, centre: sorted[0].at.Vec, width: second.rtt + shortTrip,
		heightWidth: heights}
}

// startPoints returns the points at which the search begins. There are several because
// the loss has several local minima.
func (p placement) startPoints() [][]float64 {
	dims := len(p.centre)
	centre := make([]float64, dims+1)
	total := 0.0
	var out [][]float64
	for i, a := range slices.SortedStableFunc(slices.Values(p.anchors), byRTT) {
		w := 1 / ((a.rtt + shortTrip) * (a.rtt + shortTrip))
		total += w
		for j, x := range a.at.Vec {
			centre[j] += w * x
		}
		if i < 4 {
			out = append(out, append(slices.Clone(a.at.Vec), 1))
		}
	}
	for j := range dims {
		centre[j] /= total
	}
	centre[dims] = 1
	return append(out, centre)
}

// solve returns the best local minimum found from the given starts.
func (p placement) solve(starts [][]float64) []float64 {
	var best []float64
	least := math.Inf(1)
	for _, start := range starts {
		end, loss := p.minimize(slices.Clone(start))
		if loss < least || best == nil {
			best, least = end, loss
		}
	}
	return best
}

// residual returns the scaled residual of an anchor and fills row with its derivatives
// with respect to the unknowns.
func (p placement) residual(a anchor, x, row []float64) float64 {
	dims := len(x) - 1
	flat := 0.0
	for i := range dims {
		d := x[i] - a.at.Vec[i]
		flat += d * d
	}
	flat = math.Sqrt(flat)
	predicted := flat + a.at.Height + x[dims] + shortTrip
	scale := 1 / (predicted * a.sigma)
	if row != nil {
		for i := range dims {
			row[i] = scale * (x[i] - a.at.Vec[i]) / max(flat, 1e-3)
		}
		row[dims] = scale
	}
	return math.Log(predicted/(a.rtt+shortTrip)) / a.sigma
}

// loss is the negative log posterior up to constants.
func (p placement) loss(x []float64) float64 {
	dims := len(x) - 1
	sum := 0.0
	for _, a := range p.anchors {
		sum += studentLoss(p.residual(a, x, nil))
	}
	r := x[dims] / p.heightWidth
	return sum + studentLoss(p.priorDistance(x)) + r*r/2
}

// usualError returns the median relative error of the distances from x to the anchors.
func (p placement) usualError(x []float64) float64 {
	dims := len(x) - 1
	at := Coordinate{Vec: x[:dims], Height: x[dims]}
	off := make([]float64, len(p.anchors))
	for i, a := range p.anchors {
		off[i] = math.Abs(at.Distance(a.at)-a.rtt) / (a.rtt + shortTrip)
	}
	return min(lowerMedian(off), 1)
}

// studentLoss is the loss of a residual scaled by its uncertainty.
func studentLoss(r float64) float64 {
	return (studentDegrees + 1) / 2 * math.Log1p(r*r/studentDegrees)
}

// studentWeight is the weight of that residual in a least squares step.
func studentWeight(r float64) float64 { return (studentDegrees + 1) / (studentDegrees + r*r) }

// priorDistance returns the distance of the point of x from the centre of the prior, in
// units of the prior's width.
func (p placement) priorDistance(x []float64) float64 {
	sum := 0.0
	for i, h := range p.centre {
		sum += (x[i] - h) * (x[i] - h)
	}
	return math.Sqrt(sum) / p.width
}

// minimize runs Levenberg-Marquardt with Student-t weights from x to a local minimum.
func (p placement) minimize(x []float64) (end []float64, loss float64) {
	loss = p.loss(x)
	at := newNormal(len(x))
	p.linearize(x, at)
	damping := 1e-2
	for range 40 {
		next := at.step(x, damping)
		if next == nil {
			damping *= 10
			continue
		}
		after := p.loss(next)
		if !(after < loss) {
			if damping *= 4; damping > 1e8 {
				break
			}
			continue
		}
		gained := loss - after
		x, loss = next, after
		damping = max(damping/3, 1e-9)
		if gained < 1e-7 {
			break
		}
		p.linearize(x, at)
	}
	return x, loss
}

// normal holds the normal equations of a least squares step, matrix·step = gradient.
type normal struct {
	matrix, work [][]float64 // symmetric; only the upper half of matrix is set
	gradient     []float64
	row          []float64 // derivatives of one residual
}

func newNormal(n int) *normal {
	square := func() [][]float64 {
		return slices.Collect(slices.Chunk(make([]float64, n*n), n))
	}
	return &normal{matrix: square(), work: square(), gradient: make([]float64, n),
		row: make([]float64, n)}
}

// linearize sets the normal equations of a step at x.
func (p placement) linearize(x []float64, at *normal) {
	n := len(x)
	for _, row := range at.matrix {
		clear(row)
	}
	clear(at.gradient)
	for _, a := range p.anchors {
		r := p.residual(a, x, at.row)
		w := studentWeight(r)
		for i, d := range at.row {
			at.gradient[i] += w * r * d
			for j := i; j < n; j++ {
				at.matrix[i][j] += w * d * at.row[j]
			}
		}
	}
	prior := studentWeight(p.priorDistance(x)) / (p.width * p.width)
	for i := range n - 1 {
		at.matrix[i][i] += prior
		at.gradient[i] += prior * (x[i] - p.centre[i])
	}
	at.matrix[n-1][n-1] += 1 / (p.heightWidth * p.heightWidth)
	at.gradient[n-1] += x[n-1] / (p.heightWidth * p.heightWidth)
}

// step returns the point that the damped equations lead to from x, within the bounds of a
// Coordinate, or nil if they have no solution.
func (at *normal) step(x []float64, damping float64) []float64 {
	step := at.solve(damping)
	if step == nil {
		return nil
	}
	for i := range step {
		step[i] = clamp(x[i]-step[i], -MaxComponent, MaxComponent)
	}
	step[len(step)-1] = max(0, step[len(step)-1])
	return step
}

// solve solves (matrix + damping·diag(matrix))·x = gradient by elimination. It returns nil if the
// matrix is singular.
func (at *normal) solve(damping float64) []float64 {
	m, x := at.work, slices.Clone(at.gradient)
	for i, row := range at.matrix {
		copy(m[i], row)
		m[i][i] *= 1 + damping
	}
	n := len(x)
	for i := range n {
		pivot := m[i][i] // m is positive definite: no pivot search is needed
		if !(pivot > 1e-18) {
			return nil
		}
		for j := i + 1; j < n; j++ {
			f := m[i][j] / pivot
			for k := j; k < n; k++ {
				m[j][k] -= f * m[i][k]
			}
			x[j] -= f * x[i]
		}
	}
	for i := n - 1; i >= 0; i-- {
		for k := i + 1; k < n; k++ {
			x[i] -= m[i][k] * x[k]
		}
		x[i] /= m[i][i]
	}
	return x
}
