package coords

import (
	"fmt"
	"math"
	"testing"
	"time"
)

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

// Near peers do not show what slow start costs far from a server, which is uncertain there until a
// far peer shows it.
func TestDigestFarAwayIsUncertain(t *testing.T) {
	t.Parallel()
	deviation := func(far float64, trips ...int) float64 {
		var samples []Sample
		for i, ms := range trips {
			rtt := time.Duration(ms) * time.Millisecond
			samples = append(samples, Sample{Peer: fmt.Sprint(i), Bytes: 40e3, Connect: rtt,
				FirstByte: rtt, Body: rtt + 30*time.Millisecond, At: Coordinate{Vec: []float64{0}}})
		}
		d := DigestOf(samples, Population{})
		x := d.Predict(Places{{Vec: []float64{far}}}, []Coordinate{{Vec: []float64{0}}},
			[]Traits{{}})
		return math.Sqrt(x.Moments().Variance)
	}
	near, far := deviation(20, 18, 20, 22), deviation(300, 18, 20, 22)
	seen := deviation(300, 18, 20, 300)
	if near > 10 || far < 3*near || seen > far/3 {
		t.Errorf("deviations %.1f ms near, %.1f ms far, %.1f ms with a measured peer as far", near,
			far, seen)
	}
	if x := deviation(0, 0, 0, 0); math.IsNaN(x) {
		t.Error("NaN for a server without distance")
	}
}
