package assign

import (
	"math"
	"net/netip"
	"slices"
	"sort"
	"time"

	"peerd/coords"
)

// vote is what a neighbouring subnet that is decided says of the candidates:
// that they will be about as far from the target as they are from there.
type vote struct {
	owner string
	// weight is the logarithm of how much it counts.
	weight float64
	// logs are the logarithms of the candidates' times there, ms, in the order of
	// the open candidates; NaN where nothing is known. blurs are their
	// uncertainties.
	logs, blurs []float64
}

// vote's uncertainty where only the owner is known: it was near enough there.
const ownerBlur = 0.5

// readMax is how many delegations of a level are looked at: a peer may know of
// a hundred thousand, and a decision takes a step for every probe.
const readMax = 2048

// read returns the delegations of a level, or those near the target by their
// addresses if there are too many: of the largest prefix around it that has no
// more. below is the level below, whose delegations are among them.
func (h subnets) read(level, below netip.Prefix) []Delegation {
	all := h.first(level, readMax+1)
	if len(all) <= readMax || below.Bits() <= level.Bits() {
		return all[:min(len(all), readMax)]
	}
	// The more bits, the fewer delegations.
	bits := level.Bits() + 1 + sort.Search(below.Bits()-level.Bits()-1, func(i int) bool {
		around, _ := below.Addr().Prefix(level.Bits() + 1 + i)
		return len(h.first(around, readMax+1)) <= readMax
	})
	around, _ := below.Addr().Prefix(bits)
	return h.first(around, readMax)
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

// votes gathers the neighbours, the nearest levels first, and of a level with
// more than there is room for, evenly spaced ones. Each level down weighs more by
// a factor.
func (s *IPMicraProxyStrategy) votes(run *search, h subnets, target netip.Prefix) []vote {
	var levels []netip.Prefix
	for l := range h.levels(target) {
		levels = append(levels, l)
	}
	seen := make(map[netip.Prefix]bool)
	var out []vote
	for i, level := range levels {
		var found []Delegation
		for _, d := range h.read(level, levels[max(0, i-1)]) {
			if !seen[d.Subnet] {
				seen[d.Subnet] = true
				found = append(found, d)
			}
		}
		room := s.cfg.Neighbours - len(out)
		if n := len(found); n > room {
			kept := make([]Delegation, room)
			for k := range kept {
				kept[k] = found[k*n/room]
			}
			found = kept
		}
		weight := float64(len(levels)-1-i) * math.Log(s.cfg.Nearness)
		for _, d := range found {
			if v, ok := s.vote(run, d); ok {
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

// vote reads a delegation: by its probes, else by its proxy; its owner was found
// to be the nearest, so nobody that was only predicted is nearer.
func (s *IPMicraProxyStrategy) vote(run *search, d Delegation) (vote, bool) {
	v := vote{owner: d.Owner, logs: make([]float64, len(run.open)), blurs: make([]float64, len(run.open))}
	least, owner, known := math.Inf(1), -1, false
	for i, c := range run.open {
		v.logs[i] = math.NaN()
		if c.ID == d.Owner {
			owner = i
		}
		if took, ok := d.Probes[c.ID]; ok {
			v.logs[i], v.blurs[i] = logMillis(float64(took)/float64(time.Millisecond)), s.cfg.Blur
		} else if d.Proxy != nil {
			if ms, rel, ok := s.cfg.Predict(*d.Proxy, c); ok {
				v.logs[i], v.blurs[i] = logMillis(ms), math.Hypot(s.cfg.Blur, min(max(rel, 0), 1))
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
				v.logs[owner], v.blurs[owner] = logMillis(float64(s.cfg.Threshold)/float64(time.Millisecond)/2), ownerBlur
			}
			v.blurs[owner] = max(v.blurs[owner], s.cfg.Blur)
			known = true
		}
	}
	return v, known
}

// logMillis is the scale on which times are compared.
func logMillis(ms float64) float64 { return math.Log(max(ms, 0) + 1) }

// believe reweighs the votes by how well they agree with the probes of the
// target so far, and returns weights that sum up to 1. A probe never speaks
// against a neighbour with more than a factor of e^-strayMax.
func (s *IPMicraProxyStrategy) believe(run *search, votes []vote) []float64 {
	const strayMax = 8
	const silence = 2 // what it costs a vote to know nothing of a peer that probed
	weights := make([]float64, len(votes))
	most := math.Inf(-1)
	for k, v := range votes {
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
			width := s.cfg.Spread + v.blurs[i] - s.cfg.Blur
			weights[k] -= min(math.Abs(v.logs[i]-logMillis(t))/width, strayMax)
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

// favourite is the candidate that most votes, by weight, find nearest of those
// that did not probe; "" if no vote knows any of them.
func favourite(run *search, votes []vote, weights []float64) string {
	score := make([]float64, len(run.open))
	for k, v := range votes {
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

// hopeful is the unprobed candidate that is most likely to be nearer than the
// given time, ms, and how likely that is.
func hopeful(run *search, votes []vote, weights []float64, than float64) (id string, chance float64) {
	bar := logMillis(than)
	for i, c := range run.open {
		if run.probed(c.ID) {
			continue
		}
		p := 0.0
		for k, v := range votes {
			if weights[k] < 1e-9 || math.IsNaN(v.logs[i]) {
				continue
			}
			p += weights[k] * below((bar-v.logs[i])/v.blurs[i])
		}
		if p > chance {
			id, chance = c.ID, p
		}
	}
	return id, chance
}

// below is the distribution function of the standard normal.
func below(z float64) float64 { return math.Erfc(-z/math.Sqrt2) / 2 }

// predicted is the expected probe time of each candidate of which something is
// known: what it probed itself, else the votes' mean.
func predicted(run *search, votes []vote, weights []float64) map[string]time.Duration {
	out := make(map[string]time.Duration, len(run.open))
	for i, c := range run.open {
		ms, ok := run.times[c.ID]
		if !ok || math.IsInf(ms, 1) {
			sum, w := 0.0, 0.0
			for k, v := range votes {
				if !math.IsNaN(v.logs[i]) {
					sum += weights[k] * v.logs[i]
					w += weights[k]
				}
			}
			if w == 0 {
				continue
			}
			ms = math.Exp(sum/w) - 1
		}
		out[c.ID] = time.Duration(min(max(ms, 0), predictedMax) * float64(time.Millisecond))
	}
	return out
}

// pageBytes is the page that predictions by coordinates are for: 16 kB.
const pageBytes = 16_000

// foretell predicts the time of a page: by what the peer and the server have
// published of themselves (coords.Traits), else by where they stand.
func foretell(p coords.Proxy, c Candidate) (ms, rel float64, ok bool) {
	if f, ok := c.Traits.Predict(p.Traits); ok {
		return math.Exp(min(f.Mean, 20)), math.Sqrt(f.Model), true
	}
	if p.Validate(len(c.At.Vec)) != nil {
		return 0, 0, false
	}
	return float64(p.Predict(c.At, pageBytes)) / float64(time.Millisecond), max(p.At.Error, p.Error), true
}

// pageTimes replaces the times of probes that were downloads by those of a
// typical page: what traits and proxies are about.
func (s *search) pageTimes(samples []coords.Sample) {
	pages := slices.DeleteFunc(slices.Clone(samples), func(x coords.Sample) bool { return !x.Failed && x.FirstByte == 0 })
	d := coords.DigestOf(pages)
	for _, m := range d.Peers {
		if m.OK > 0 {
			s.times[m.Peer] = d.Time(m)
		}
	}
}

// proxyOf is where the target stands, as far as its probes tell; nil if nobody
// got through.
func (s *search) proxyOf(samples []coords.Sample) *coords.Proxy {
	bare := slices.Clone(samples)
	for i, x := range bare {
		if !x.Failed && x.FirstByte == 0 { // a connection only: a round trip, and no delay
			bare[i].FirstByte = x.Connect
		}
	}
	p, err := coords.Locate(bare, coords.DefaultFitConfig())
	if err != nil {
		near := s.best("")
		i := slices.IndexFunc(s.open, func(c Candidate) bool { return c.ID == near.Choice })
		if t, ok := s.times[near.Choice]; i < 0 || !ok || math.IsInf(t, 1) {
			return nil
		}
		// Too few for a fit: it stands by the peer that is nearest.
		p = coords.Proxy{At: s.open[i].At.Clone(), Scale: 1, Delay: s.times[near.Choice], Error: 1, Samples: len(s.times)}
		p.At.Error = 1
	}
	var rows []coords.TraitRow
	for _, c := range s.open {
		if t, ok := s.times[c.ID]; ok && !math.IsInf(t, 1) && len(c.Traits) > 0 {
			rows = append(rows, coords.TraitRow{Peer: c.Traits, Time: logMillis(t)})
		}
	}
	if len(rows) > 0 {
		p.Traits = coords.LocateTraits(rows)
	}
	return &p
}
