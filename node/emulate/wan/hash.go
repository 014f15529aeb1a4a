package wan

import "math"

// Everything random about a world is a hash of its seed and of what the number
// is for, so that no figure depends on the order in which figures are asked.

// What a number is for.
const (
	saltInflation uint64 = iota + 1
	saltReach
	saltLastMile
	saltJitter
	saltBandwidth
	saltPeers
	saltSites
	saltGlobe
)

// mix hashes its arguments to 64 evenly spread bits (the finaliser of
// splitmix64 over a running sum).
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

// unit returns a number in [0, 1) for its arguments.
func unit(parts ...uint64) float64 { return float64(mix(parts...)>>11) / (1 << 53) }

// pairUnit is unit for an unordered pair.
func pairUnit(seed, salt uint64, a, b int) float64 {
	if a > b {
		a, b = b, a
	}
	return unit(seed, salt, uint64(a), uint64(b))
}

// between returns lo…hi, evenly in u.
func between(u, lo, hi float64) float64 { return lo + u*(hi-lo) }

// betweenLog returns lo…hi, evenly in the logarithm.
func betweenLog(u, lo, hi float64) float64 {
	return math.Exp(between(u, math.Log(lo), math.Log(hi)))
}
