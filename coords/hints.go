package coords

import "math"

// Hints are places of which a server may be near one. The zero Hints says nothing.
type Hints struct {
	at    []Coordinate
	share float64 // probability that the server is near one of them
	width float64 // how near, in ms: see drawNear
}

// Precedent is a server with a known place, and the hints that there are of it.
type Precedent struct {
	At    Coordinate
	Hints []Coordinate
}

// hintSteps is the number of steps in which the share and the width of hints are estimated.
const hintSteps = 20

// LearnHints returns the Hints of a server near one of the places at, of which there is at least
// one. How often a server is near its hints, and how near, is what makes the places of known ones
// most likely, if the others are anywhere near the peers (expectation maximization). As if
// priorCount more were not near theirs, few precedents, or hints that mislead, count little.
func LearnHints(at []Coordinate, known []Precedent, near []Coordinate) Hints {
	if len(known) == 0 || len(near) == 0 {
		return Hints{}
	}
	widths := apart(near)
	anywhere := make([]float64, len(known)) // densities
	var far []float64
	for i, k := range known {
		for j, p := range near {
			anywhere[i] += nearDensity(k.At, p, max(widths[j], heightMin)) / float64(len(near))
		}
		for _, p := range k.Hints {
			far = append(far, k.At.spread(p))
		}
	}
	h := Hints{at: at, share: 1.0 / 2, width: max(lowerMedian(far), shortTrip)}
	for range hintSteps {
		sum, squares := 0.0, 0.0
		for i, k := range known {
			all := (1 - h.share) * anywhere[i]
			share := h.share / float64(len(k.Hints))
			for _, p := range k.Hints {
				all += share * nearDensity(k.At, p, h.width)
			}
			for _, p := range k.Hints {
				r := share * nearDensity(k.At, p, h.width) / max(all, math.SmallestNonzeroFloat64)
				dims, d := float64(len(p.Vec)), k.At.spread(p)
				sum += r
				squares += r * (2 + dims) / (2 + dims*d*d/(h.width*h.width)) * d * d
			}
		}
		if sum > 0 {
			h.width = max(math.Sqrt(squares/sum), shortTrip)
		}
		h.share = sum / (float64(len(known)) + priorCount)
	}
	return h
}

// nearDensity returns the density of drawNear at x, up to a factor that depends on dimensions only.
func nearDensity(x, peer Coordinate, width float64) float64 {
	dims, d := float64(len(x.Vec)), x.spread(peer)/width
	return math.Pow(width*math.Sqrt(1+dims*d*d/2), -dims) / (1 + dims*d*d/2)
}
