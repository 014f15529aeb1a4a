package similar

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"peerd/store"
)

func TestClusters(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		kinds := rapid.IntRange(1, 3*MaxClusters).Draw(t, "digests")
		var c Clusters
		truth := map[store.Digest]int{}
		pages := 2000
		for range pages {
			d := id(r.IntN(kinds))
			if r.IntN(3) == 0 {
				d = id(-1)
			}
			truth[d]++
			if n := c.Add(d); n > truth[d] || n < 1 || n != c.Count(d) {
				t.Fatalf("counted %d, there were %d", n, truth[d])
			}
			if kinds < MaxClusters && c.Count(d) != truth[d] {
				t.Fatal("not exact, though all fit")
			}
		}
		if got := c.Count(id(-1)); got < truth[id(-1)]-pages/MaxClusters {
			t.Fatalf("the most frequent counted as %d of %d", got, truth[id(-1)])
		}
		b, err := c.MarshalBinary()
		var again Clusters
		if err != nil || again.UnmarshalBinary(b) != nil || !slices.Equal(again.list, c.list) {
			t.Fatal("changed on the way")
		}
	})
}

func FuzzClusters(f *testing.F) {
	f.Add(make([]byte, clusterSize))
	f.Add(append(make([]byte, 19), 1, 0, 0, 0, 0))
	f.Fuzz(func(t *testing.T, b []byte) {
		var c Clusters
		if err := c.UnmarshalBinary(b); err != nil {
			if !errors.Is(err, ErrClusters) {
				t.Fatal(err)
			}
			return
		}
		if again, err := c.MarshalBinary(); err != nil || !bytes.Equal(again, b) {
			t.Fatal("not what was read")
		}
		for i := range 200 {
			c.Add(id(i))
		}
	})
}
