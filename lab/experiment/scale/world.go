package scale

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"peerd/coords"
)

// scaleWorld returns the round trips between any two of many places without a table of them: it
// computes them, or takes them from a matrix and uses its rows several times.
type scaleWorld struct {
	seed   uint64
	points [][3]float64 // on the unit sphere
	access []float64    // ms
	matrix [][]float64  // nil: computed from points
}

// newScaleWorld creates n places.
func newScaleWorld(n int, seed uint64, matrix [][]float64) *scaleWorld {
	rng := rand.New(rand.NewPCG(seed, 11))
	w := &scaleWorld{seed: seed, matrix: matrix}
	// Places are around cities of different sizes.
	cities := make([][3]float64, 60)
	for i := range cities {
		cities[i] = onSphere(rng.NormFloat64(), rng.NormFloat64(), rng.NormFloat64())
	}
	for range n {
		c := cities[int(float64(len(cities))*rng.Float64()*rng.Float64())]
		const about = 0.02 // of the radius: 130 km
		w.points = append(w.points, onSphere(c[0]+about*rng.NormFloat64(),
			c[1]+about*rng.NormFloat64(), c[2]+about*rng.NormFloat64()))
		w.access = append(w.access, 0.5+2*rng.ExpFloat64())
	}
	return w
}

func onSphere(x, y, z float64) [3]float64 {
	r := math.Sqrt(x*x + y*y + z*z)
	return [3]float64{x / r, y / r, z / r}
}

// rtt returns the round trip between two places, ms.
func (w *scaleWorld) rtt(a, b int) float64 {
	if a == b {
		return 0
	}
	own := w.access[a] + w.access[b]
	luck := w.luck(a, b)
	if m := len(w.matrix); m > 0 {
		if a%m == b%m {
			return own // two places of one row are neighbours
		}
		return w.matrix[a%m][b%m]*(0.9+0.2*luck) + own
	}
	p, q := w.points[a], w.points[b]
	dot := p[0]*q[0] + p[1]*q[1] + p[2]*q[2]
	km := 6371 * math.Acos(min(1, max(-1, dot)))
	return km/100*(1.3+0.6*luck) + own // 2/3 of the speed of light, both ways, with detours
}

// luck returns a pseudo-random number in [0, 1) that depends on the pair only.
func (w *scaleWorld) luck(a, b int) float64 {
	x := w.seed ^ uint64(min(a, b))<<32 ^ uint64(max(a, b))
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return float64((x^x>>31)>>11) / (1 << 53)
}

// trip returns one measured round trip: the least of three, as in an exchange.
func (w *scaleWorld) trip(a, b int, rng *rand.Rand) float64 {
	noise := math.Inf(1)
	for range 3 {
		noise = min(noise, math.Abs(rng.NormFloat64()))
	}
	return w.rtt(a, b) * (1 + 0.05*noise)
}

// misplaced returns the median relative error of predicted round trips.
func (w *scaleWorld) misplaced(at []coords.Coordinate, rng *rand.Rand) float64 {
	var errs []float64
	for range 2000 {
		i, j := rng.IntN(len(at)), rng.IntN(len(at))
		if real := w.rtt(i, j); real > 0 {
			errs = append(errs, math.Abs(at[i].Distance(at[j])-real)/real)
		}
	}
	return scaleQuantile(errs, 0.5)
}

func scaleNames(n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprint("peer-", i)
	}
	return names
}

func scaleTime(ms float64) time.Duration { return time.Duration(ms * float64(time.Millisecond)) }

// scaleQuantile returns a quantile, NaN of no values. It sorts v.
func scaleQuantile(v []float64, q float64) float64 {
	if len(v) == 0 {
		return math.NaN()
	}
	slices.Sort(v)
	return v[min(len(v)-1, int(q*float64(len(v))))]
}

// scaleServer is a web server at a place. Its time of a page is delay + rtts·RTT.
type scaleServer struct {
	place int
	delay float64 // ms
	rtts  float64
}

// took returns the true time of a page at a peer, ms, without its waiting time.
func (w *scaleWorld) took(peer int, s scaleServer) float64 {
	return s.delay + s.rtts*w.rtt(peer, s.place)
}

// sample returns one download.
func (w *scaleWorld) sample(
	peer int, name string, at coords.Coordinate, s scaleServer, rng *rand.Rand,
) coords.Sample {
	trip := func() float64 { return w.rtt(peer, s.place) * (1 + 0.05*math.Abs(rng.NormFloat64())) }
	return coords.Sample{
		Peer: name, At: at, Connect: scaleTime(trip()),
		FirstByte: scaleTime(trip() + s.delay*math.Exp(0.1*rng.NormFloat64())),
		Body:      scaleTime((s.rtts - 1) * trip()), Bytes: 12_000,
	}
}
