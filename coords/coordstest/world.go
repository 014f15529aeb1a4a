// Package coordstest provides small worlds with known round trips and download times for
// tests of estimators. Worlds are made from places on the globe or from a measured
// matrix. Only tests import it.
package coordstest

import (
	"math"
	"math/rand/v2"
	"time"

	"peerd/coords"
)

// World holds the true values that estimators have to find.
type World struct {
	// RTT is symmetric, in ms.
	RTT [][]float64
	// BytesPerMS is the bandwidth of each place.
	BytesPerMS []float64
	// Jitter is the relative deviation of single times.
	Jitter float64
}

// city is a place on the globe, in degrees.
type city struct{ lat, lon float64 }

// cities are spread over the inhabited world.
var cities = []city{
	// Amsterdam, London, Frankfurt, Paris, Madrid
	{52.4, 4.9}, {51.5, -0.1}, {50.1, 8.7}, {48.9, 2.4}, {40.4, -3.7},
	// Stockholm, Warsaw, Istanbul, Dubai, Mumbai
	{59.3, 18.1}, {52.2, 21.0}, {41.0, 29.0}, {25.3, 55.3}, {19.1, 72.9},
	// Singapore, Hong Kong, Tokyo, Sydney, New York
	{1.4, 103.8}, {22.3, 114.2}, {35.7, 139.7}, {-33.9, 151.2}, {40.7, -74.0},
	// Chicago, Dallas, San Francisco, São Paulo, Johannesburg
	{41.9, -87.6}, {32.8, -96.8}, {37.8, -122.4}, {-23.5, -46.6}, {-26.2, 28.0},
}

// Globe returns n places in 20 cities. Each has its own access link, and each path is
// longer than the great circle by its own factor.
func Globe(n int, rng *rand.Rand) *World {
	at := make([]city, n)
	access := make([]float64, n)
	order := rng.Perm(len(cities))
	for i := range at {
		at[i] = cities[order[i%len(order)]]
		access[i] = 0.5 + rng.ExpFloat64()*2
	}
	rtt := square(n)
	for i := range n {
		for j := range i {
			detour := 1.3 + 0.6*rng.Float64()
			ms := greatCircle(at[i], at[j])/100*detour + access[i] + access[j]
			rtt[i][j], rtt[j][i] = ms, ms
		}
	}
	return FromMatrix(rtt, rng)
}

// FromMatrix returns a World with the given round trips, in ms.
func FromMatrix(rtt [][]float64, rng *rand.Rand) *World {
	w := &World{RTT: rtt, Jitter: 0.05}
	for range rtt {
		// 1 to 12 MB/s, evenly in the logarithm.
		w.BytesPerMS = append(w.BytesPerMS, 1000*math.Pow(12, rng.Float64()))
	}
	return w
}

// greatCircle is the distance on the ground, in km.
func greatCircle(a, b city) float64 {
	rad := math.Pi / 180
	sinLat, sinLon := math.Sin((a.lat-b.lat)*rad/2), math.Sin((a.lon-b.lon)*rad/2)
	h := sinLat*sinLat + math.Cos(a.lat*rad)*math.Cos(b.lat*rad)*sinLon*sinLon
	return 2 * 6371 * math.Asin(math.Sqrt(h))
}

// Trip returns one round trip between two places in ms; jitter only adds to it.
func (w *World) Trip(a, b int, rng *rand.Rand) float64 {
	return w.RTT[a][b] * (1 + w.Jitter*math.Abs(rng.NormFloat64()))
}

// Server is a web server somewhere in a World.
type Server struct {
	Place int
	Delay float64 // median time for a page, ms
	Sigma float64 // standard deviation of the logarithm of the delay
	KB    float64 // median size of a page
}

// NewServer returns a server with a typical delay and typical page sizes.
func NewServer(place int, rng *rand.Rand) Server {
	return Server{Place: place, Delay: 40 * math.Exp(0.6*rng.NormFloat64()), Sigma: 0.5, KB: 12}
}

// Time returns the true mean time of a page at a peer on a warm connection, in ms.
func (w *World) Time(peer int, s Server) float64 {
	kb := s.KB * math.Exp(0.7*0.7/2)
	return w.RTT[peer][s.Place] + s.Delay*math.Exp(s.Sigma*s.Sigma/2) + kb*1000/w.speed(peer, s)
}

// speed returns the bandwidth between the two: the lower one.
func (w *World) speed(peer int, s Server) float64 {
	return min(w.BytesPerMS[peer], w.BytesPerMS[s.Place])
}

// Download returns one sample of a server by a peer.
func (w *World) Download(
	peer int, name string, at coords.Coordinate, s Server, rng *rand.Rand,
) coords.Sample {
	kb := min(max(s.KB*math.Exp(0.7*rng.NormFloat64()), 2), 60)
	first := w.Trip(peer, s.Place, rng) + s.Delay*math.Exp(s.Sigma*rng.NormFloat64())
	body := kb * 1000 / w.speed(peer, s) * (1 + w.Jitter*math.Abs(rng.NormFloat64()))
	return coords.Sample{
		Peer: name, At: at,
		Connect:   Millis(w.Trip(peer, s.Place, rng)),
		FirstByte: Millis(first),
		Body:      Millis(body),
		Bytes:     int64(kb * 1000),
	}
}

// Millis returns a duration of ms milliseconds.
func Millis(ms float64) time.Duration { return time.Duration(ms * float64(time.Millisecond)) }

func square(n int) [][]float64 {
	m := make([][]float64, n)
	for i := range m {
		m[i] = make([]float64, n)
	}
	return m
}
