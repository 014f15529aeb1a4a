package wan

import "math"

// All random numbers of a world are hashes of its seed and of their purpose, so that they
// do not depend on the order of calls.

// The purposes of random numbers.
const (
	saltInflation uint64 = iota + 1
	saltReach
	saltLastMile
	saltJitter
	saltBandwidth
	saltPeers
	saltSites
	saltGlobe
	saltEdges
)

// mix hashes its arguments to 64 uniformly distributed bits (the finaliser of splitmix64
// over a running sum).
func mix(parts ...uint64) uint64 {
	var h uint64
	for _, p := range parts {
		h += p + 0x9e3779b97f4a7c15
		h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
		h = (h ^ h>>27) * 0x94d049bb133111eb
		h ^= h >> 31
	}
	return h
}

// unit hashes its arguments to a number in [0, 1).
func unit(parts ...uint64) float64 { return float64(mix(parts...)>>11) / (1 << 53) }

// pairUnit is unit for an unordered pair.
func pairUnit(seed, salt uint64, a, b int) float64 {
	if a > b {
		a, b = b, a
	}
	return unit(seed, salt, uint64(a), uint64(b))
}

// between maps u in [0, 1) linearly to lo…hi.
func between(u, lo, hi float64) float64 { return lo + u*(hi-lo) }

// betweenLog maps u in [0, 1) to lo…hi, linearly in the logarithm.
func betweenLog(u, lo, hi float64) float64 {
	return math.Exp(between(u, math.Log(lo), math.Log(hi)))
}
