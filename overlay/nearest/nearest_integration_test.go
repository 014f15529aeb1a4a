//go:build integration

package nearest_test

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/coords"
	"peerd/overlay/overlaytest"
	"peerd/overlay/peers"
)

// cost is the cost that Nearest minimizes.
func cost(target coords.Proxy, b peers.Beacon) time.Duration {
	return target.Predict(b.At.Unloaded(b.Wait), 0) + b.Wait
}

// Forty real peers with directories of at most sixteen: each peer is reachable from any other,
// and a search from any peer finds a peer near the target.
func TestPartialDirectories(t *testing.T) {
	const n, size = 40, 16
	members := make([]*member, n)
	for i := range members {
		members[i] = start(t, int64(i+1), members[0], true, func(c *peers.Config) {
			c.MaxPeers, c.MaxConns, c.Partners = size, 8, 8
			// More often would be more than a busy machine can do.
			c.FastInterval, c.SlowInterval, c.SyncInterval = 300*time.Millisecond,
				1200*time.Millisecond, 600*time.Millisecond
			c.SettledError = 0.01 // keeps FastInterval
		})
	}
	index := map[peer.ID]int{}
	for i, m := range members {
		index[m.net.Self()] = i
	}
	overlaytest.Within(t, 10*time.Minute, "all directories are partial", func() bool {
		for _, m := range members {
			if d := m.peers.Directory(); !d.Partial() || d.Len() < size/2 || d.Len() > size {
				return false
			}
		}
		return true
	})
	overlaytest.Within(t, 10*time.Minute, "all peers are reachable from the last", func() bool {
		seen := map[int]bool{n - 1: true}
		for todo := []int{n - 1}; len(todo) > 0; todo = todo[1:] {
			for _, b := range members[todo[0]].peers.Directory().All() {
				if i := index[b.Peer]; !seen[i] {
					seen[i] = true
					todo = append(todo, i)
				}
			}
		}
		return len(seen) == n
	})
	const queries = 40
	good, mostHops := 0, 0
	overlaytest.Within(t, 10*time.Minute,
		"nine of ten searches find a peer within 15 % of the best", func() bool {
			good, mostHops = 0, 0
			rng := rand.New(rand.NewPCG(1, 1))
			for q := range queries {
				at := []float64{rng.Float64() * 200, rng.Float64() * 200}
				target := coords.Proxy{
					At:    coords.Coordinate{Vec: at, Height: 1, Error: 0.1},
					Delay: 5, Scale: 2,
				}
				from := members[q%n]
				found, hops, err := from.nearest.Nearest(context.Background(), target, 3)
				if err != nil {
					t.Fatal(err)
				}
				best := time.Duration(math.MaxInt64)
				for _, m := range members {
					if m != from {
						best = min(best, cost(target, m.peers.Self()))
					}
				}
				if len(found) > 0 && cost(target, found[0]) <= best*115/100 {
					good++
				}
				for _, b := range found {
					if !from.peers.Directory().Alive(b.Peer) {
						t.Errorf("found %s, which is not in the directory", b.Peer)
					}
				}
				mostHops = max(mostHops, hops)
			}
			return good >= queries*9/10
		})
	t.Logf("%d of %d searches succeeded, with at most %d hops", good, queries, mostHops)
	if most := int(math.Log2(n)); mostHops > most {
		t.Errorf("hops of a search = %d, want at most %d", mostHops, most)
	}
}
