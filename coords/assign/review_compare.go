package assign

import (
	"math"
	"slices"
	"time"

	"peerd/coords"
)

const (
	// windowSpan is the distance in time up to which pages of a peer are one observation,
	// because they share conditions; the time between two reviews.
	windowSpan = 4 * time.Second
	// windowNear is the distance in time up to which the owner's pages are compared with
	// those of another peer, the age at which a failure has half its weight, and the least time
	// between two scouts and between two of the older pages that are kept.
	windowNear = 20 * time.Second
	// windowMax is the number of windows used.
	windowMax = 16
	// windowPrior is the weight, in windows, of the expected scatter beside the observed
	// one, and of there being no drift; windowOutlier the number of deviations at which a window
	// is clipped.
	windowPrior   = 8
	windowOutlier = 2
	// driftUsual is the standard error of the logarithm that paths and peers show by drifting
	// from time to time, and driftSpan how long that lasts: a smaller lead has to last longer.
	driftUsual = 0.08
	driftSpan  = time.Minute
	// freshAge is the age up to which a page is new. A peer without a new page does not
	// become the owner.
	freshAge = driftSpan
)

// window compares one peer's pages of some seconds with the owner's around them: slow
// periods of the server affect both. Each page is in at most one window of a peer, so
// that windows are independent except for drifts of the peers.
type window struct {
	first, last time.Duration // ages
	ours        []float64     // logarithms
	theirs      []float64
	lead        float64 // logarithm of the ratio of the owner's time to theirs
	white       float64 // variance of lead caused by the scatter of pages
}

// windows pairs the successful pages of two peers, each oldest first. The result is
// newest first.
func windows(ours, theirs []page, usual float64) (out []window) {
	for i := len(theirs) - 1; i >= 0; i-- {
		p := theirs[i]
		if p.failed {
			continue
		}
		if n := len(out); n > 0 && p.age-out[n-1].last <= windowSpan {
			b := &out[n-1]
			b.first, b.theirs = p.age, append(b.theirs, p.log)
			continue
		}
		out = append(out, window{first: p.age, last: p.age, theirs: []float64{p.log}})
	}
	for _, p := range ours {
		if p.failed {
			continue
		}
		near, at := windowNear+1, -1
		for i, b := range out {
			if d := max(0, p.age-b.first, b.last-p.age); d < near {
				near, at = d, i
			}
		}
		if at >= 0 {
			out[at].ours = append(out[at].ours, p.log)
		}
	}
	out = slices.DeleteFunc(out, func(b window) bool { return len(b.ours) == 0 })
	so, st := spread(differences(ours), usual), spread(differences(theirs), usual)
	for i := range out {
		b := &out[i]
		b.lead = median(b.ours) - mean(b.theirs)
		b.white = so*so*1.57/float64(len(b.ours)) + st*st/float64(len(b.theirs))
	}
	return out
}

func mean(xs []float64) float64 {
	sum := 0.0
	for _, x := range xs {
		sum += x
	}
	return sum / float64(len(xs))
}

// drift returns the variance of the lead from window to window beyond the scatter of
// pages, over all peers. A single step has little influence, because it is one
// difference of many.
func drift(all [][]window) float64 {
	var diffs []weighted
	white, n := 0.0, 0
	for _, bs := range all {
		for i, b := range bs {
			white += b.white
			n++
			if i > 0 {
				diffs = append(diffs, weighted{math.Abs(b.lead - bs[i-1].lead), 1})
			}
		}
	}
	if n == 0 {
		return 0
	}
	white /= float64(n)
	diffs = append(diffs, weighted{math.Sqrt(white) * medianDiff, windowPrior})
	sd := quantile(diffs, 0.5) / medianDiff
	return max(0, sd*sd-white)
}

// judge returns the probability that a peer does not save the margin, for the number of windows,
// newest first, with the clearest result; it needs the number least of them. The posterior of
// the mean lead is a Student's t distribution; its scatter combines the expectation from
// pages and drift, with weight windowPrior, and the observation. It tries every number
// of windows, because after a step only the newest are valid.
func judge(bs []window, drift, margin float64, least int) float64 {
	out := 1.0
	if len(bs) < least || bs[0].last > freshAge {
		return out
	}
	bar := -math.Log(1 - margin)
	for n := least; n <= min(len(bs), windowMax); n++ {
		lead, squares, white := steady(bs[:n], drift)
		k := float64(n)
		nu := windowPrior + k - 1
		v := (windowPrior*white + squares) / nu
		span := (bs[n-1].first - bs[0].last).Seconds() / driftSpan.Seconds()
		err := math.Sqrt(v/k + max(drift, driftUsual*driftUsual)/(1+span))
		out = min(out, studentTail((lead-bar)/err, nu))
	}
	return out
}

// steady returns the mean lead, the sum of squares about it and the mean variance by
// scatter. Windows farther than windowOutlier deviations from the median, such as those
// with a single late page, are clipped.
func steady(bs []window, drift float64) (lead, squares, white float64) {
	xs := make([]float64, len(bs))
	for i, b := range bs {
		xs[i] = b.lead
	}
	middle := median(xs)
	for i, b := range bs {
		white += b.white / float64(len(bs))
		out := windowOutlier * math.Sqrt(b.white+drift)
		xs[i] = min(max(b.lead, middle-out), middle+out)
	}
	lead = mean(xs)
	for _, x := range xs {
		squares += (x - lead) * (x - lead)
	}
	return lead, squares, white
}

// studentTail returns the probability that a variable with Student's t distribution of
// nu degrees of freedom exceeds t, by Wallace's approximation (1959): within a tenth for
// nu >= 8 down to 1e-6.
func studentTail(t, nu float64) float64 {
	z := math.Sqrt(nu*math.Log1p(t*t/nu)) * (8*nu + 1) / (8*nu + 3)
	return 0.5 * math.Erfc(math.Copysign(z, t)/math.Sqrt2)
}

// binomialTail returns the probability of k or more of n, each with probability p.
func binomialTail(k, n int, p float64) float64 {
	sum, term := 0.0, math.Pow(1-p, float64(n))
	for i := 0; i <= n; i++ {
		if i >= k {
			sum += term
		}
		term *= float64(n-i) / float64(i+1) * p / (1 - p)
	}
	return min(1, sum)
}

// waiting adds a waiting time to pages, ms.
func waiting(ps []page, wait float64) []page {
	if wait <= 0 {
		return ps
	}
	ps = slices.Clone(ps)
	for i := range ps {
		ps[i].log = math.Log(math.Exp(ps[i].log) + wait)
	}
	return ps
}

// compare returns the p-value of the comparison of the better peer with the owner.
func (c MoveConfig) compare(
	samples []coords.Sample, self string, r Review, now time.Time,
) float64 {
	pages, usual := pagesOf(samples, now)
	ours := waiting(pages[self], ms(r.WaitSelf))
	var mine []window
	var all [][]window
	for id, ps := range pages {
		if id == self {
			continue
		}
		if id == r.Better {
			ps = waiting(ps, ms(r.WaitBetter))
		}
		bs := windows(ours, ps, usual)
		if all = append(all, bs); id == r.Better {
			mine = bs
		}
	}
	return judge(mine, drift(all), c.Margin, c.Confirm)
}

// failing returns the probability that the owner would have failed as often in the last
// minute if it were like the others.
func failing(samples []coords.Sample, self string, now time.Time) float64 {
	k, n, others, failed := 0, 0, 0, 0
	for _, x := range samples {
		switch {
		case x.Peer != self:
			if others++; x.Failed {
				failed++
			}
		case now.Sub(x.Taken) <= time.Minute:
			if n++; x.Failed {
				k++
			}
		}
	}
	if k == 0 {
		return 1
	}
	return binomialTail(k, n, float64(failed+1)/float64(others+2))
}

// rate returns the current number of pages of a subnet that its owner fetches per hour.
func rate(samples []coords.Sample, self string) float64 {
	var gaps []weighted
	var next time.Time
	for i := len(samples) - 1; i >= 0 && len(gaps) < 2*changePages; i-- {
		if x := samples[i]; x.Peer == self {
			if !next.IsZero() {
				gaps = append(gaps, weighted{max(next.Sub(x.Taken).Seconds(), 0.01), 1})
			}
			next = x.Taken
		}
	}
	if len(gaps) == 0 {
		return 0
	}
	return 3600 / quantile(gaps, 0.5)
}

// former returns the owner before a move at the given time: the peer that fetched most
// pages in the minute before, at least three; "" if it is not known.
func former(samples []coords.Sample, self string, moved time.Time) string {
	counts := map[string]int{}
	best := ""
	for _, x := range samples {
		if age := moved.Sub(x.Taken); x.Peer != self && age >= 0 && age <= time.Minute {
			n := counts[x.Peer] + 1
			counts[x.Peer] = n
			if n >= 3 && (best == "" || n > counts[best]) {
				best = x.Peer
			}
		}
	}
	return best
}
