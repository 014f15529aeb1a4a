package similar

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	_ "peerd/internal/rapidtest"
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
			n := c.Add(d)
			if n > truth[d] || n < 1 || kinds < MaxClusters && n != truth[d] {
				t.Fatalf("Add() = %d, want at most %d, and that if all digests fit", n, truth[d])
			}
		}
		frequent := id(-1)
		if got := c.Add(frequent); got <= truth[frequent]-pages/MaxClusters {
			t.Fatalf("count of the most frequent digest = %d, want about %d", got, truth[frequent])
		}
	})
}

// id returns a different digest for each number.
func id(n int) store.Digest { return Digest(fmt.Append(nil, n)) }
