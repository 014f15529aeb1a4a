package assign

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"time"

	"peerd/coords"
)

const (
	// trackHalf is the age at which a download has half the weight of a new one, while there
	// is no evidence that the peer has changed.
	trackHalf = 2 * time.Minute
	// changed is the number of standard errors by which the pages before and after must
	// differ for a change, changePages the number of earlier pages compared, and changeSlow
	// the number of later pages needed to conclude that a peer is slow: a page may be late
	// for many reasons, but none is early.
	changed     = 3.5
	changePages = 6
	changeSlow  = 3
	// worseLeast is the least increase of the logarithm for a peer to have become slower,
	// and worseAge how long that is reported.
	worseLeast = 0.25
	worseAge   = 3 * time.Minute
	// spell is how long passing slowness lasts: the age at which evidence that a peer is slow has
	// half its weight, the time that a clear gain has to last, and that a subnet stays after a
	// move.
	spell = 30 * time.Second
	// bodyLeast is the least size in bytes of a download from which the transfer rate is
	// estimated.
	bodyLeast = 512
	// sigmaPrior is the standard deviation of the logarithm of times assumed before there
	// are samples, and sigmaWeight its weight in samples.
	sigmaPrior, sigmaWeight = 0.2, 4
)

// bodyFixed are the candidates for the fixed part of a body's time, in kB: little where
// the link is slow, much where slow start dominates. The one with the least scatter of
// the times of a peer is used.
var bodyFixed = []float64{0, 1, 4, 16, 64}

// track summarises the downloads of one peer from a subnet, weighted towards the newest.
// Times are in ms.
type track struct {
	// time is the time of a page of typical size without waiting: the weighted median of
	// first byte and body, with the body scaled to the size. NaN without a successful
	// download.
	time float64
	// err is the relative standard error of time.
	err float64
	// last is the time of the newest page, or of the newest two, if they are new: what time
	// may become if they were not chance. NaN otherwise.
	last float64
	// best is close to the best time observed: the lower fifth.
	best float64
	// age of the last download, successful or not.
	age time.Duration
	// failed is the failure rate, weighted towards the newest.
	failed float64
	// fresh is the number of new downloads.
	fresh int
	// worse reports that the peer recently became slower.
	worse bool
	// weight is the sum of all weights, and lost that of the failures.
	weight, lost float64
}

// tracks are those of all peers with downloads.
type tracks struct {
	peers map[string]*track
	// weight and lost sum those of all.
	weight, lost float64
}

// pagesOf groups samples by peer, with the size removed by the best of bodyFixed, and
// returns the spread of the logarithms of a peer's pages.
func pagesOf(samples []coords.Sample, now time.Time) (best map[string][]page, sigma float64) {
	kb := typicalKB(samples)
	groups := make(map[string][]coords.Sample)
	for _, x := range samples {
		groups[x.Peer] = append(groups[x.Peer], x)
	}
	sigma = math.Inf(1)
	for _, fixed := range bodyFixed {
		size := sizes{kb, fixed}
		usual := size.usual(samples)
		pages := make(map[string][]page, len(groups))
		for id, g := range groups {
			pages[id] = size.pages(now, g, usual)
		}
		if x := spreadOf(pages); x < sigma {
			best, sigma = pages, x
		}
	}
	return best, sigma
}

// tracksOf sorts the samples of e by peer.
func tracksOf(e Evidence) tracks {
	best, sigma := pagesOf(e.samples(), e.Now)
	all := tracks{peers: make(map[string]*track, len(best))}
	for _, id := range slices.Sorted(maps.Keys(best)) { // the sums must not depend on the order
		ps := best[id]
		t := trackOf(ps, sigma)
		all.peers[id] = t
		all.weight += t.weight
		all.lost += t.lost
	}
	return all
}

// failedBut returns the failure rate of all peers except t.
func (a tracks) failedBut(t *track) float64 {
	w, l := a.weight-t.weight, a.lost-t.lost
	if w <= 1e-9 {
		return 0
	}
	return max(0, l) / w
}

// typicalKB returns the mean size of the downloads that are not nearly empty.
func typicalKB(samples []coords.Sample) float64 {
	sum, n := 0.0, 0
	for _, x := range samples {
		if !x.Failed && x.Bytes >= bodyLeast {
			sum += float64(x.Bytes) / 1000
			n++
		}
	}
	if n == 0 {
		return 0
	}
	return sum / float64(n)
}

// sizes removes the influence of the size of pages: typical is the size to which they
// are scaled, in kB, fixed one of bodyFixed.
type sizes struct{ typical, fixed float64 }

// body returns the time that a body of the typical size would have taken, in ms.
func (s sizes) body(x coords.Sample) float64 {
	return ms(x.Body) * (s.typical + s.fixed) / (float64(x.Bytes)/1000 + s.fixed)
}

// usual returns the body time assumed for a peer that has only downloaded nearly empty
// pages: the median of all others.
func (s sizes) usual(samples []coords.Sample) float64 {
	var bodies []weighted
	for _, x := range samples {
		if !x.Failed && x.Bytes >= bodyLeast {
			bodies = append(bodies, weighted{s.body(x), 1})
		}
	}
	return quantile(bodies, 0.5)
}

// page is one download with its size removed.
type page struct {
	log    float64 // logarithm of its time, ms
	age    time.Duration
	failed bool
}

// pages returns the pages of one peer in order.
func (s sizes) pages(now time.Time, group []coords.Sample, usual float64) []page {
	out := make([]page, 0, len(group))
	for _, x := range group {
		p := page{age: longAgo, failed: x.Failed}
		switch {
		case now.IsZero():
			p.age = 0
		case !x.Taken.IsZero():
			p.age = max(0, now.Sub(x.Taken))
		}
		p.log = s.page(x, usual)
		out = append(out, p)
	}
	return out
}

// page returns the logarithm of a page's time with its size removed, or with the usual
// body time if it is nearly empty.
func (s sizes) page(x coords.Sample, usual float64) float64 {
	took := ms(x.FirstByte)
	switch {
	case x.Bytes >= bodyLeast:
		took += s.body(x)
	case !math.IsNaN(usual):
		took += usual
	}
	return math.Log(max(took, 0.1))
}

// spreadOf estimates the standard deviation of the logarithms of all peers' pages.
func spreadOf(peers map[string][]page) float64 {
	var diffs []weighted
	for _, ps := range peers {
		diffs = append(diffs, differences(ps)...)
	}
	return spread(diffs, sigmaPrior)
}

// differences returns those between successive pages, so that a change affects only one
// of them.
func differences(ps []page) (diffs []weighted) {
	last, any := 0.0, false
	for _, p := range ps {
		if p.failed {
			continue
		}
		if any {
			diffs = append(diffs, weighted{math.Abs(p.log - last), 1})
		}
		last, any = p.log, true
	}
	return diffs
}

// spread returns the standard deviation estimated from differences and a prior.
func spread(diffs []weighted, prior float64) float64 {
	return quantile(append(diffs, weighted{prior * medianDiff, sigmaWeight}), 0.5) / medianDiff
}

// medianDiff is the median of the difference of two normal numbers of deviation
// 1: 0.6745 times the root of 2.
const medianDiff = 0.954

// trackOf summarises the downloads of one peer, of which there must be at least one.
func trackOf(ps []page, usual float64) *track {
	sigma := spread(differences(ps), usual) // some links vary more than others
	t := &track{time: math.NaN(), best: math.NaN(), last: math.NaN(), err: math.Inf(1),
		age: longAgo}
	plain := make([]weighted, 0, len(ps))
	var fresh []float64
	for _, p := range ps {
		t.age = min(t.age, p.age)
		w := fading(p.age, windowNear)
		t.weight += w
		if p.failed {
			t.lost += w
			continue
		}
		plain = append(plain, weighted{p.log, 1})
		if p.age <= freshAge {
			fresh = append(fresh, p.log)
		}
	}
	t.failed = t.lost / (t.weight + 1e-3)
	if len(plain) == 0 {
		return t
	}
	var logs []float64
	for _, x := range plain {
		logs = append(logs, x.value)
	}
	at := sinceChange(logs, sigma)
	x, err := centre(ps, at, sigma)
	t.time, t.err = math.Exp(x), err
	if cut := len(logs) - at; cut >= changePages {
		t.worse = median(logs[cut:])-median(logs[max(0, cut-changePages):cut]) > worseLeast &&
			agesOf(ps)[cut] <= worseAge
	}
	if n := len(fresh); n > 0 {
		t.fresh = n
		t.last = math.Exp(median(fresh[max(0, n-2):]))
	}
	t.best = math.Exp(quantile(plain, 0.2))
	return t
}

// agesOf returns the ages of the successful downloads.
func agesOf(ps []page) (ages []time.Duration) {
	for _, p := range ps {
		if !p.failed {
			ages = append(ages, p.age)
		}
	}
	return ages
}

// fading returns the weight of a download.
func fading(age, half time.Duration) float64 {
	return max(math.Exp2(-float64(age)/float64(half)), 1e-6)
}

// centre returns the weighted median of the logarithms of the newest n pages and its
// standard error: 1.25 times that of a mean of as many pages as the weights sum up to.
func centre(ps []page, n int, sigma float64) (x, err float64) {
	var xs []weighted
	sum, squares := 0.0, 0.0
	for i := len(ps) - 1; i >= 0 && len(xs) < n; i-- {
		if p := ps[i]; !p.failed {
			w := fading(p.age, trackHalf)
			xs = append(xs, weighted{p.log, w})
			sum += w
			squares += w * w
		}
	}
	return quantile(xs, 0.5), 1.25 * sigma * math.Sqrt(squares) / sum
}

// sinceChange returns the number of newest logarithms after the peer's last change, or
// all of them without a change. It compares medians with the few pages before.
func sinceChange(logs []float64, sigma float64) int {
	most, at := 0.0, len(logs)
	for k := 1; k < len(logs); k++ {
		cut := len(logs) - k
		before := logs[max(0, cut-changePages):cut]
		diff := median(logs[cut:]) - median(before)
		if diff > 0 && k < changeSlow {
			continue
		}
		z := math.Abs(diff) / (1.25 * sigma * math.Sqrt(1/float64(k)+1/float64(len(before))))
		if z < changed {
			if at < len(logs) {
				break
			}
			continue
		}
		if z <= most {
			break
		}
		most, at = z, k
	}
	return at
}

func median(xs []float64) float64 {
	xs = slices.Clone(xs)
	slices.Sort(xs)
	n := len(xs)
	return (xs[(n-1)/2] + xs[n/2]) / 2
}

// expected returns the time expected when a peer is asked again: its last time while that is
// new, and increasingly its best time as it ages.
func (t *track) expected() float64 {
	if math.IsNaN(t.time) {
		return math.NaN()
	}
	good := min(t.best, t.time)
	keep := math.Exp2(-float64(t.age) / float64(spell))
	return math.Exp(keep*math.Log(max(t.time, 0.1)) + (1-keep)*math.Log(max(good, 0.1)))
}

// weighted is a value with a weight.
type weighted struct{ value, weight float64 }

// quantile returns the weighted q-quantile, interpolated between values; NaN without
// values. It sorts its argument.
func quantile(xs []weighted, q float64) float64 {
	if len(xs) == 0 {
		return math.NaN()
	}
	slices.SortFunc(xs, func(a, b weighted) int {
		switch { // no value is NaN
		case a.value < b.value || a.value == b.value && a.weight < b.weight:
			return -1
		case a.value > b.value || a.weight > b.weight:
			return 1
		}
		return 0
	})
	sum := 0.0
	for _, x := range xs {
		sum += x.weight
	}
	at, lastMiddle := 0.0, 0.0
	for i, x := range xs {
		middle := at + x.weight/2
		at += x.weight
		if middle < q*sum {
			lastMiddle = middle
			continue
		}
		if i == 0 {
			return x.value
		}
		share := (q*sum - lastMiddle) / (middle - lastMiddle)
		return xs[i-1].value + share*(x.value-xs[i-1].value)
	}
	return xs[len(xs)-1].value
}

// ms is a duration in milliseconds.
func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// History limits the downloads kept of a subnet to n samples and keeps their order. Of
// every peer it keeps the newest ones, as a review needs them, twice as many of the
// owner self, and some older ones far apart. Peers with many samples lose some first.
// The argument is not changed.
func History(samples []coords.Sample, self string, n int) []coords.Sample {
	if len(samples) <= n {
		return samples
	}
	byPeer := make(map[string][]int)
	for i, x := range samples {
		byPeer[x.Peer] = append(byPeer[x.Peer], i)
	}
	var kept [][]int
	total := 0
	for id, at := range byPeer {
		newest := changePages
		if id == self {
			newest *= 2
		}
		at = thin(samples, at, newest)
		kept = append(kept, at)
		total += len(at)
	}
	for total > n {
		// The peer with the most samples loses one in the middle; of equal ones the peer with
		// the oldest first sample, so that the order of a map does not matter.
		most := slices.MaxFunc(kept, func(a, b []int) int {
			return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(b[0], a[0]))
		})
		i := slices.IndexFunc(kept, func(a []int) bool { return a[0] == most[0] })
		middle := len(kept[i]) / 2
		if kept[i] = slices.Delete(kept[i], middle, middle+1); len(kept[i]) == 0 {
			kept = slices.Delete(kept, i, i+1)
		}
		total--
	}
	at := slices.Concat(kept...)
	slices.Sort(at)
	out := make([]coords.Sample, 0, len(at))
	for _, i := range at {
		out = append(out, samples[i])
	}
	return out
}

// thin chooses among the samples of one peer, by index, in order: the newest ones, and at most
// changePages older ones that are windowNear apart.
func thin(samples []coords.Sample, at []int, newest int) []int {
	cut := max(0, len(at)-newest)
	last := at[cut:]
	var old []int // newest first
	next := samples[last[0]].Taken
	for i := cut - 1; i >= 0; i-- {
		if x := samples[at[i]].Taken; next.Sub(x) >= windowNear {
			old = append(old, at[i])
			next = x
		}
	}
	if len(old) > changePages { // every other one of the oldest half goes
		half := len(old) / 2
		out := old[:half:half]
		for i := half; i < len(old); i += 2 {
			out = append(out, old[i])
		}
		old = out[:min(len(out), changePages)]
	}
	slices.Reverse(old)
	return append(old, last...)
}
