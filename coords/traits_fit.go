package coords

import "math"

// Priors of the factor model. They are broad, of the order of what logarithms
// of download times do anywhere; DESIGN.md has what varying them does.
const (
	biasMean     = 6.0  // log ms: 0.4 s
	freshLoading = 0.3  // standard deviation of what a fresh peer starts from
	loadingPrior = 0.15 // variance of bias and loadings between peers
	loadingCount = 6.0  // peers that loadingPrior counts for
	noisePrior   = 0.15 // variance
	noiseCount   = 4.0  // downloads that noisePrior counts for
	failPrior    = 0.04
	failCount    = 3.0 // downloads that failPrior counts for
	traitSweeps  = 5   // of reweighting
	traitDegrees = 3.0 // of freedom of the noise: a long time is often chance
)

// priorPeer is the middle of the peers while nothing is known of them.
var priorPeer = [unknowns]float64{0: biasMean, 1: 1}

// TraitRow is what one peer says of a server.
type TraitRow struct {
	// Peer is what the peer publishes of itself (FreshTraits if nothing).
	Peer Traits
	// Time is the logarithm of its time, as LogTime has it.
	Time float64
}

// LocateTraits works out the Traits of a server from the times of some peers: the
// posterior of its level and position under a robust factor model, whose other
// half the peers learn (Learner). Rows that are malformed are passed over; none
// give the prior.
func LocateTraits(rows []TraitRow) Traits {
	peers := make([]peerView, 0, len(rows))
	times := make([]float64, 0, len(rows))
	for _, r := range rows {
		if p, ok := unpackPeer(r.Peer); ok && math.Abs(r.Time) <= levelMax {
			peers, times = append(peers, p), append(times, r.Time)
		}
	}
	return locateHost(peers, times).pack()
}

// locateHost is a ridge regression with Student-t weights: the step of
// expectation of a factor analysis.
func locateHost(peers []peerView, times []float64) hostView {
	weights := make([]float64, len(peers))
	for i := range weights {
		weights[i] = 1
	}
	var h hostView
	for range traitSweeps {
		var a matrix
		var g [unknowns]float64
		for i := range Factors {
			a[i][i] = 1
		}
		for k, p := range peers {
			w := weights[k] / (p.noise * p.noise)
			x := p.mean[1:]
			for i := range Factors {
				g[i] += w * x[i] * (times[k] - p.mean[0])
				for j := range i + 1 {
					a[i][j] += w * x[i] * x[j]
				}
			}
		}
		inv := inverse(&a, Factors)
		for i := range Factors {
			h.mean[i] = 0
			for j := range Factors {
				h.cov[i][j] = inv[i][j]
				h.mean[i] += inv[i][j] * g[j]
			}
		}
		for k, p := range peers {
			mean, variance := p.at(&h)
			weights[k] = p.weight(times[k]-mean, variance)
		}
	}
	for i := range h.mean {
		h.mean[i] = clamp(h.mean[i], -levelMax, levelMax)
	}
	return h
}

// weight is what a time counts that is off by e from what the model says, itself
// uncertain by variance.
func (p *peerView) weight(e, variance float64) float64 {
	return (traitDegrees + 1) / (traitDegrees + (e*e+variance)/(p.noise*p.noise))
}

// at predicts the log time of p at h and how far the model may be off, noise
// left out (variance).
func (p *peerView) at(h *hostView) (mean, variance float64) {
	x := p.mean[1:]
	mean = p.mean[0]
	for i := range Factors {
		mean += x[i] * h.mean[i]
		row := 0.0
		for j := range Factors {
			row += h.cov[i][j] * x[j]
		}
		variance += x[i] * row
	}
	return mean, max(variance, 0)
}

// Forecast is what traits say of a pair of peer and server.
type Forecast struct {
	// Mean is the expected logarithm of the time (ms), and Model the variance of
	// what the model says.
	Mean, Model float64
	// Noise is the variance of a single download around the model.
	Noise float64
	// Fails is the share of downloads of that peer that fail anywhere.
	Fails float64
}

// Predict says what is expected of a peer of traits t at a server of traits
// host; false if one of the two is malformed.
func (t Traits) Predict(host Traits) (Forecast, bool) {
	p, ok := unpackPeer(t)
	if !ok {
		return Forecast{}, false
	}
	h, ok := unpackHost(host)
	if !ok {
		return Forecast{}, false
	}
	mean, variance := p.at(&h)
	return Forecast{Mean: mean, Model: variance, Noise: p.noise * p.noise, Fails: p.fails}, true
}

// matrix has room for what is solved here; what is beyond the first rows and
// columns is not looked at.
type matrix [unknowns][unknowns]float64

// inverse inverts the first n rows and columns of a symmetric positive definite
// matrix of which the lower triangle is given; with the priors on its diagonal
// it never is singular. a is used up.
func inverse(a *matrix, n int) (b matrix) {
	// Cholesky: a = l·lᵀ, l in place of a.
	for i := range n {
		for j := range i + 1 {
			s := a[i][j]
			for k := range j {
				s -= a[i][k] * a[j][k]
			}
			if i == j {
				a[i][i] = math.Sqrt(max(s, 1e-12))
			} else {
				a[i][j] = s / a[j][j]
			}
		}
	}
	// Invert l in place, then b = l⁻ᵀ·l⁻¹.
	for j := range n {
		a[j][j] = 1 / a[j][j]
		for i := j + 1; i < n; i++ {
			s := 0.0
			for k := j; k < i; k++ {
				s -= a[i][k] * a[k][j]
			}
			a[i][j] = s / a[i][i]
		}
	}
	for i := range n {
		for j := range i + 1 {
			s := 0.0
			for k := i; k < n; k++ {
				s += a[k][i] * a[k][j]
			}
			b[i][j], b[j][i] = s, s
		}
	}
	return b
}
