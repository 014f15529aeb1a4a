package coords

import (
	"fmt"
	"testing"
	"time"
)

// What a measured peer needs is known however it divides, so that predictions are less certain
// together if peers differ more than pages do, and hardly if they do not.
func TestDigestApart(t *testing.T) {
	t.Parallel()
	apart := func(lag float64, delay time.Duration) float64 {
		published := map[string]*Traits{}
		for i := range 30 {
			published[fmt.Sprint(i)] = &Traits{Lag: Normal{Mean: lag * float64(i%3-1), Variance: 1},
				PerKB: Normal{Variance: 0.01}}
		}
		rtt := 20 * time.Millisecond
		d := DigestOf([]Sample{{Peer: "new", At: Coordinate{Vec: []float64{0}}, Connect: rtt,
			FirstByte: rtt + delay, Body: time.Millisecond, Bytes: 1000}}, NewPopulation(published))
		return d.Apart / d.Shared
	}
	if share := apart(200, 50*time.Millisecond); share < 0.8 || share > 1 {
		t.Errorf("peers differ: %.2f of Shared is Apart, want nearly all", share)
	}
	if share := apart(1, time.Second); share > 0.01 {
		t.Errorf("peers are equal: %.2f of Shared is Apart, want nearly none", share)
	}
}

// The mean size of a page, and with it all times, is the less certain the more sizes differ.
func TestDigestSharedOfSizes(t *testing.T) {
	t.Parallel()
	shared := func(sizes ...int64) float64 {
		var samples []Sample
		for i, bytes := range sizes {
			rtt := 20 * time.Millisecond
			samples = append(samples, Sample{Peer: fmt.Sprint(i), Bytes: bytes, Connect: rtt,
				FirstByte: rtt, Body: time.Duration(bytes) * 10 * time.Microsecond,
				At: Coordinate{Vec: []float64{0}}})
		}
		return DigestOf(samples, Population{}).Shared
	}
	if equal, apart := shared(40e3, 40e3, 40e3), shared(5e3, 20e3, 95e3); apart < 1.5*equal {
		t.Errorf("Shared is %.0f with equal sizes and %.0f with different ones, want more", equal,
			apart)
	}
}
