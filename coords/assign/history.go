package assign

import (
	"math"
	"slices"
	"time"

	"peerd/coords"
)

// HistorySize is the number of downloads that the owner of a subnet keeps by History, which it
// calls when there are a quarter more.
const HistorySize = 96

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
	t := newThinning(samples, now)
	for range len(samples) - n {
		t.remove(t.least())
	}
	out := make([]coords.Sample, 0, n)
	for i, x := range samples {
		if !t.links[i].removed {
			out = append(out, x)
		}
	}
	return out
}

// thinning removes samples one by one.
type thinning struct {
	samples []coords.Sample
	links   []link    // of each sample
	gaps    []float64 // of each sample: see gap; infinite: it remains
	count   []int     // samples left, by link.peer
	now     time.Time
}

// link connects a sample with those of the same peer before and after it; -1: there is none.
type link struct {
	peer, before, after int
	removed             bool
}

func newThinning(samples []coords.Sample, now time.Time) *thinning {
	t := &thinning{samples: samples, now: now,
		links: make([]link, len(samples)), gaps: make([]float64, len(samples))}
	var last []int // sample of each peer
	peers := make(map[string]int)
	for i, x := range samples {
		p, ok := peers[x.Peer]
		if !ok {
			p = len(peers)
			peers[x.Peer] = p
			last, t.count = append(last, -1), append(t.count, 0)
		}
		t.links[i] = link{peer: p, before: last[p], after: -1}
		if last[p] >= 0 {
			t.links[last[p]].after = i
		}
		last[p] = i
		t.count[p]++
	}
	for i := range samples {
		t.gaps[i] = t.gap(i)
	}
	return t
}

// gap returns the time between the neighbours of sample i, as a share of its age.
func (t *thinning) gap(i int) float64 {
	l := t.links[i]
	if l.removed || l.before < 0 || l.after < 0 {
		return math.Inf(1)
	}
	apart := t.samples[l.after].Taken.Sub(t.samples[l.before].Taken).Seconds()
	return apart / max(t.now.Sub(t.samples[i].Taken).Seconds(), 1e-9)
}

// least returns the sample with the least gap for each sample of its peer; the oldest of all if
// every sample is the newest or the oldest of its peer.
func (t *thinning) least() (at int) {
	least := math.Inf(1)
	for i, gap := range t.gaps {
		if gap /= float64(t.count[t.links[i].peer]); gap < least {
			at, least = i, gap
		}
	}
	if math.IsInf(least, 1) {
		return slices.IndexFunc(t.links, func(l link) bool { return !l.removed })
	}
	return at
}

// remove removes sample i.
func (t *thinning) remove(i int) {
	l := t.links[i]
	t.links[i].removed = true
	t.gaps[i] = math.Inf(1)
	t.count[l.peer]--
	if l.before >= 0 {
		t.links[l.before].after = l.after
		t.gaps[l.before] = t.gap(l.before)
	}
	if l.after >= 0 {
		t.links[l.after].before = l.before
		t.gaps[l.after] = t.gap(l.after)
	}
}
