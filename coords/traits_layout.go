package coords

import (
	"crypto/sha256"
	"math"
	"math/rand/v2"
)

// Factors is the number of latent factors of Traits, including the server's level. All
// peers of a network must use the same number; vectors of another length are treated as
// unknown.
const Factors = 12

const (
	unknowns   = Factors + 1                 // per peer: bias and loadings
	triangle   = Factors * (Factors + 1) / 2 // entries of a symmetric matrix of factors
	peerTraits = unknowns + 2                // bias, loadings, noise, failure rate
	hostTraits = Factors + triangle          // mean and covariance
)

// Bounds of received and published values.
const (
	loadingMax = 8.0  // of a loading: e^8 is a factor of 3,000
	levelMax   = 30.0 // of a bias, a logarithm of ms, and a server's position
	spreadMax  = 10.0 // of a variance
	noiseMin   = 0.03 // of the standard deviation of log times
	noiseMax   = 3.0
)

// peerView is the unpacked Traits of a peer. The logarithm of its time (ms) at a server
// of position v, which is normal with variance 1, is
//
//	mean[0] + mean[1:]·v + noise·(a heavy-tailed variate)
//
// The first loading of every peer starts at 1: the first factor is the server's level.
type peerView struct {
	mean     [unknowns]float64 // bias, loadings
	noise    float64           // standard deviation
	failRate float64           // share of its downloads that fail
}

// hostView is the unpacked Traits of a server: the owner's estimate of its position as a
// normal distribution.
type hostView struct {
	mean [Factors]float64
	cov  [Factors][Factors]float64
}

// initialPeer returns the model of a peer that has learned nothing. The loadings differ
// by name, because the factors of identical peers would be indistinguishable.
func initialPeer(id string) peerView {
	// A cryptographic hash gives similar names unrelated loadings.
	rng := rand.New(rand.NewChaCha8(sha256.Sum256([]byte(id))))
	p := peerView{mean: priorPeer, noise: math.Sqrt(noisePrior), failRate: failPrior}
	for i := 2; i < unknowns; i++ {
		p.mean[i] = initialLoading * rng.NormFloat64()
	}
	return p
}

// InitialTraits returns the Traits of a peer that has published none. They depend on the
// name only.
func InitialTraits(id string) Traits { return initialPeer(id).pack() }

func (p peerView) pack() Traits {
	t := make(Traits, 0, peerTraits)
	t = append(t, p.mean[:]...)
	return append(t, p.noise, p.failRate).rounded()
}

func unpackPeer(t Traits) (p peerView, ok bool) {
	if len(t) != peerTraits || t.Validate() != nil {
		return p, false
	}
	p.mean[0] = clamp(t[0], -levelMax, levelMax)
	for i := 1; i < unknowns; i++ {
		p.mean[i] = clamp(t[i], -loadingMax, loadingMax)
	}
	p.noise = clamp(t[unknowns], noiseMin, noiseMax)
	p.failRate = clamp(t[unknowns+1], 0, 1)
	return p, true
}

func (h hostView) pack() Traits {
	t := make(Traits, 0, hostTraits)
	t = append(t, h.mean[:]...)
	for i := range Factors {
		t = append(t, h.cov[i][:i+1]...)
	}
	return t.rounded()
}

// unpackHost rejects values that no owner can have computed: means and variances out of
// bounds, and covariances above what the variances allow.
func unpackHost(t Traits) (h hostView, ok bool) {
	if len(t) != hostTraits || t.Validate() != nil {
		return h, false
	}
	copy(h.mean[:], t)
	at := Factors
	for i := range Factors {
		for j := range i + 1 {
			h.cov[i][j], h.cov[j][i] = t[at], t[at]
			at++
		}
	}
	for i := range Factors {
		if math.Abs(h.mean[i]) > levelMax || !(h.cov[i][i] >= 0 && h.cov[i][i] <= spreadMax) {
			return h, false
		}
		for j := range i {
			if h.cov[i][j]*h.cov[i][j] > h.cov[i][i]*h.cov[j][j]*1.01+1e-9 {
				return h, false
			}
		}
	}
	return h, true
}

// rounded keeps the eleven significant bits of a 16 bit float, which takes three bytes
// on the wire.
func (t Traits) rounded() Traits {
	const least, drop = 1.0 / (1 << 14), 52 - 10
	for i, x := range t {
		if math.Abs(x) < least {
			t[i] = 0
			continue
		}
		bits := math.Float64bits(x) + 1<<(drop-1)
		t[i] = math.Float64frombits(bits &^ (1<<drop - 1))
	}
	return t
}
