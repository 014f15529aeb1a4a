package assign

import (
	"cmp"
	"math"
	"slices"
	"time"

	"peerd/coords"
)

var _ Reviewer = (*ProxyStrategy)(nil)

// Review is the result of reviewing an owned subnet.
type Review struct {
	// Scout is the peer that should fetch one of the next pages to keep the samples recent;
	// "" if none is needed or no page can be spared (Evidence.CanProbe).
	Scout string
	// Better is the candidate that is nearer than the owner, waiting time included, by all
	// that is known; "" if none is. It has downloaded from the subnet before, but not
	// necessarily recently: MoveState requires that.
	Better string
	// Gain is the share of the owner's expected time that Better would save, reduced by the
	// uncertainty of the estimates. In [0, 1].
	Gain float64
	// Maybe is the candidate that appears nearest, and nearer than the owner; "" if there is
	// none. It may be Better, or a peer with too few samples for that.
	Maybe string
	// Worse reports that the owner recently became slower or failed, so that asking other
	// peers is urgent.
	Worse bool
	// WaitSelf and WaitBetter are the waiting times of a page at the owner and at Better.
	WaitSelf, WaitBetter time.Duration
}

// Reviewer is a Strategy that can also decide whether a subnet with an owner should
// move. Evidence.Self is the owner. The rules of Next apply.
type Reviewer interface {
	Strategy
	Review(Evidence) (Review, error)
}

const (
	// reviewEqual is the relative difference up to which candidates are equal, and which a move
	// has to save.
	reviewEqual = 0.10
	// failedWorse is the recent failure rate that makes a review urgent.
	failedWorse = 0.5
	// longAgo is the time in which conditions change: the age of a download without a time, and
	// beyond which repeating one becomes no more urgent. For so long after a move scouts go twice
	// as often.
	longAgo = 10 * time.Minute
)

// bound is the number of standard deviations from the median to the end of an 80 % interval.
var bound = math.Sqrt2 * math.Erfcinv(2*coords.Tail)

// Review compares the owner with the others by their latest downloads (see track),
// waiting time included as in Next. A peer that has never downloaded from the subnet is
// only named as a scout: nothing moves because of a prediction alone.
//
// The scout is the peer with the most informative answer: one that is promising by the
// best known or predicted time and was not asked for long. A peer that was fast before
// and slow recently is first treated as slow, and increasingly as fast as that slowness
// ages, so that the former owner is asked again soon.
func (s *ProxyStrategy) Review(e Evidence) (Review, error) {
	open, err := e.openCandidates()
	if err != nil {
		return Review{}, err
	}
	tracks := tracksOf(e)
	self := tracks.peers[e.Self]
	if self == nil || self.age > trackHalf || math.IsNaN(self.time) {
		return Review{}, nil
	}
	var r Review
	mine := math.Inf(1)
	waits := make(map[string]time.Duration, len(open))
	for _, c := range open {
		waits[c.ID] = c.Wait
		if c.ID == e.Self {
			mine = s.cost(c, self, tracks)
		}
	}
	if math.IsInf(mine, 1) { // the owner itself is excluded
		return Review{}, nil
	}
	least := max(reviewEqual*mine, ms(s.cfg.Tie))
	sure, maybe := make(map[string]float64, len(open)), make(map[string]float64, len(open))
	for _, c := range open {
		t := tracks.peers[c.ID]
		if c.ID == e.Self || t == nil || math.IsNaN(t.time) {
			continue
		}
		cost := s.cost(c, t, tracks)
		if !math.IsNaN(t.last) {
			if news := cost - t.time + min(t.last, t.time); mine-news >= least {
				maybe[c.ID] = news
			}
		}
		if mine-cost < least {
			continue
		}
		maybe[c.ID] = min(cost, cmp.Or(maybe[c.ID], cost))
		// The uncertainty of the two times is no gain: the end of the 80 % interval counts.
		if cost *= math.Exp(bound * math.Hypot(self.err, t.err)); cost < mine {
			sure[c.ID] = cost
		}
	}
	if r.Better = e.cheapest(sure, tracks); r.Better != "" {
		r.Gain = 1 - sure[r.Better]/mine
		r.WaitSelf, r.WaitBetter = waits[e.Self], waits[r.Better]
	}
	if r.Maybe = e.cheapest(maybe, tracks); r.Maybe != "" {
		r.Worse = self.worse || self.failed > failedWorse
	}
	if e.CanProbe {
		r.Scout = s.scout(e, open, mine, tracks)
	}
	return r, nil
}

// cheapest chooses among the peers with about the least cost, so that the subnets of one
// slow peer are shared by its successors. Of those it prefers the one with the most
// recent samples: few samples of each would prove nothing about any.
func (e Evidence) cheapest(costs map[string]float64, tracks tracks) string {
	least := math.Inf(1)
	for _, c := range costs {
		least = min(least, c)
	}
	var names []string
	most := 0
	for id, c := range costs {
		if c > least*(1+reviewEqual) {
			continue
		}
		switch n := min(tracks.peers[id].fresh, changeSlow); {
		case n > most:
			names, most = []string{id}, n
		case n == most:
			names = append(names, id)
		}
	}
	slices.Sort(names)
	return e.byScore(names)
}

// cost returns the expected time of a page at a candidate in ms, failures and waiting
// time included.
func (s *ProxyStrategy) cost(c Candidate, t *track, all tracks) float64 {
	return t.time + s.toll(t, all) + float64(c.Wait)/float64(time.Millisecond)
}

// toll returns the time in ms that a peer's failures beyond the rate of the others add
// to a page, as in penalty.
func (s *ProxyStrategy) toll(t *track, all tracks) float64 {
	rest := all.failedBut(t)
	excess := t.failed - rest
	if excess <= 0 {
		return 0
	}
	return float64(s.cfg.FailureCost) / float64(time.Millisecond) * excess / (1 - min(excess, 0.99))
}

// scout returns the most informative candidate to ask, or "".
func (s *ProxyStrategy) scout(e Evidence, open []Candidate, mine float64, tracks tracks) string {
	best, most := "", 0.0
	var predicted map[string]float64
	for _, c := range open {
		if c.ID == e.Self {
			continue
		}
		t := tracks.peers[c.ID]
		age, expected := longAgo, math.NaN()
		switch {
		case t != nil:
			age = min(t.age, longAgo)
			expected = t.expected() + s.toll(t, tracks)*math.Exp2(-float64(age)/float64(spell))
		default:
			if predicted == nil {
				predicted = s.forecast(e, open)
			}
			if x, ok := predicted[c.ID]; ok {
				expected = x
			}
		}
		if math.IsNaN(expected) {
			expected = mine // nothing is known: treated as equal
		}
		expected += float64(c.Wait) / float64(time.Millisecond)
		worth := mine / max(expected, 0.1)
		// Candidates that promise less than the owner are asked rarely.
		if score := worth * worth * worth * age.Seconds(); score > most {
			best, most = c.ID, score
		}
	}
	return best
}

// forecast predicts times in ms from the model of Next for candidates about which it has
// information.
func (s *ProxyStrategy) forecast(e Evidence, open []Candidate) map[string]float64 {
	v := s.assess(e, open)
	out := make(map[string]float64, len(v.options))
	for _, o := range v.options {
		if !math.IsNaN(o.time) {
			out[o.ID] = o.time
		}
	}
	return out
}
