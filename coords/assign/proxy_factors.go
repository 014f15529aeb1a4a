package assign

import (
	"math"
	"slices"

	"peerd/coords"
)

const (
	// persistentShare is the share of the variance around the factor model that belongs to
	// the pair of peer and server and recurs; the rest is chance of a single download.
	persistentShare = 0.7
	// failWeight is the weight, in downloads, of a peer's failure rate at other servers when
	// its failures at this one are judged.
	failWeight = 2.0
	// boundSigmas is the number of standard deviations by which an expected time may be wrong:
	// below it candidates are compared when the next probe is selected, and beyond it two
	// times differ in a review.
	boundSigmas = 1.5
	// quantileSigmas is the distance of option.low from the mean in standard deviations: 80
	// % of the distribution lie within this distance.
	quantileSigmas = 1.28
)

// factors is the factor model of one server, fitted to the times of the peers that
// measured it and to what they publish of themselves.
type factors struct {
	host     coords.Traits
	failRate float64 // median failure rate of the candidates
}

// factors fits the factor model if any candidate has published traits, and stores it in
// the proxy. It is used only for candidates without coordinates: where there are
// coordinates, geometry alone chooses better peers.
func (s *ProxyStrategy) factors(e Evidence, d coords.Digest, v *assessment) factors {
	traits := make(map[string]coords.Traits, len(e.Candidates))
	var rates []float64
	for _, c := range e.Candidates {
		t := c.Traits
		if f, ok := t.Predict(priorHost); ok {
			v.traits = true
			rates = append(rates, f.FailRate)
			traits[c.ID] = t
		}
	}
	if !v.traits {
		return factors{}
	}
	var rows []coords.TraitRow
	for _, m := range d.Peers {
		if m.OK > 0 {
			rows = append(rows, coords.TraitRow{
				Peer: traitsOf(m.Peer, traits), Time: toLog(d.Time(m)),
			})
		} else if m.Failed > 0 {
			rows = append(rows, coords.TraitRow{
				Peer: traitsOf(m.Peer, traits), Time: coords.LogTime(coords.FailedTime),
			})
		}
	}
	slices.Sort(rates)
	f := factors{
		host:     coords.LocateTraits(rows),
		failRate: rates[(len(rates)-1)/2],
	}
	switch {
	case v.proxy != nil:
		p := *v.proxy
		p.Traits = f.host
		v.proxy = &p
	case len(rows) > 0:
		v.proxy = &coords.Proxy{
			At: coords.Coordinate{Error: 1}, Scale: 1, Error: leftOut(rows), Samples: d.OK,
			Traits: f.host,
		}
	}
	return f
}

// priorHost is a server about which nothing is known.
var priorHost = coords.LocateTraits(nil)

// traitsOf returns the traits that a peer published, or those of a new peer.
func traitsOf(id string, published map[string]coords.Traits) coords.Traits {
	if t, ok := published[id]; ok {
		return t
	}
	return coords.InitialTraits(id)
}

// leftOut returns the median relative error with which the time of each peer is
// predicted from the others. In [0.01, 1].
func leftOut(rows []coords.TraitRow) float64 {
	if len(rows) < 2 {
		return 1
	}
	errs := make([]float64, 0, len(rows))
	for i, r := range rows {
		rest := coords.LocateTraits(slices.Delete(slices.Clone(rows), i, i+1))
		if f, ok := r.Peer.Predict(rest); ok {
			errs = append(errs, math.Abs(math.Expm1(f.Mean-r.Time)))
		}
	}
	slices.Sort(errs)
	if len(errs) == 0 {
		return 1
	}
	return min(max(errs[len(errs)/2], 0.01), 1)
}

// apply replaces the times of o by those of the factor model.
func (f factors) apply(o *option, m coords.Measurement, d coords.Digest) {
	t := o.Traits
	forecast, ok := t.Predict(f.host)
	if !ok {
		if forecast, ok = coords.InitialTraits(o.ID).Predict(f.host); !ok {
			return
		}
	}
	n := float64(m.OK + m.Failed)
	o.failRate = (forecast.FailRate*failWeight + float64(m.Failed)) / (failWeight + n)
	// A failure here costs another try of the same duration. The model already contains the
	// failures elsewhere, as long times.
	tries := 1.0
	if m.Failed > 0 {
		tries = 1 / (1 - min(max(0, o.failRate-f.failRate), 0.99))
	}
	if m.OK > 0 {
		y, k := toLog(d.Time(m)), 1.0
		if !m.Direct { // a total time is partly chance
			lasts := forecast.Model + persistentShare*forecast.Noise
			chance := (1 - persistentShare) * forecast.Noise / float64(m.OK)
			k = lasts / (lasts + chance)
			o.spread = math.Sqrt(lasts * chance / (lasts + chance))
		}
		o.mean = forecast.Mean + k*(y-forecast.Mean)
		o.time = fromLog(o.mean) * tries
		o.low, o.high = o.time, fromLog(o.mean+o.spread*o.spread/2)*tries
		return
	}
	o.mean = forecast.Mean
	variance := forecast.Model + persistentShare*forecast.Noise
	o.spread = math.Sqrt(variance)
	o.time = fromLog(o.mean) * tries
	o.low = fromLog(o.mean-quantileSigmas*o.spread) * tries
	o.high = fromLog(o.mean+variance/2) * tries
	if o.failed > 0 {
		o.high = math.Inf(1) // chosen only if there is nothing better
	}
}

// toLog and fromLog convert between ms and the logarithmic scale of traits.
func toLog(ms float64) float64  { return math.Log1p(max(0, ms)) }
func fromLog(x float64) float64 { return max(0, math.Exp(min(x, 25))-1) }

// byConfidenceBound returns the candidate with the least lower confidence bound of its
// time (Auer 2002) among those with an expected improvement of at least s.cfg.GainMin:
// the expected share by which they are faster than the best measured one (Jones et al.
// 1998). Both use the logarithm of the time. It returns "" if there is none.
func (s *ProxyStrategy) byConfidenceBound(v assessment) string {
	best := math.Inf(1)
	for _, o := range v.options {
		if o.measured() {
			best = min(best, o.time+o.wait())
		}
	}
	id, most, least, second := "", -1.0, math.Inf(1), ""
	for _, o := range v.options {
		switch {
		case o.done():
		case o.failed > 0: // second chances come after all first ones
			if second == "" {
				second = o.ID
			}
		case math.IsInf(best, 1):
			if t := (o.time + o.wait()) / max(1-o.failRate, 0.01); t < least {
				id, least = o.ID, t
			}
		default:
			total := o.time + o.wait() + 1
			spread := max(o.spread*(o.time+1)/total, 1e-6)
			z := (math.Log(best+1) - math.Log(total)) / spread
			density := math.Exp(-z*z/2) / math.Sqrt(2*math.Pi)
			gain := max(0, spread*(z*math.Erfc(-z/math.Sqrt2)/2+density)) * (1 - o.failRate)
			if gain < s.cfg.GainMin {
				continue
			}
			if bound := math.Exp(boundSigmas*spread) / total * (1 - o.failRate); bound > most {
				id, most = o.ID, bound
			}
		}
	}
	if id == "" && math.IsInf(best, 1) {
		return second
	}
	return id
}
