package coords

import (
	"fmt"
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
