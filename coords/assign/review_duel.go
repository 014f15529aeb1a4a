package assign

import (
	"math"
	"slices"
	"time"

	"peerd/coords"
)

const (
	// boutSpan is how far apart pages of a peer may be to count as one
	// observation: what comes at once shares what there is at the time.
	boutSpan = 5 * time.Second
	// boutNear is how long before or after that the owner's pages may have come
	// with which they are compared.
	boutNear = 20 * time.Second
	// boutAge is how old the newest bout may be, and boutMax how many count.
	boutAge = 45 * time.Second
	boutMax = 16
	// boutPrior is for how many bouts the expected scatter counts beside what
	// the bouts themselves show, boutOut for how many deviations one counts at
	// most, and driftPrior for how many bouts it counts that there is no drift.
	boutPrior  = 8
	boutOut    = 2
	driftPrior = 12
	// driftLeast is the part of the standard error of the logarithm that no
	// number of bouts takes away, driftUsual the one that paths and peers have by
	// drifting now and then, and driftSpan how long that lasts: what is to be
	// believed of less has to show for longer.
	driftLeast = 0.03
	driftUsual = 0.08
	driftSpan  = time.Minute
	// rateOf is of how many pages of the owner the page rate is the median.
	rateOf = 12
)

// bout compares one peer's pages of some seconds with the owner's around them:
// a mood of the server shows in both. Each page is in one bout of a peer at
// most, so that bouts are independent but for drifts of the peers themselves.
type bout struct {
	first, last time.Duration // ages
	ours        []float64     // logarithms
	theirs      []float64
	lead        float64 // logarithm of the owner's time ÷ theirs
	white       float64 // variance of lead by the scatter of pages
}

// bouts compares the successful pages of two peers, oldest first each. The
// result is newest first.
func bouts(ours, theirs []page, usual float64) (out []bout) {
	for i := len(theirs) - 1; i >= 0; i-- {
		p := theirs[i]
		if p.failed {
			continue
		}
		if n := len(out); n > 0 && p.age-out[n-1].last <= boutSpan {
			b := &out[n-1]
			b.first, b.theirs = p.age, append(b.theirs, p.log)
			continue
		}
		out = append(out, bout{first: p.age, last: p.age, theirs: []float64{p.log}})
	}
	for _, p := range ours {
		if p.failed {
			continue
		}
		near, at := boutNear+1, -1
		for i, b := range out {
			if d := max(0, p.age-b.first, b.last-p.age); d < near {
				near, at = d, i
			}
		}
		if at >= 0 {
			out[at].ours = append(out[at].ours, p.log)
		}
	}
	out = slices.DeleteFunc(out, func(b bout) bool { return len(b.ours) == 0 })
	so, st := spread(differences(ours), usual), spread(differences(theirs), usual)
	so, st = max(so, spreadLeast), max(st, spreadLeast)
	for i := range out {
		b := &out[i]
		b.lead = median(b.ours) - mean(b.theirs)
		b.white = so*so*1.57/float64(len(b.ours)) + st*st/float64(len(b.theirs))
	}
	return out
}

// spreadLeast is the least scatter of pages that is believed.
const spreadLeast = 0.1

func mean(xs []float64) float64 {
	sum := 0.0
	for _, x := range xs {
		sum += x
	}
	return sum / float64(len(xs))
}

// drift is the variance of the lead of any peer from bout to bout beyond what the
// scatter of pages makes: of one that stays as it is, for a step is one difference
// of many.
func drift(all [][]bout) float64 {
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
	diffs = append(diffs, weighted{math.Sqrt(white) * medianDiff, driftPrior})
	sd := quantile(diffs, 0.5) / medianDiff
	return max(0, sd*sd-white)
}

// duel is what the bouts with one peer come to.
type duel struct {
	// doubt is the probability that the peer does not save the margin, by the
	// newest bouts: by as many as speak for it most clearly.
	doubt float64
	// lead is the mean logarithm of the owner's time ÷ its own, in those.
	lead float64
}

// judge weighs bouts, newest first, of which at least least must agree. The
// posterior of the mean lead is Student's: the scatter is what pages and drift
// amount to, for boutPrior bouts, and what the bouts show. Every number of
// bouts back is looked at, as after a step only the newest tell.
func judge(bs []bout, drift, margin float64, least int) duel {
	out := duel{doubt: 1}
	if len(bs) < least || bs[0].last > boutAge {
		return out
	}
	bar := -math.Log(1 - margin)
	for n := least; n <= min(len(bs), boutMax); n++ {
		lead, squares, white := steady(bs[:n], drift)
		k := float64(n)
		nu := boutPrior + k - 1
		v := (boutPrior*white + squares) / nu
		span := (bs[n-1].first - bs[0].last).Seconds() / driftSpan.Seconds()
		err := math.Sqrt(v/k + driftLeast*driftLeast + max(drift, driftUsual*driftUsual)/(1+span))
		if p := studentTail((lead-bar)/err, nu); p < out.doubt {
			out = duel{p, lead}
		}
	}
	return out
}

// steady returns the mean lead, the sum of the squares about it and the mean
// variance by scatter. A bout further than boutOut deviations from the middle,
// as a single late page makes it, counts as one that is that far.
func steady(bs []bout, drift float64) (lead, squares, white float64) {
	xs := make([]float64, len(bs))
	for i, b := range bs {
		xs[i] = b.lead
	}
	middle := median(xs)
	for i, b := range bs {
		white += b.white / float64(len(bs))
		out := boutOut * math.Sqrt(b.white+drift)
		xs[i] = min(max(b.lead, middle-out), middle+out)
	}
	lead = mean(xs)
	for _, x := range xs {
		squares += (x - lead) * (x - lead)
	}
	return lead, squares, white
}

// studentTail is the probability that a variable of Student's distribution of
// nu degrees of freedom exceeds t, by Wallace's approximation (1959): within a
// tenth of it for nu >= 8 as far as 1e-6.
func studentTail(t, nu float64) float64 {
	z := math.Sqrt(nu*math.Log1p(t*t/nu)) * (8*nu + 1) / (8*nu + 3)
	return 0.5 * math.Erfc(math.Copysign(z, t)/math.Sqrt2)
}

// binomialTail is the probability of k or more of n, each of probability p.
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

// duelOf lets another peer compete with the owner.
func (c PatienceConfig) duelOf(samples []coords.Sample, self string, r Review, now time.Time) duel {
	pages, usual := pagesOf(samples, now)
	ours := waiting(pages[self], ms(r.WaitSelf))
	var mine []bout
	var all [][]bout
	for id, ps := range pages {
		if id == self {
			continue
		}
		if id == r.Better {
			ps = waiting(ps, ms(r.WaitBetter))
		}
		bs := bouts(ours, ps, usual)
		if all = append(all, bs); id == r.Better {
			mine = bs
		}
	}
	return judge(mine, drift(all), c.Margin, c.Confirm)
}

// failing says how likely it is that the owner failed as often as it did in the
// last minute if it were like the others.
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

// rate is how many pages of a subnet its owner fetches in an hour, at present.
func rate(samples []coords.Sample, self string) float64 {
	var gaps []weighted
	var next time.Time
	for i := len(samples) - 1; i >= 0 && len(gaps) < rateOf; i-- {
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

// former is the owner before a move at a time: who fetched most in the minute
// before, three pages at least; "" if that is unknown.
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
