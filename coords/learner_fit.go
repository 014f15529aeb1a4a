package coords

import "math"

// learn refits the peer from its memory: bias and loadings given what the
// owners believe of the servers, then its noise and failures. It is the step of
// maximisation of the factor analysis whose other half is locateHost, with the
// other peers as its prior.
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
		if h, ok := unpackHost(r.told); ok && len(r.times) > 0 {
			rows = append(rows, row{host: h, time: lowerMedian(r.times)})
		}
	}
	p := l.now
	p.fails = failed / tried
	if len(rows) == 0 {
		fresh := freshPeer(l.id)
		p.mean, p.noise = fresh.mean, fresh.noise
		for i := range unknowns {
			p.mean[i] += l.others.mean[i] - priorPeer[i]
		}
		l.now = p
		return
	}
	for range l.cfg.Sweeps {
		var a matrix
		var g [unknowns]float64
		for i := range unknowns {
			a[i][i] = p.noise * p.noise / l.others.spread[i]
			g[i] = a[i][i] * l.others.mean[i]
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
	}
	l.now = p
}

// population is what the peers that are known have in common: the prior of a
// peer's own bias and loadings.
type population struct {
	mean, spread [unknowns]float64 // spread: variances
}

// everybody is what is assumed while no other peer is known.
func everybody() population {
	o := population{mean: priorPeer}
	for i := range o.spread {
		o.spread[i] = loadingPrior
	}
	return o
}

// Meet takes what other peers publish of themselves: where little was
// downloaded, a peer is assumed to be like the others. Traits that are malformed
// are passed over. A third of liars does not move it far: it looks at medians.
func (l *Learner) Meet(others []Traits) {
	var columns [unknowns][]float64
	for _, t := range others {
		if p, ok := unpackPeer(t); ok {
			for i, x := range p.mean {
				columns[i] = append(columns[i], x)
			}
		}
	}
	l.others = everybody()
	if len(columns[0]) == 0 {
		return
	}
	for i, c := range columns[:2] { // of the other loadings the signs mean nothing: 0
		m := lowerMedian(c)
		l.others.mean[i] = m
	}
}
