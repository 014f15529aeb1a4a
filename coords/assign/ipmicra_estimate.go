package assign

import (
	"math"
	"net/netip"
	"slices"
	"sort"
	"time"

	"peerd/coords"
)

// neighbourEstimate is an estimate of the target's times from a decided neighbouring
// subnet: candidates are assumed to be about as far from the target as from there.
type neighbourEstimate struct {
	// weight is the logarithm of its weight.
	weight float64
	// logs are the logarithms of the candidates' times there, in ms, in the order of the
	// open candidates; NaN where not known. sigmas are their standard deviations.
	logs, sigmas []float64
}

// maxDelegations is the number of delegations read per level: a peer may know a hundred
// thousand, and every probe takes a decision.
const maxDelegations = 2048

// near returns the delegations of a level. If there are too many, it returns those of
// the largest prefix around the target that is within the limit. below is the level
// below, which is part of this one.
func (h subnets) near(level, below netip.Prefix) []Delegation {
	all := h.first(level, maxDelegations+1)
	if len(all) <= maxDelegations || below.Bits() <= level.Bits() {
		return all[:min(len(all), maxDelegations)]
	}
	// The longer the prefix, the fewer delegations it has.
	bits := level.Bits() + 1 + sort.Search(below.Bits()-level.Bits()-1, func(i int) bool {
		around, _ := below.Addr().Prefix(level.Bits() + 1 + i)
		return len(h.first(around, maxDelegations+1)) <= maxDelegations
	})
	around, _ := below.Addr().Prefix(bits)
	return h.first(around, maxDelegations)
}

// first returns at most n delegations inside p.
func (h subnets) first(p netip.Prefix, n int) []Delegation {
	var out []Delegation
	for d := range h.within(p) {
		if len(out) == n {
			break
		}
		out = append(out, d)
	}
	return out
}

// estimates collects the neighbouring subnets, the nearest levels first. Of a level with
// too many it takes evenly spaced ones. Each level down weighs more by a factor.
func (s *IPMicraProxyStrategy) estimates(
	run *search, h subnets, target netip.Prefix,
) []neighbourEstimate {
	var levels []netip.Prefix
	for l := range h.levels(target) {
		levels = append(levels, l)
	}
	seen := make(map[netip.Prefix]bool)
	var out []neighbourEstimate
	for i, level := range levels {
		var found []Delegation
		for _, d := range h.near(level, levels[max(0, i-1)]) {
			if !seen[d.Subnet] {
				seen[d.Subnet] = true
				found = append(found, d)
			}
		}
		free := s.cfg.Neighbours - len(out)
		if n := len(found); n > free {
			kept := make([]Delegation, free)
			for k := range kept {
				kept[k] = found[k*n/free]
			}
			found = kept
		}
		weight := float64(len(levels)-1-i) * math.Log(s.cfg.LevelWeight)
		for _, d := range found {
			if v, ok := s.estimate(run, d); ok {
				v.weight = weight
				out = append(out, v)
			}
		}
		if len(out) >= s.cfg.Neighbours {
			break
		}
	}
	return out
}

// estimate converts a delegation: by its probes if there are any, otherwise by its
// proxy. Its owner was found to be the nearest, so that no predicted time is less than
// the owner's.
func (s *IPMicraProxyStrategy) estimate(run *search, d Delegation) (neighbourEstimate, bool) {
	n := len(run.open)
	v := neighbourEstimate{logs: make([]float64, n), sigmas: make([]float64, n)}
	least, owner, known := math.Inf(1), -1, false
	for i, c := range run.open {
		v.logs[i] = math.NaN()
		if c.ID == d.Owner {
			owner = i
		}
		if took, ok := d.Probes[c.ID]; ok {
			v.logs[i] = logMillis(ms(took))
			v.sigmas[i] = s.cfg.Sigma
		} else if d.Proxy != nil {
			if ms, rel, ok := predictPage(*d.Proxy, c); ok {
				v.logs[i] = logMillis(ms)
				v.sigmas[i] = math.Hypot(s.cfg.Sigma, min(max(rel, 0), 1))
			}
		}
		if !math.IsNaN(v.logs[i]) {
			least, known = min(least, v.logs[i]), true
		}
	}
	if owner >= 0 {
		if _, probed := d.Probes[d.Owner]; !probed {
			switch {
			case known:
				v.logs[owner] = least
			default:
				v.logs[owner] = logMillis(ms(s.cfg.Threshold) / 2)
			}
			v.sigmas[owner] = max(v.sigmas[owner], s.cfg.Sigma)
			known = true
		}
	}
	return v, known
}

// logMillis is the scale on which times are compared.
func logMillis(ms float64) float64 { return math.Log(max(ms, 0) + 1) }

// weigh multiplies the weights of the estimates by their agreement with the probes of
// the target so far, and returns weights with sum 1. A probe reduces the weight of an
// estimate by a factor of e^-strayMax at most.
func (s *IPMicraProxyStrategy) weigh(run *search, estimates []neighbourEstimate) []float64 {
	const strayMax = 8
	const silence = 2 // cost of not knowing a peer that probed
	weights := make([]float64, len(estimates))
	most := math.Inf(-1)
	for k, v := range estimates {
		weights[k] = v.weight
		for i, c := range run.open {
			t, ok := run.times[c.ID]
			if !ok || math.IsInf(t, 1) {
				continue
			}
			if math.IsNaN(v.logs[i]) {
				weights[k] -= silence
				continue
			}
			weights[k] -= min(math.Abs(v.logs[i]-logMillis(t))/v.sigmas[i], strayMax)
		}
		most = max(most, weights[k])
	}
	sum := 0.0
	for k := range weights {
		weights[k] = math.Exp(weights[k] - most)
		sum += weights[k]
	}
	for k := range weights {
		weights[k] /= sum
	}
	return weights
}

// mostFavoured returns the candidate without a probe that has the least time in most
// estimates, by weight; "" if no estimate knows one of them.
func mostFavoured(run *search, estimates []neighbourEstimate, weights []float64) string {
	score := make([]float64, len(run.open))
	for k, v := range estimates {
		best := -1
		for i, x := range v.logs {
			if !math.IsNaN(x) && !run.probed(run.open[i].ID) && (best < 0 || x < v.logs[best]) {
				best = i
			}
		}
		if best >= 0 {
			score[best] += weights[k]
		}
	}
	best := slices.Index(score, slices.Max(score))
	if score[best] == 0 {
		return ""
	}
	return run.open[best].ID
}

// mostLikelyNearer returns the candidate without a probe that is most likely to be
// nearer than the given time, in ms, and the probability.
func mostLikelyNearer(
	run *search, estimates []neighbourEstimate, weights []float64, than float64,
) (id string, chance float64) {
	bar := logMillis(than)
	for i, c := range run.open {
		if run.probed(c.ID) {
			continue
		}
		p := 0.0
		for k, v := range estimates {
			if weights[k] < 1e-9 || math.IsNaN(v.logs[i]) {
				continue
			}
			p += weights[k] * normalCDF((bar-v.logs[i])/v.sigmas[i])
		}
		if p > chance {
			id, chance = c.ID, p
		}
	}
	return id, chance
}

// normalCDF is the standard normal distribution function.
func normalCDF(z float64) float64 { return math.Erfc(-z/math.Sqrt2) / 2 }

// predicted returns the expected probe times of all candidates about which something is
// known: their own probe, or the mean of the estimates.
func predicted(
	run *search, estimates []neighbourEstimate, weights []float64,
) map[string]time.Duration {
	out := make(map[string]time.Duration, len(run.open))
	for i, c := range run.open {
		took, ok := run.times[c.ID]
		if !ok || math.IsInf(took, 1) {
			sum, w := 0.0, 0.0
			for k, v := range estimates {
				if !math.IsNaN(v.logs[i]) {
					sum += weights[k] * v.logs[i]
					w += weights[k]
				}
			}
			if w == 0 {
				continue
			}
			took = math.Exp(sum/w) - 1
		}
		out[c.ID] = fromMillis(max(took, 0))
	}
	return out
}

// predictPage predicts the time of a page in ms, and its relative error, by coordinates; ok is
// false if there are none.
func predictPage(p coords.Proxy, c Candidate) (took, rel float64, ok bool) {
	if p.Validate(len(c.At.Vec)) != nil {
		return 0, 0, false
	}
	return ms(p.Predict(c.At, coords.DefaultKB*1000)), max(p.At.Error, p.Error), true
}

// pageTimes replaces the times of probes that were downloads by those of a typical page,
// to which proxies refer.
func (s *search) pageTimes(samples []coords.Sample) {
	pages := slices.DeleteFunc(slices.Clone(samples), func(x coords.Sample) bool {
		return !x.Failed && x.FirstByte == 0
	})
	d := coords.DigestOf(pages, coords.Population{})
	for _, m := range d.Peers {
		if m.OK > 0 {
			s.times[m.Peer] = d.Time(m).Mean
		}
	}
}

// proxyOf places the target by its probes; nil if none succeeded.
func (s *search) proxyOf(samples []coords.Sample) *coords.Proxy {
	p, err := coords.Locate(samples)
	if err != nil {
		near := s.best("")
		i := slices.IndexFunc(s.open, func(c Candidate) bool { return c.ID == near.Choice })
		if t, ok := s.times[near.Choice]; i < 0 || !ok || math.IsInf(t, 1) {
			return nil
		}
		// Too few for a fit: use the position of the nearest peer.
		p = coords.Proxy{At: s.open[i].At.Clone(), Scale: 1, Delay: s.times[near.Choice], Error: 1,
			Samples: len(s.times)}
		p.At.Error = 1
	}
	return &p
}
