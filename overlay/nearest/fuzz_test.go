package nearest

import (
	"math"
	"testing"

	"peerd/coords"
	"peerd/overlay/peers"
	"peerd/overlay/wire"
)

// FuzzRequest checks that each peer has a finite distance to the target of an accepted request.
func FuzzRequest(f *testing.F) {
	const dims = 4
	at := coords.Coordinate{Vec: make([]float64, dims), Height: 1, Error: 0.5}
	good, err := wire.Marshal(request{Target: coords.Proxy{At: at, Error: 0.5}, K: 3})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	here := peers.Beacon{At: at}
	f.Fuzz(func(t *testing.T, raw []byte) {
		var q request
		if wire.Unmarshal(raw, &q) != nil || q.validate(dims) != nil {
			return
		}
		if c := candidate(q.Target, here).Cost; q.K < 1 || q.K > maxFound || math.IsNaN(c) ||
			math.IsInf(c, 0) {
			t.Errorf("accepted %+v, at a cost of %v", q, c)
		}
	})
}
