package coords

import "math"

// Priors of the factor model. They are broad, of the order of variations in logarithms
// of download times; docs/protocol/coordinates.md says how they were chosen.
const (
	biasMean       = 6.0  // log ms: 0.4 s
	initialLoading = 0.3  // standard deviation of a new peer's loadings
	loadingPrior   = 0.15 // variance of bias and loadings between peers
	noisePrior     = 0.15 // variance
	noiseCount     = 4.0  // weight of noisePrior, in downloads
	failPrior      = 0.04
	failCount      = 3.0 // weight of failPrior, in downloads
	traitSweeps    = 5   // passes of reweighting
	traitDegrees   = 3.0 // degrees of freedom of the noise: a long time is often chance
)

// priorPeer is the mean of the peers before any is known.
var priorPeer = [unknowns]float64{0: biasMean, 1: 1}

// TraitRow is the measurement of a server by one peer.
type TraitRow struct {
	// Peer holds the traits that the peer publishes (InitialTraits if it has published
	// none).
	Peer Traits
	// Time is the logarithm of its time, as returned by LogTime.
	Time float64
}

// LocateTraits returns the Traits of a server, fitted to the times of some peers: the
// posterior of its level and position under a robust factor model, of which the peers
// learn the other half (Learner). Malformed rows are ignored; without rows it returns
// the prior.
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

// locateHost is a ridge regression with Student-t weights: the expectation step of the
// factor analysis.
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

// weight returns the weight of a time that differs by e from the prediction, which
// itself has the given variance.
func (p *peerView) weight(e, variance float64) float64 {
	return (traitDegrees + 1) / (traitDegrees + (e*e+variance)/(p.noise*p.noise))
}

// at returns the predicted log time of p at h and the variance of the prediction without
// noise.
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

// Forecast is a prediction for a pair of peer and server.
type Forecast struct {
	// Mean is the expected logarithm of the time (ms), and Model the variance of the
	// prediction.
	Mean, Model float64
	// Noise is the variance of a single download around the model.
	Noise float64
	// FailRate is the share of the peer's downloads that fail at any server.
	FailRate float64
}

// Predict returns the forecast for a peer with traits t at a server with traits host. It
// returns false if either is malformed.
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
	return Forecast{Mean: mean, Model: variance, Noise: p.noise * p.noise, FailRate: p.failRate},
		true
}

// matrix has the size of the largest problem; smaller ones use its first rows and
// columns.
type matrix [unknowns][unknowns]float64

// inverse inverts the first n rows and columns of a symmetric positive definite matrix,
// of which it reads the lower triangle; the priors on the diagonal keep it regular. It
// overwrites a.
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
