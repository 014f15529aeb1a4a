package coords

import (
	"fmt"
	"testing"
	"time"
)

func TestAnycast(t *testing.T) {
	t.Parallel()
	one := func(x float64) float64 { return 4 + max(x-60, 60-x) } // a server at 60
	near := func(float64) float64 { return 6 }                    // a server near all peers
	for _, c := range []struct {
		what  string
		peers int
		liars int // that say they are far away
		rtt   func(x float64) float64
		want  bool
	}{
		{"one place", 8, 0, one, false},
		{"one place, peers that lie", 7, 3, one, false},
		{"a server near all peers", 8, 0, near, true},
		{"too few peers", PlacedBy - 1, 0, near, false},
		{"no peers", 0, 0, near, false},
	} {
		var samples []Sample
		for i := range c.peers + c.liars {
			x := 40 * float64(i)
			rtt := time.Duration(c.rtt(x) * float64(time.Millisecond))
			if i >= c.peers {
				x += 5000 * float64(i)
			}
			samples = append(samples, Sample{Peer: fmt.Sprint(i), Connect: rtt, FirstByte: 2 * rtt,
				At: Coordinate{Vec: []float64{x, 0}, Height: 1, Error: .05}})
		}
		d := DigestOf(samples, Population{})
		if got := d.Anycast(func(string) bool { return true }); got != c.want {
			t.Errorf("%s: Anycast() = %v, want %v", c.what, got, c.want)
		}
	}
}
