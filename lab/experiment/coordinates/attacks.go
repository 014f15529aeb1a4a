package coordinates

import (
	"math"
	"math/rand/v2"
)

// attack is the strategy of liars. Liars know the algorithm, report a small error, and follow
// the protocol otherwise.
type attack struct {
	name  string
	level int  // see algorithm.attacked; 3: only the experiment liars has it
	start bool // run from the first round, too, not only late
	// region limits the lies to the peers of one region; to all others liars are honest.
	region bool
	// lie returns the place that liar j sends to the victim, days rounds into the attack, and
	// the ms by which it delays its answer. own is its own coordinate.
	lie func(rng *rand.Rand, j, days int, own, victim place, ms float64) (place, float64)
}

// attacks returns attacks of the literature (Kaafar 2006; Zage and Nita-Rotaru 2007; Chan-Tin
// 2011 for frog-boiling).
func attacks() []attack {
	return []attack{
		{name: "random", level: 1, start: true, lie: lieRandom},
		{name: "inflated", level: 1, start: true, lie: lieInflated},
		{name: "outward", level: 2, lie: lieOutward},
		{name: "deflated", level: 2, start: true, lie: lieDeflated},
		{name: "frog", level: 2, lie: lieFrog},
		{name: "oscillating", level: 3, start: true, lie: lieOscillating},
		{name: "isolating", level: 3, start: true, region: true, lie: lieIsolating},
		{name: "near", level: 3, start: true, lie: lieNear},
	}
}

// certain is the error estimate that liars report.
const certain = 0.01

// lieRandom sends a new random place each time and delays by up to a second (disorder).
func lieRandom(rng *rand.Rand, _, _ int, own, _ place, _ float64) (place, float64) {
	p := place{Coordinate: own.Clone()}
	for i := range p.Vec {
		p.Vec[i] = rng.NormFloat64() * 1000
	}
	p.Height, p.Error = rng.Float64()*100, certain
	return p, rng.Float64() * 1000
}

// lieInflated sends a place two seconds away, the same one for all liars (inflation,
// colluding).
func lieInflated(_ *rand.Rand, _, _ int, own, _ place, _ float64) (place, float64) {
	p := place{Coordinate: own.Clone()}
	clear(p.Vec)
	p.Vec[0], p.Error = 2000, certain
	return p, 0
}

// lieOutward sends a place two seconds away, in a different direction for each liar.
func lieOutward(_ *rand.Rand, j, _ int, own, _ place, _ float64) (place, float64) {
	p := place{Coordinate: own.Clone()}
	rng := rand.New(rand.NewPCG(uint64(j), 3))
	for i := range p.Vec {
		p.Vec[i] = rng.NormFloat64()
	}
	length := p.norm()
	for i := range p.Vec {
		p.Vec[i] *= 2000 / length
	}
	p.Error = certain
	return p, 0
}

// lieDeflated confirms the coordinate of the victim: it sends a place at exactly the measured
// distance.
func lieDeflated(rng *rand.Rand, _, _ int, _, victim place, ms float64) (place, float64) {
	p := place{Coordinate: victim.Clone()}
	p.Height, p.Error = 0.1, certain
	left := ms - victim.Height - victim.adjust - p.Height
	if left < 0 {
		return p, -left
	}
	for i := range p.Vec {
		p.Vec[i] = rng.NormFloat64()
	}
	length := p.norm()
	for i := range p.Vec {
		p.Vec[i] = victim.Vec[i] + p.Vec[i]*left/length
	}
	return p, 0
}

// lieFrog moves away from the true place by a millisecond per round, in the same direction for
// all liars: slower than any threshold.
func lieFrog(_ *rand.Rand, _, days int, own, _ place, _ float64) (place, float64) {
	p := place{Coordinate: own.Clone(), adjust: own.adjust}
	p.Vec[0] += float64(days)
	p.Error = certain
	return p, 0
}

// lieOscillating jumps between two places that are 600 ms apart, every five rounds, together
// with all other liars (oscillation, colluding).
func lieOscillating(_ *rand.Rand, _, days int, own, _ place, _ float64) (place, float64) {
	p := place{Coordinate: own.Clone()}
	clear(p.Vec)
	p.Vec[0], p.Error = 300, certain
	if days/5%2 == 1 {
		p.Vec[0] = -300
	}
	return p, 0
}

// lieIsolating draws the victims to one place, 400 ms from the centre: each liar claims to be in
// its own direction from there, as far as its round trip to the victim, so that all lies agree with
// each other and with what the victims measure (colluding isolation).
func lieIsolating(_ *rand.Rand, j, _ int, _, victim place, ms float64) (place, float64) {
	lured := place{Coordinate: victim.Clone()}
	clear(lured.Vec)
	lured.Vec[0] = 400
	return lieDeflated(rand.New(rand.NewPCG(uint64(j), 4)), j, 0, place{}, lured, ms)
}

// lieNear claims to be where the victim is.
func lieNear(_ *rand.Rand, _, _ int, _, victim place, _ float64) (place, float64) {
	p := place{Coordinate: victim.Clone()}
	p.Error = certain
	return p, 0
}

// norm returns the distance of the point from the origin.
func (p place) norm() float64 {
	sum := 0.0
	for _, x := range p.Vec {
		sum += x * x
	}
	return math.Sqrt(sum)
}
