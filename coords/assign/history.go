package assign

import (
	"math"
	"slices"
	"time"

	"peerd/coords"
)

// History limits the downloads kept of a subnet, oldest first, to n and keeps their order. It
// removes those next to which, before and after, the same peer has others at about the same time,
// by the gap as a share of the age, and of a peer with many samples more than of one with few. The
// newest and the oldest of each peer remain if n permits. The argument is not changed.
func History(samples []coords.Sample, n int) []coords.Sample {
	if len(samples) <= n {
		return samples
	}
	now := samples[0].Taken
	for _, x := range samples {
		if x.Taken.After(now) {
			now = x.Taken
		}
	}
	out := slices.Clone(samples)
	for len(out) > n {
		i := leastGap(out, now)
		out = slices.Delete(out, i, i+1)
	}
	return out
}

// leastGap returns the sample of which the neighbours of the same peer are nearest to each other,
// as a share of its age, and by the number of samples of the peer.
func leastGap(samples []coords.Sample, now time.Time) (at int) {
	least := math.Inf(1)
	next := make(map[string]int, len(samples)) // of each peer: the sample after the current one
	after := make(map[string]int, len(samples))
	count := make(map[string]int, len(samples))
	for _, x := range samples {
		count[x.Peer]++
	}
	share := func(i int, first time.Time) {
		x := samples[i]
		j, ok := after[x.Peer]
		if !ok {
			return // the newest, or samples before it
		}
		gap := samples[j].Taken.Sub(first).Seconds() / max(now.Sub(x.Taken).Seconds(), 1e-9)
		gap /= float64(count[x.Peer])
		if gap < least || gap == least && i < at {
			at, least = i, gap
		}
	}
	for i := len(samples) - 1; i >= 0; i-- {
		id := samples[i].Peer
		if j, ok := next[id]; ok {
			share(j, samples[i].Taken)
			after[id] = j
		}
		next[id] = i
	}
	return at
}
