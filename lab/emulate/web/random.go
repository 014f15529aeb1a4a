package web

import (
	"math"
	"time"
)

// dice is a small and fast random number generator (splitmix64). Each use starts one
// from the seed and the purpose of the numbers, so that nothing depends on the order of
// requests.
type dice uint64

// The purposes of random numbers.
const (
	saltSizes uint64 = iota + 1
	saltSite
	saltPage
	saltBody
	saltForeign
)

func newDice(parts ...uint64) dice {
	var d dice
	for _, p := range parts {
		d += dice(p)
		d = dice(d.next())
	}
	return d
}

func (d *dice) next() uint64 {
	*d += 0x9e3779b97f4a7c15
	z := uint64(*d)
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// below returns a number in [0, n); n is positive and far below 2^32.
func (d *dice) below(n int) int { return int((d.next() >> 32) * uint64(n) >> 32) }

// chance is true with probability 1 in n.
func (d *dice) chance(n int) bool { return d.below(n) == 0 }

// unit returns a number in [0, 1).
func (d *dice) unit() float64 { return float64(d.next()>>11) / (1 << 53) }

// logNormal returns a log-normal number with the given median, within lo…hi.
func (d *dice) logNormal(median, sigma, lo, hi float64) float64 {
	normal := math.Sqrt(-2*math.Log(1-d.unit())) * math.Cos(2*math.Pi*d.unit())
	return min(max(median*math.Exp(sigma*normal), lo), hi)
}

// vary returns t changed by at most 30 %.
func (d *dice) vary(t time.Duration) time.Duration {
	return time.Duration(float64(t) * (0.7 + 0.6*d.unit()))
}
