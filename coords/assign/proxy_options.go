package assign

import (
	"math"
	"slices"
	"time"

	"peerd/coords"
)

// option is a candidate and what the samples show of it. Times are in ms.
type option struct {
	Candidate
	ok, failed int
	// time is the expected time of a typical page, including failures; NaN if nothing is
	// known. For measured candidates it is the denoised measurement, for others a
	// prediction.
	time float64
	// low and high are bounds of time. They are equal to it for measured candidates, and 0
	// and +Inf if nothing is known.
	low, high float64
	// mean and spread are the mean and standard deviation of the logarithm of the time (ms)
	// of candidates that were not measured. Used only with traits.
	mean, spread float64
	// failRate is the share of its downloads here that fail, as far as is known.
	failRate float64
}

// tried reports whether the candidate downloaded or failed to.
func (o option) tried() bool { return o.ok+o.failed > 0 }

// measured reports whether the candidate downloaded.
func (o option) measured() bool { return o.ok > 0 }

// done reports whether no further probe is worthwhile. One failure may be chance, two
// are a result.
func (o option) done() bool { return o.ok > 0 || o.failed >= 2 }

// wait returns the candidate's waiting time in ms.
func (o option) wait() float64 { return float64(o.Wait) / float64(time.Millisecond) }

// assessment is the result of evaluating the evidence.
type assessment struct {
	e       Evidence
	self    string
	options []option      // sorted by name
	proxy   *coords.Proxy // nil if not known
	ok      int           // successful downloads by any peer
	spent   int           // probes made by candidates
	located bool          // some candidates have coordinates: only geometry predicts
	// traits is set if no candidate has coordinates and some have published traits: the
	// factor model predicts
	traits bool
}

// assess evaluates the evidence for the open candidates.
func (s *ProxyStrategy) assess(e Evidence, open []Candidate) assessment {
	samples := e.samples()
	digest := coords.DigestOf(samples)
	v := assessment{self: e.Self, ok: digest.OK, e: e}
	places := make(map[string]coords.Standing, len(e.Candidates))
	for _, c := range e.Candidates {
		places[c.ID] = c.Place
	}
	placed := func(peer string) bool { return places[peer] != coords.Refuted }
	if p, err := digest.LocateBy(placed); err == nil {
		v.proxy = &p
	}
	v.located = slices.ContainsFunc(e.Candidates, func(c Candidate) bool {
		return len(c.At.Vec) > 0
	})
	var byTraits factors
	if !v.located {
		byTraits = s.factors(e, digest, &v)
	}
	known := make(map[string]coords.Measurement, len(digest.Peers))
	for _, m := range digest.Peers {
		known[m.Peer] = m
	}
	for _, c := range e.Candidates { // also excluded ones: a probe is a probe
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
		case v.proxy != nil && c.Place != coords.Refuted && c.At.Error < 1:
			bytes := int64(digest.MeanKB * 1000)
			model := float64(v.proxy.Predict(c.At, bytes)) / float64(time.Millisecond)
			margin := s.cfg.Margin(*v.proxy)
			extra := penalty
			if !o.done() {
				extra = 0 // a second chance as if it had not failed
			}
			o.time = model + extra
			o.low, o.high = model*(1-margin)+extra, model*(1+margin)+penalty
		}
		if v.traits {
			byTraits.apply(&o, m, digest)
		}
		v.options = append(v.options, o)
	}
	return v
}

// Margin returns the relative error up to which a prediction of p may be wrong.
func (c ProxyConfig) Margin(p coords.Proxy) float64 {
	return min(max(2*p.Error, c.MarginMin), 0.9)
}

// penalty returns the time in ms that a peer's failures add to the expected time of a
// page. Only failures beyond the rate of all other peers count: the rest is caused by
// the server and does not distinguish peers.
func (s *ProxyStrategy) penalty(m coords.Measurement, d coords.Digest) float64 {
	rate := func(failed, ok int) float64 { return float64(failed) / float64(failed+ok+1) }
	excess := rate(m.Failed, m.OK) - rate(d.Failed-m.Failed, d.OK-m.OK)
	if excess <= 0 {
		return 0
	}
	return float64(s.cfg.FailureCost) / float64(time.Millisecond) * excess / (1 - excess)
}

// predictedMax, in ms, keeps absurd times from overflowing a time.Duration.
const predictedMax = 1e12

// predicted returns the expected times for a Step.
func (v assessment) predicted() map[string]time.Duration {
	out := make(map[string]time.Duration, len(v.options))
	for _, o := range v.options {
		if !math.IsNaN(o.time) {
			out[o.ID] = time.Duration(min(o.time, predictedMax) * float64(time.Millisecond))
		}
	}
	return out
}

// bestMeasured returns the least time of a measured candidate, waiting included, or
// +Inf.
func (v assessment) bestMeasured() float64 {
	best := math.Inf(1)
	for _, o := range v.options {
		if o.measured() {
			best = min(best, o.time+o.wait())
		}
	}
	return best
}
