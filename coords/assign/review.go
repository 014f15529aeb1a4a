package assign

import (
	"math"

	"peerd/coords"
)

var _ Reviewer = (*ProxyStrategy)(nil)

// Review is the result of reviewing an owned subnet.
type Review struct {
	// Scout is the peer that is asked next, as it may save most; one that has never downloaded
	// from the subnet only if Evidence.CanProbe. Hope is what is expected to be saved beyond what a
	// move must save: the mean of the logarithm of the ratio of the owner's time to its own, or, of
	// one without a page, a share of the owner's time. >= 0.
	Scout string
	Hope  float64
	// Waste is the probability that Scout saves less than a move must save; 1 of a peer without a
	// page.
	Waste float64
	// Better is the candidate that saves most of the owner's time, waiting time included, at the
	// lower end of the 80 % interval; "" if none saves there what a move must save.
	Better string
	// Gain is the share of the owner's time that it saves there. In [0, 1].
	Gain float64
	// Doubt is the probability that Better saves less than a move must save.
	Doubt float64
}

// Reviewer is a Strategy that can also decide whether a subnet with an owner should
// move. Evidence.Self is the owner. The rules of Next apply.
type Reviewer interface {
	Strategy
	Review(Evidence) (Review, error)
}

// reviewEqual is the relative difference up to which candidates are equal, and which a move
// has to save.
const reviewEqual = 0.10

// bound is the number of standard deviations from the median to the end of an 80 % interval.
var bound = math.Sqrt2 * math.Erfcinv(2*coords.Tail)

// Review compares the owner with the others by all downloads (see levels), waiting time included
// as in Next. A failure is a page that takes FailureCost longer. A peer that has never downloaded
// from the subnet is only named as a scout: nothing moves because of a prediction alone.
//
// The scout is the peer with the greatest expected improvement over the owner. That of a
// peer that was not asked for long grows, as its level may have changed, and that of one that
// became slow, as it may be as fast as before.
func (s *ProxyStrategy) Review(e Evidence) (Review, error) {
	open, err := e.openCandidates()
	if err != nil {
		return Review{}, err
	}
	c, ok := s.cfg.compare(e)
	if !ok {
		return Review{}, nil
	}
	var r Review
	most := c.bar
	var predicted map[string]option
	for _, x := range open {
		if x.ID == e.Self {
			continue
		}
		var hope float64
		waste := 1.0
		switch d, ok := c.lead(x); {
		case ok:
			hope, waste = d.promise(c.bar), d.doubt(c.bar)
			if sure := d.mean - bound*math.Sqrt(d.variance); sure >= most {
				most = sure
				r.Better, r.Gain, r.Doubt = x.ID, -math.Expm1(-sure), d.doubt(c.bar)
			}
		case e.CanProbe:
			if predicted == nil {
				predicted = s.forecast(e, open)
			}
			hope = c.foresee(x, predicted)
		default:
			continue
		}
		if hope > r.Hope {
			r.Scout, r.Hope, r.Waste = x.ID, hope, waste
		}
	}
	return r, nil
}

// comparison compares other peers with the owner of a subnet.
type comparison struct {
	*levels
	owner int
	wait  float64 // of a page at the owner, ms
	bar   float64 // the lead that a move must exceed
}

// compare returns the comparison for a subnet; false if its owner is excluded or has no page.
func (c ProxyConfig) compare(e Evidence) (comparison, bool) {
	pages, sigmas := pagesOf(e.samples(), e.Now)
	l := levelsOf(pages, sigmas, c.FailureCost)
	out := comparison{levels: l, owner: l.index[e.Self]}
	if out.owner == 0 || e.Exclude[e.Self] {
		return out, false
	}
	for _, x := range e.Candidates {
		if x.ID == e.Self {
			out.wait = ms(x.Wait)
		}
	}
	saved := ms(c.Tie) / (l.time(out.owner) + out.wait)
	out.bar = -math.Log1p(-min(max(reviewEqual, saved), 1-reviewEqual))
	return out, true
}

// lead returns the lead of a candidate; false if it has no page.
func (c comparison) lead(x Candidate) (lead, bool) {
	i := c.index[x.ID]
	if i == 0 {
		return lead{}, false
	}
	return c.levels.lead(c.owner, i, c.wait, ms(x.Wait)), true
}

// foresee returns the hope of a candidate without a page, by the model of Next. One of which
// nothing is known is taken to be equal.
func (c comparison) foresee(x Candidate, predicted map[string]option) float64 {
	o, ok := predicted[x.ID]
	if !ok {
		return lead{learnt: levelSigma * levelSigma}.promise(c.bar)
	}
	all := c.time(c.owner) + c.wait
	return o.dist.Saving(all*math.Exp(-c.bar)-o.wait()-o.penalty) / all
}

// forecast returns what the model of Next predicts of candidates, by name, if it knows anything.
func (s *ProxyStrategy) forecast(e Evidence, open []Candidate) map[string]option {
	e.Delegations = nil // after a decision pages say more
	out := make(map[string]option, len(open))
	for _, o := range s.assess(e, open).options {
		if !math.IsNaN(o.time) {
			out[o.ID] = o
		}
	}
	return out
}
