package assign

import (
	"math"
	"time"

	"peerd/coords"
)

// option is a candidate and what the samples say of it. Times are ms.
type option struct {
	Candidate
	ok, failed int
	// time is the expected time of a typical page, failures counted in; NaN when
	// nothing is known. For measured candidates it is denoised, for others it is
	// the model's.
	time float64
	// low and high bound time; they are equal to it for measured candidates, and
	// 0 and +Inf when nothing is known.
	low, high float64
	// mean and spread are the logarithm of the time (ms) and its standard
	// deviation, for candidates not measured. Only while traits are in play.
	mean, spread float64
	// fails is the share of its downloads here that fail, as far as is known.
	fails float64
}

// tried reports whether it downloaded, or failed to.
func (o option) tried() bool { return o.ok+o.failed > 0 }

// measured reports whether it downloaded.
func (o option) measured() bool { return o.ok > 0 }

// settled reports that another probe of it would not pay. One failure may be
// chance, two are an answer.
func (o option) settled() bool { return o.ok > 0 || o.failed >= 2 }

// wait is the candidate's waiting time, ms.
func (o option) wait() float64 { return float64(o.Wait) / float64(time.Millisecond) }

// view is the evidence, worked out.
type view struct {
	e       Evidence
	self    string
	options []option      // sorted by name
	proxy   *coords.Proxy // nil while unknown
	ok      int           // successful downloads by anybody
	spent   int           // probes of candidates that went into finding out
	traits  bool          // candidates have published traits: the factor model is in play
	places  bool          // candidates have coordinates
}

// look works the evidence out for the open candidates.
func (s *ProxyStrategy) look(e Evidence, open []Candidate) view {
	samples := e.samples()
	digest := coords.DigestOf(samples)
	v := view{self: e.Self, ok: digest.OK, e: e}
	if p, err := digest.Locate(s.cfg.Fit); err == nil {
		v.proxy = &p
	}
	v.places = len(e.Candidates[0].At.Vec) > 0
	factors := s.factors(e, digest, &v)
	known := make(map[string]coords.Measured, len(digest.Peers))
	for _, m := range digest.Peers {
		known[m.Peer] = m
	}
	for _, c := range e.Candidates { // not only the open ones: a probe is a probe
		if m, ok := known[c.ID]; ok && m.OK > 0 {
			v.spent++
		} else if ok {
			v.spent += m.Failed
		}
	}
	for _, c := range open {
		m := known[c.ID]
		o := option{Candidate: c, ok: m.OK, failed: m.Failed, time: math.NaN(), high: math.Inf(1)}
		penalty := s.penalty(m, digest)
		switch {
		case m.OK > 0:
			o.time = digest.Time(m) + penalty
			o.low, o.high = o.time, o.time
		case v.proxy != nil:
			bytes := int64(digest.MeanKB * 1000)
			model := float64(v.proxy.Predict(c.At, bytes)) / float64(time.Millisecond)
			margin := s.margin(*v.proxy)
			hope := penalty
			if !o.settled() {
				hope = 0 // it gets its second chance as if it had not failed
			}
			o.time = model + hope
			o.low, o.high = model*(1-margin)+hope, model*(1+margin)+penalty
		}
		if v.traits {
			factors.apply(&o, m, digest, v.proxy)
		}
		v.options = append(v.options, o)
	}
	return v
}

// margin is how far a prediction of p may be off, relatively.
func (s *ProxyStrategy) margin(p coords.Proxy) float64 {
	return min(max(2*p.Error, s.cfg.MarginMin), 0.9)
}

// penalty is what a peer's failures add to the expected time of a page, ms. Only
// failures beyond the rate of all other peers count: the rest is the server's
// doing and no reason to prefer anybody.
func (s *ProxyStrategy) penalty(m coords.Measured, d coords.Digest) float64 {
	rate := func(failed, ok int) float64 { return float64(failed) / float64(failed+ok+1) }
	excess := rate(m.Failed, m.OK) - rate(d.Failed-m.Failed, d.OK-m.OK)
	if excess <= 0 {
		return 0
	}
	return float64(s.cfg.FailureCost) / float64(time.Millisecond) * excess / (1 - excess)
}

// predictedMax cuts absurd times before they overflow a time.Duration, ms.
const predictedMax = 1e12

// predicted turns the expected times into those of a Step.
func (v view) predicted() map[string]time.Duration {
	out := make(map[string]time.Duration, len(v.options))
	for _, o := range v.options {
		if !math.IsNaN(o.time) {
			out[o.ID] = time.Duration(min(o.time, predictedMax) * float64(time.Millisecond))
		}
	}
	return out
}

// bestMeasured returns the least time with waiting of a measured candidate, or
// +Inf.
func (v view) bestMeasured() float64 {
	best := math.Inf(1)
	for _, o := range v.options {
		if o.measured() {
			best = min(best, o.time+o.wait())
		}
	}
	return best
}
