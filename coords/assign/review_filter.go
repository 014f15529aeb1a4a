package assign

import (
	"maps"
	"math"
	"slices"
	"time"
)

const (
	// levelDrift is the standard deviation of the logarithm by which the level of a peer or a
	// server drifts in a minute.
	levelDrift = 0.08
	// levelSigma is the deviation of the logarithm of what is unusual: of the levels of peers
	// before pages are known, of a level after a change, and of a late page.
	levelSigma = 0.7
	// lateShare is the share of pages that are late for reasons of their own.
	lateShare = 0.1
	// longAgo is the mean time between two changes of a level, and the age of a download without
	// a time.
	longAgo = 20 * time.Minute
)

// levels is what is known of the logarithms of the times of a subnet's pages, after some pages: a
// level that all peers share, that of the servers, at index 0, and one of each peer, relative to
// it. They drift, and change suddenly at times. They have a joint normal distribution, which each
// page updates: as it is, or for a changed level, or with a late page, each as probable as the
// page makes it; the mixture is replaced by the normal distribution with its moments.
type levels struct {
	index  map[string]int
	mean   []float64
	cov    [][]float64
	usual  []float64       // least mean so far
	age    []time.Duration // of the newest page; negative without
	now    time.Duration   // age of the newest page of all
	failed float64         // time that a failure costs, ms
	sigma  []float64       // scatter of the pages of each peer
}

// levelsOf filters the pages of a subnet.
func levelsOf(pages []page, sigmas map[string]float64, failure time.Duration) *levels {
	l := &levels{index: map[string]int{}, failed: ms(failure)}
	for i, id := range slices.Sorted(maps.Keys(sigmas)) {
		l.index[id] = i + 1
	}
	n := len(l.index) + 1
	l.mean, l.cov, l.usual = make([]float64, n), make([][]float64, n), make([]float64, n)
	l.age = slices.Repeat([]time.Duration{-1}, n)
	l.sigma = make([]float64, n)
	for id, i := range l.index {
		l.sigma[i] = sigmas[id]
	}
	for i := range n {
		l.cov[i] = make([]float64, n)
		l.cov[i][i] = levelSigma * levelSigma
		l.usual[i] = math.Inf(1)
	}
	var logs []weighted
	for _, p := range pages {
		if l.now = max(l.now, p.age); !p.failed {
			logs = append(logs, weighted{p.log, 1})
		}
	}
	l.age[0] = l.now
	if l.mean[0] = math.Log1p(l.failed); len(logs) > 0 {
		l.mean[0] = quantile(logs, 0.5)
	}
	for _, p := range pages {
		l.add(p, l.index[p.peer], sigmas[p.peer])
	}
	return l
}

// changed is the probability that a level has changed in a time.
func changed(d time.Duration) float64 { return -math.Expm1(-d.Seconds() / longAgo.Seconds()) }

// add updates the levels by a page of peer i.
func (l *levels) add(p page, i int, sigma float64) {
	l.pass(l.now - p.age)
	l.now = p.age
	at := l.mean[0] + l.mean[i]
	log := p.log
	if p.failed {
		log = math.Log(math.Exp(at) + l.failed)
	}
	server, peer := changed(l.age[0]-p.age), 0.0
	if l.age[i] >= 0 {
		peer = changed(l.age[i] - p.age)
	}
	l.age[0], l.age[i] = p.age, p.age
	const unusual = levelSigma * levelSigma
	noise := sigma * sigma
	same, late := (1-server)*(1-peer), 0.0
	if log > at { // none is early
		late = 2 * lateShare
	}
	l.mix(i, log-at, []guess{{0, 0, noise, same * (1 - lateShare)},
		{0, 0, noise + unusual, same * late},
		{0, unusual, noise, server * (1 - peer)}, {i, unusual, noise, peer}})
	l.usual[i] = min(l.usual[i], l.mean[i])
}

// pass lets levels drift.
func (l *levels) pass(d time.Duration) {
	if d <= 0 {
		return
	}
	for i := range l.cov {
		l.cov[i][i] += levelDrift * levelDrift * d.Minutes()
	}
}

// guess is one explanation of a page: the level at has changed by a normal number with the variance
// jump, and the page scatters with the variance noise.
type guess struct {
	at                 int
	jump, noise, prior float64
}

// mix updates the levels by the difference of a page of peer i to what was expected.
func (l *levels) mix(i int, off float64, guesses []guess) {
	n := len(l.mean)
	row := make([]float64, n) // covariances with the page's level
	for j := range n {
		row[j] = l.cov[0][j] + l.cov[i][j]
	}
	v := row[0] + row[i]
	sum := 0.0
	for k := range guesses {
		g := &guesses[k]
		s := v + g.jump + g.noise
		g.prior *= math.Exp(-off*off/s/2) / math.Sqrt(s)
		sum += g.prior
	}
	if !(sum > 0) {
		return
	}
	// The gain of guess k is (row + jump·e_at) / s. Moments are sums over the guesses.
	move := make([]float64, n)
	steps := make([][]float64, len(guesses))
	for k, g := range guesses {
		steps[k] = slices.Clone(row)
		steps[k][g.at] += g.jump
		for j := range n {
			move[j] += g.prior / sum * steps[k][j] * off / (v + g.jump + g.noise)
		}
	}
	for k, g := range guesses {
		w, s := g.prior/sum, v+g.jump+g.noise
		l.cov[g.at][g.at] += w * g.jump
		f := w * (off*off/s - 1) / s
		for a := range n {
			for b := range n {
				l.cov[a][b] += f * steps[k][a] * steps[k][b]
			}
		}
	}
	for a := range n {
		for b := range n {
			l.cov[a][b] -= move[a] * move[b]
		}
		l.mean[a] += move[a]
	}
}

// lead is the distribution of the logarithm of the ratio of the owner's time to another peer's,
// waiting times included: normal with mean and variance. After one more page of the other peer the
// mean is another one, with the variance learnt. With the probability back, a peer that became slow
// is as fast as usual again, and the mean is usual.
type lead struct{ mean, variance, learnt, back, usual float64 }

// lead returns that of peer b over peer a, with these waiting times in ms. Both have pages.
func (l *levels) lead(a, b int, waitA, waitB float64) lead {
	ta, tb := l.time(a), l.time(b)
	fa, fb := ta/(ta+waitA), tb/(tb+waitB)
	d := lead{mean: math.Log((ta + waitA) / (tb + waitB)),
		usual: math.Log((ta + waitA) / (math.Exp(l.mean[0]+l.usual[b]) + waitB)),
		back:  1 - math.Exp2(-l.age[b].Seconds()/spell.Seconds())}
	x, at, in := []float64{fa - fb, fa, -fb}, []int{0, a, b}, []float64{1, 0, 1}
	shared, page := 0.0, l.sigma[b]*l.sigma[b] // covariance with a page of b, and its variance
	for i := range x {
		for j := range x {
			d.variance += x[i] * x[j] * l.cov[at[i]][at[j]]
			shared += x[i] * in[j] * l.cov[at[i]][at[j]]
			page += in[i] * in[j] * l.cov[at[i]][at[j]]
		}
		since := levelDrift*levelDrift*l.now.Minutes() +
			levelSigma*levelSigma*changed(l.age[at[i]])
		d.variance += x[i] * x[i] * since
		shared += x[i] * in[i] * since
		page += in[i] * since
	}
	d.learnt = shared * shared / page
	return d
}

// doubt returns the probability that the lead is less than bar.
func (d lead) doubt(bar float64) float64 {
	return math.Erfc((d.mean-bar)/math.Sqrt(2*d.variance)) / 2
}

// promise returns the expectation of what the lead will exceed bar by, or 0, after one more page of
// the other peer: the knowledge gradient (Frazier et al. 2008). That the owner's level is uncertain
// does not count: its own next page shows it.
func (d lead) promise(bar float64) float64 {
	p := func(mean float64) float64 {
		sd := math.Sqrt(d.learnt)
		z := (mean - bar) / sd
		return sd*math.Exp(-z*z/2)/math.Sqrt(2*math.Pi) + (mean-bar)*math.Erfc(-z/math.Sqrt2)/2
	}
	return (1-d.back)*p(d.mean) + d.back*p(d.usual)
}

// time is the present time of a page of peer i, ms.
func (l *levels) time(i int) float64 { return math.Exp(l.mean[0] + l.mean[i]) }
