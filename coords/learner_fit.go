package coords

import "math"

// learn refits the peer to its memory: bias and loadings, given what owners publish of
// the servers, then noise and failure rate. It is the maximisation step of the factor
// analysis; locateHost is the expectation step. The other peers form the prior.
func (l *Learner) learn() {
	type row struct {
		host hostView
		time float64
	}
	var rows []row
	failed, tried := failPrior*failCount, failCount
	for _, name := range l.Subnets() {
		r := l.memory[name]
		failed += float64(r.failed)
		tried += float64(max(r.failed, len(r.times)))
		if h, ok := unpackHost(r.server); ok && len(r.times) > 0 {
			rows = append(rows, row{host: h, time: lowerMedian(r.times)})
		}
	}
	p := l.own
	p.failRate = failed / tried
	if len(rows) == 0 {
		fresh := initialPeer(l.id)
		p.mean, p.noise = fresh.mean, fresh.noise
		for i := range unknowns {
			p.mean[i] += l.prior.mean[i] - priorPeer[i]
		}
		l.own = p
		return
	}
	var a matrix
	var g [unknowns]float64
	for i := range unknowns {
		a[i][i] = p.noise * p.noise / l.prior.spread[i]
		g[i] = a[i][i] * l.prior.mean[i]
	}
	weights := make([]float64, len(rows))
	for k := range rows {
		r := &rows[k]
		mean, variance := p.at(&r.host)
		w := p.weight(r.time-mean, variance)
		weights[k] = w
		a[0][0] += w
		g[0] += w * r.time
		for i := range Factors {
			x := r.host.mean[i]
			g[i+1] += w * x * r.time
			a[i+1][0] += w * x
			for j := range i + 1 {
				a[i+1][j+1] += w * (x*r.host.mean[j] + r.host.cov[i][j])
			}
		}
	}
	inv := inverse(&a, unknowns)
	for i := range unknowns {
		s := 0.0
		for j := range unknowns {
			s += inv[i][j] * g[j]
		}
		p.mean[i] = clamp(s, -loadingMax, loadingMax)
		if i == 0 {
			p.mean[i] = clamp(s, -levelMax, levelMax)
		}
	}
	sum, count := noisePrior*noiseCount, noiseCount
	for k := range rows {
		mean, variance := p.at(&rows[k].host)
		e := rows[k].time - mean
		sum += weights[k] * (e*e + variance)
		count++
	}
	p.noise = clamp(math.Sqrt(sum/count), noiseMin, noiseMax)
	l.own = p
}

// population is the distribution of the known peers: the prior of a peer's own bias and
// loadings.
type population struct {
	mean, spread [unknowns]float64 // spread holds variances
}

// defaultPopulation returns the prior while no other peer is known.
func defaultPopulation() population {
	o := population{mean: priorPeer}
	for i := range o.spread {
		o.spread[i] = loadingPrior
	}
	return o
}

// ObservePeers processes the traits that other peers publish: a peer with few downloads
// is assumed to resemble them. Malformed traits are ignored. Medians keep the influence
// of lying peers small as long as they are a minority.
func (l *Learner) ObservePeers(others []Traits) {
	var columns [unknowns][]float64
	for _, t := range others {
		if p, ok := unpackPeer(t); ok {
			for i, x := range p.mean {
				columns[i] = append(columns[i], x)
			}
		}
	}
	l.prior = defaultPopulation()
	if len(columns[0]) == 0 {
		return
	}
	for i, c := range columns[:2] { // the mean of the others stays 0: their signs have no meaning
		m := lowerMedian(c)
		l.prior.mean[i] = m
	}
}
