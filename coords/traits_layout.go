package coords

import (
	"crypto/sha256"
	"math"
	"math/rand/v2"
)

// Factors is the number of latent factors of Traits, the server's level among
// them. All peers of a network agree on it; vectors of another length count as
// unknown.
const Factors = 12

const (
	unknowns   = Factors + 1                 // of a peer: bias and loadings
	triangle   = Factors * (Factors + 1) / 2 // entries of a symmetric matrix of factors
	peerTraits = unknowns + 2                // bias, loadings, noise, failure rate
	hostTraits = Factors + triangle          // mean and covariance
)

// Bounds of what is taken from others, and of what is published.
const (
	loadingMax = 8.0  // of a loading: e^8 is a factor of 3,000
	levelMax   = 30.0 // of a bias, a logarithm of ms, and a server's position
	spreadMax  = 10.0 // of a variance
	noiseMin   = 0.03 // of the standard deviation of log times
	noiseMax   = 3.0
)

// peerView is the Traits of a peer, unpacked: the logarithm of its time (ms) at
// a server of position v, which is normal with variance 1, is
//
//	mean[0] + mean[1:]·v + noise·(a heavy-tailed variate)
//
// The first loading starts at 1 for everybody: the first factor is the server's
// level.
type peerView struct {
	mean  [unknowns]float64 // bias, loadings
	noise float64           // standard deviation
	fails float64           // share of its downloads that fail
}

// hostView is the Traits of a server, unpacked: what the owner believes of its
// position, as a normal distribution.
type hostView struct {
	mean [Factors]float64
	cov  [Factors][Factors]float64
}

// freshPeer is what is assumed of a peer that has learned nothing. The loadings
// differ by name: were all alike, no factor could ever be told from another.
func freshPeer(id string) peerView {
	// A cryptographic hash: names that differ by a letter must not start alike.
	rng := rand.New(rand.NewChaCha8(sha256.Sum256([]byte(id))))
	p := peerView{mean: priorPeer, noise: math.Sqrt(noisePrior), fails: failPrior}
	for i := 2; i < unknowns; i++ {
		p.mean[i] = freshLoading * rng.NormFloat64()
	}
	return p
}

// FreshTraits returns the Traits that a peer without any starts from. They are
// the same wherever they are worked out.
func FreshTraits(id string) Traits { return freshPeer(id).pack() }

func (p peerView) pack() Traits {
	t := make(Traits, 0, peerTraits)
	t = append(t, p.mean[:]...)
	return append(t, p.noise, p.fails).rounded()
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
	p.fails = clamp(t[unknowns+1], 0, 1)
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

// unpackHost refuses what no owner can have worked out: means and variances out
// of bounds, a covariance above what its variances allow.
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

// rounded leaves as many bits as matter: eleven, what a float of 16 bits has,
// which is three bytes on the wire.
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
