package assign

import (
	"math"
	"time"

	"peerd/coords"
)

// option is a candidate and what the samples show of it. Times are in ms.
type option struct {
	Candidate
	measured   coords.Measurement
	ok, failed int
	// time is the expected time of a typical page, including failures; NaN if nothing is
	// known. For candidates with a page it is the denoised measurement, for others a
	// prediction, which contains the round trip if there was a handshake.
	time float64
	// dist is the distribution of a predicted time without penalty, which is what failures add;
	// retry is what they add to a second try.
	dist           coords.Mixture
	penalty, retry float64
}

// high returns the time that a candidate competes with: of a candidate without a page, the
// upper end of the 80 % interval.
func (o option) high() float64 {
	switch {
	case o.paged():
		return o.time
	case !o.known():
		return math.Inf(1)
	}
	return o.dist.Quantile(1-coords.Tail, 0) + o.penalty
}

// placed reports whether the place of c says something about distances.
func placed(c Candidate) bool { return c.Place != coords.Refuted && c.At.Error < 1 }

// known reports whether something is known of the candidate's own time: of a peer that may be
// anywhere, a prediction only says what a measurement is worth.
func (o option) known() bool { return o.ok > 0 || o.dist != nil && placed(o.Candidate) }

// paged reports whether the candidate has downloaded a page.
func (o option) paged() bool { return o.measured.Pages > 0 }

// done reports whether no further probe is worthwhile. One failure may be chance, two
// are a result, and two answers without a page may be all that there is.
func (o option) done() bool { return o.paged() || o.ok >= 2 || o.failed >= 2 }

// wait returns the candidate's waiting time in ms.
func (o option) wait() float64 { return ms(o.Wait) }

// assessment is the result of evaluating the evidence.
type assessment struct {
	e       Evidence
	self    string
	options []option      // sorted by name
	proxy   *coords.Proxy // nil if not known
	ok      int           // successful downloads by any peer
	spent   int           // probes made by candidates
	peers   coords.Population
	digest  coords.Digest
	places  coords.Places // of the server
	anycast bool          // it has no place
}

// assess evaluates the evidence for the open candidates.
func (s *ProxyStrategy) assess(e Evidence, open []Candidate) assessment {
	published := make(map[string]*coords.Traits, len(e.Candidates))
	standing := make(map[string]coords.Standing, len(e.Candidates))
	heights := make([]float64, len(e.Candidates))
	for i, c := range e.Candidates {
		published[c.ID], standing[c.ID], heights[i] = c.Traits, c.Place, c.At.Height
	}
	peers := coords.NewPopulation(published, heights)
	digest := coords.DigestOf(e.samples(), peers)
	v := assessment{self: e.Self, ok: digest.OK, e: e, peers: peers, digest: digest}
	use := func(peer string) bool { return standing[peer] != coords.Refuted }
	if v.anycast = digest.Anycast(use); !v.anycast {
		if p, err := digest.LocateBy(use); err == nil {
			v.proxy = &p
		}
	}
	var prior []coords.Coordinate
	for _, c := range open { // sorted: the places depend on the order
		if placed(c) {
			prior = append(prior, c.At)
		}
	}
	if !v.anycast {
		v.places = digest.Believe(prior, e.hints(prior), use)
	}
	known := make(map[string]coords.Measurement, len(digest.Peers))
	for _, m := range digest.Peers {
		known[m.Peer] = m
	}
	for _, c := range e.Candidates { // also excluded ones: a probe is a probe
		if m, ok := known[c.ID]; ok {
			v.spent += min(m.OK, 1) + m.Failed
		}
	}
	for _, c := range open {
		m := known[c.ID]
		o := option{Candidate: c, measured: m, ok: m.OK, failed: m.Failed, time: math.NaN()}
		var t coords.Normal
		switch {
		case m.OK > 0:
			t = digest.Time(m)
			o.dist = coords.Mixture{t}
		case v.anycast || len(v.places) > 0:
			at := []coords.Coordinate{c.At}
			if !placed(c) { // as likely there as at the place of any other
				for _, x := range prior {
					at = append(at, x, c.At)
				}
			}
			o.dist = v.predict(at, peers.Like(c.ID))
			t = o.dist.Moments()
		default:
			v.options = append(v.options, o)
			continue
		}
		o.time = t.Mean
		if penalty := s.penalty(m, digest); o.done() {
			o.penalty = penalty
			o.time += o.penalty
		} else { // one failure may be chance
			o.retry = penalty
		}
		v.options = append(v.options, o)
	}
	return v
}

// predict returns the distribution of the time of a page at a peer that did not measure the server,
// from equally likely places and Traits of that peer.
func (v assessment) predict(at []coords.Coordinate, traits []coords.Traits) coords.Mixture {
	if v.anycast {
		return v.digest.PredictAnycast(traits)
	}
	return v.digest.Predict(v.places, at, traits)
}

// penalty returns the time in ms that a peer's failures add to the expected time of a
// page. Only failures beyond the rate of all other peers count: the rest is caused by
// the server and does not distinguish peers. That rate is expected of the peer, too, as if
// Budget downloads had shown it: a single failure is mostly chance.
func (s *ProxyStrategy) penalty(m coords.Measurement, d coords.Digest) float64 {
	others := float64(d.Failed-m.Failed) / float64(d.Failed-m.Failed+d.OK-m.OK+1)
	weight := float64(s.cfg.Budget)
	rate := (float64(m.Failed) + weight*others) / (float64(m.Failed+m.OK) + weight)
	excess := max(0, rate-others)
	return ms(s.cfg.FailureCost) * excess / (1 - excess)
}

// predictedMax, in ms, keeps absurd times from overflowing a time.Duration.
const predictedMax = 1e12

// predicted returns the expected times for a Step.
func (v assessment) predicted() map[string]time.Duration {
	times := make(map[string]time.Duration, len(v.options))
	for _, o := range v.options {
		if o.known() {
			times[o.ID] = fromMillis(o.time)
		}
	}
	return times
}

// ranges returns the 80 % intervals for a Step, of times over a longer time than the present.
func (v assessment) ranges() map[string][2]time.Duration {
	ranges := make(map[string][2]time.Duration, len(v.options))
	for _, o := range v.options {
		if !o.known() {
			continue
		}
		m := o.lasting(v)
		low := max(0, m.Quantile(coords.Tail, v.digest.Shared))
		high := max(low, m.Quantile(1-coords.Tail, v.digest.Shared))
		ranges[o.ID] = [2]time.Duration{fromMillis(low), fromMillis(high)}
	}
	return ranges
}

// lasting returns the distribution of the candidate's time over a longer time, without penalty.
func (o option) lasting(v assessment) coords.Mixture {
	if o.ok == 0 {
		traits, at := v.peers.Lasting(v.peers.Like(o.ID), o.At)
		return v.predict(at, traits)
	}
	var all coords.Mixture
	traits, _ := v.peers.Lasting([]coords.Traits{o.measured.Traits}, o.At)
	for _, t := range traits {
		m := o.measured
		m.Traits = t
		all = append(all, v.digest.Time(m))
	}
	return all
}

// fromMillis converts a time in ms.
func fromMillis(ms float64) time.Duration {
	return time.Duration(min(ms, predictedMax) * float64(time.Millisecond))
}

// bestMeasured returns the least time of a candidate with a page, waiting included, or
// +Inf.
func (v assessment) bestMeasured() float64 {
	best := math.Inf(1)
	for _, o := range v.options {
		if o.paged() {
			best = min(best, o.time+o.wait())
		}
	}
	return best
}
