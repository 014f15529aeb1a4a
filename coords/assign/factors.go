package assign

import (
	"math"
	"slices"
	"time"

	"peerd/coords"
)

const (
	// lasting is the share of the variance around the factor model that belongs
	// to the pair of peer and server and will be there next time; the rest is the
	// mood of one download.
	lasting = 0.7
	// failWeight is how many downloads a peer's failure rate elsewhere counts for
	// when its failures here are judged.
	failWeight = 2.0
	// hopeSigmas is how many standard deviations quicker than expected a candidate
	// is taken to be when the next to measure is looked for.
	hopeSigmas = 1.5
	// tailSigmas is how many standard deviations low and high are away: 80 % of
	// the candidates are between.
	tailSigmas = 1.28
	// madSigma turns a median absolute error into a standard deviation.
	madSigma = 1.4826
)

// factors is the factor model of one server, worked out from the times of those
// that measured it and from what they publish of themselves.
type factors struct {
	host   coords.Traits
	fails  float64 // usual failure rate of the candidates
	margin float64 // of the geometric model, 0 without one
}

// factors fits the factor model, if any candidate has published traits, and
// puts it into the proxy.
func (s *ProxyStrategy) factors(e Evidence, d coords.Digest, v *view) factors {
	traits := make(map[string]coords.Traits, len(e.Candidates))
	var rates []float64
	for _, c := range e.Candidates {
		t := c.Traits
		if f, ok := t.Predict(priorHost); ok {
			v.traits = true
			rates = append(rates, f.Fails)
			traits[c.ID] = t
		}
	}
	if !v.traits {
		return factors{}
	}
	var rows []coords.TraitRow
	for _, m := range d.Peers {
		if m.OK > 0 {
			rows = append(rows, coords.TraitRow{Peer: traitsOf(m.Peer, traits), Time: logOf(d.Time(m))})
		} else if m.Failed > 0 {
			rows = append(rows, coords.TraitRow{Peer: traitsOf(m.Peer, traits), Time: coords.LogTime(coords.FailedTime)})
		}
	}
	slices.Sort(rates)
	f := factors{
		host:  coords.LocateTraits(rows),
		fails: rates[(len(rates)-1)/2],
	}
	switch {
	case v.proxy != nil:
		f.margin = s.margin(*v.proxy)
		p := *v.proxy
		p.Traits = f.host
		v.proxy = &p
	case !v.places && len(rows) > 0:
		v.proxy = &coords.Proxy{
			At: coords.Coordinate{Error: 1}, Scale: 1, Error: leftOut(rows), Samples: d.OK, Traits: f.host,
		}
	}
	return f
}

// priorHost is a server of which nothing is known.
var priorHost = coords.LocateTraits(nil)

// traitsOf returns what a peer published, or what everybody starts from.
func traitsOf(id string, published map[string]coords.Traits) coords.Traits {
	if t, ok := published[id]; ok {
		return t
	}
	return coords.FreshTraits(id)
}

// leftOut is the median relative error with which each peer's time is predicted
// from the others'. In [0.01, 1].
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

// Republish returns p with the traits that the server has by what the candidates
// publish of themselves now. An owner does so when those have changed: the peers
// learn from what owners publish, and owners from what peers do.
func (s *ProxyStrategy) Republish(e Evidence, p coords.Proxy) (coords.Proxy, error) {
	if err := e.Validate(); err != nil {
		return p, err
	}
	v := view{proxy: &p, places: len(e.Candidates[0].At.Vec) > 0}
	s.factors(e, coords.DigestOf(e.samples()), &v)
	return *v.proxy, nil
}

// apply overrules what was worked out for o without traits.
func (f factors) apply(o *option, m coords.Measured, d coords.Digest, proxy *coords.Proxy) {
	t := o.Traits
	forecast, ok := t.Predict(f.host)
	if !ok {
		if forecast, ok = coords.FreshTraits(o.ID).Predict(f.host); !ok {
			return
		}
	}
	n := float64(m.OK + m.Failed)
	o.fails = (forecast.Fails*failWeight + float64(m.Failed)) / (failWeight + n)
	// A failure here costs another try, which takes as long. What a peer fails at
	// elsewhere is in the model already, as long times.
	tries := 1.0
	if m.Failed > 0 {
		tries = 1 / (1 - min(max(0, o.fails-f.fails), 0.99))
	}
	if m.OK > 0 {
		y, k := logOf(d.Time(m)), 1.0
		if !m.Direct { // a total time: part of it was chance
			lasts := forecast.Model + lasting*forecast.Noise
			mood := (1 - lasting) * forecast.Noise / float64(m.OK)
			k = lasts / (lasts + mood)
			o.spread = math.Sqrt(lasts * mood / (lasts + mood))
		}
		o.mean = forecast.Mean + k*(y-forecast.Mean)
		o.time = expOf(o.mean) * tries
		o.low, o.high = o.time, expOf(o.mean+o.spread*o.spread/2)*tries
		return
	}
	o.mean = forecast.Mean
	variance := forecast.Model + lasting*forecast.Noise
	if proxy != nil && f.margin > 0 { // two experts: each counts by its precision
		geo := logOf(float64(proxy.Predict(o.At, int64(d.MeanKB*1000))) / float64(time.Millisecond))
		spread := f.margin / 2 * madSigma
		wg, wt := 1/(spread*spread), 1/variance
		o.mean = (wg*geo + wt*o.mean) / (wg + wt)
		variance = 1 / (wg + wt)
	}
	o.spread = math.Sqrt(variance)
	o.time = expOf(o.mean) * tries
	o.low = expOf(o.mean-tailSigmas*o.spread) * tries
	o.high = expOf(o.mean+variance/2) * tries
	if o.failed > 0 {
		o.high = math.Inf(1) // it is chosen when nothing better is left
	}
}

// logOf and expOf go to the scale of traits and back, ms.
func logOf(ms float64) float64 { return math.Log1p(max(0, ms)) }
func expOf(x float64) float64  { return max(0, math.Exp(min(x, 25))-1) }

// gainful returns the candidate that is quickest if luck has it (lower
// confidence bound; Auer 2002) among those that promise s.cfg.GainMin: the
// expected share by which they will be quicker than the best one measured
// (expected improvement; Jones et al. 1998). Both are on the logarithm of the
// time. "" if none does.
func (s *ProxyStrategy) gainful(v view) string {
	best := math.Inf(1)
	for _, o := range v.options {
		if o.measured() {
			best = min(best, o.time+o.wait())
		}
	}
	id, most, least, again := "", -1.0, math.Inf(1), ""
	for _, o := range v.options {
		switch {
		case o.settled():
		case o.failed > 0: // its second chance comes when the others had their first
			if again == "" {
				again = o.ID
			}
		case math.IsInf(best, 1):
			if t := (o.time + o.wait()) / max(1-o.fails, 0.01); t < least {
				id, least = o.ID, t
			}
		default:
			total := o.time + o.wait() + 1
			spread := max(o.spread*(o.time+1)/total, 1e-6)
			z := (math.Log(best+1) - math.Log(total)) / spread
			gain := max(0, spread*(z*math.Erfc(-z/math.Sqrt2)/2+math.Exp(-z*z/2)/math.Sqrt(2*math.Pi))) * (1 - o.fails)
			if gain < s.cfg.GainMin {
				continue
			}
			if hope := math.Exp(hopeSigmas*spread) / total * (1 - o.fails); hope > most {
				id, most = o.ID, hope
			}
		}
	}
	if id == "" && math.IsInf(best, 1) {
		return again
	}
	return id
}
