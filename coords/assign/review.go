package assign

import (
	"cmp"
	"math"
	"slices"
	"time"
)

var _ Reviewer = (*ProxyStrategy)(nil)

// Review is what a Reviewer thinks of a subnet that is owned.
type Review struct {
	// Scout is the peer that should fetch one of the next pages, to keep what is
	// known fresh; "" if nobody needs to, or no page can be spared
	// (Evidence.CanProbe).
	Scout string
	// Better is the candidate that is nearer than the owner for all that is known,
	// its waiting time counted in; "" if none is. It has downloaded from the subnet
	// before, if not lately: Patience asks for that.
	Better string
	// Gain is the share of the owner's expected time that Better would save for
	// all that is known: as much as the estimates may be off is left out. In [0, 1].
	Gain float64
	// Maybe is the candidate that seems nearest, and nearer than the owner; "" if
	// none does. It may be Better, or too little known for that.
	Maybe string
	// Worse says that the owner became slower, or failed, lately, so that asking
	// others is urgent.
	Worse bool
	// WaitSelf and WaitBetter are what a page waits at the owner and at Better.
	WaitSelf, WaitBetter time.Duration
}

// Reviewer is a Strategy that can also tell of a decided subnet whether it
// should move. Evidence.Self is the owner. The rules of Next hold.
type Reviewer interface {
	Strategy
	Review(Evidence) (Review, error)
}

const (
	// reviewLeast is the least saving that a review speaks of: this share of
	// the owner's time, and so many ms.
	reviewLeast   = 0.15
	reviewLeastMs = 5
	// reviewDoubt is by how many standard errors the two times may be off.
	reviewDoubt = 1.5
	// reviewEqual is the difference between candidates that counts as none.
	reviewEqual = 0.10
	// freshMax is how many new downloads of a candidate make a difference in that.
	freshMax = 4
	// failedWorse is the share of failures, lately, that makes matters urgent.
	failedWorse = 0.5
	// ownerFresh is how old the owner's own last download may be for a review to
	// say anything.
	ownerFresh = 90 * time.Second
	// scoutAgeMax is the age beyond which a candidate's last download grows no
	// more urgent to be repeated.
	scoutAgeMax = 10 * time.Minute
)

// Review compares the owner with the others by what the last downloads of each
// took (see track), the waiting time counted in as in Next. A peer that has
// never downloaded from the subnet is only named as a scout: nothing moves on a
// prediction alone.
//
// The scout is the peer whose answer may matter most: promising by the best
// that is known or predicted of it, and not asked for long. A peer that was
// quick once and slow lately counts as slow at first and as quick again as its
// slowness grows old, so the former owner is asked again soon.
func (s *ProxyStrategy) Review(e Evidence) (Review, error) {
	open, err := e.open()
	if err != nil {
		return Review{}, err
	}
	tracks := tracksOf(e)
	self := tracks.peers[e.Self]
	if self == nil || self.age > ownerFresh || math.IsNaN(self.time) {
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
	sure, maybe := make(map[string]float64, len(open)), make(map[string]float64, len(open))
	for _, c := range open {
		t := tracks.peers[c.ID]
		if c.ID == e.Self || t == nil || math.IsNaN(t.time) {
			continue
		}
		cost := s.cost(c, t, tracks)
		if !math.IsNaN(t.last) {
			if news := cost - t.time + min(t.last, t.time); mine-news >= max(reviewLeast*mine, reviewLeastMs) {
				maybe[c.ID] = news
			}
		}
		if mine-cost < max(reviewLeast*mine, reviewLeastMs) {
			continue
		}
		maybe[c.ID] = min(cost, cmp.Or(maybe[c.ID], cost))
		// What the two times may be off is no gain.
		if cost *= math.Exp(reviewDoubt * math.Hypot(self.err, t.err)); cost < mine {
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

// cheapest chooses among the peers that cost about as little as the best one,
// so that the subnets of one slow peer are shared out among its heirs. Of those
// the one of which most is known by now goes on to be asked: to learn a little
// of each would prove nothing of any.
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
		switch n := min(tracks.peers[id].fresh, freshMax); {
		case n > most:
			names, most = []string{id}, n
		case n == most:
			names = append(names, id)
		}
	}
	slices.Sort(names)
	return e.byScore(names)
}

// cost is what a page is expected to take at a candidate, ms, its failures and
// its waiting time counted in.
func (s *ProxyStrategy) cost(c Candidate, t *track, all tracks) float64 {
	return t.time + s.toll(t, all) + float64(c.Wait)/float64(time.Millisecond)
}

// toll is what a peer's failures add to a page, ms: those beyond the rate of the
// others, as in penalty.
func (s *ProxyStrategy) toll(t *track, all tracks) float64 {
	rest := all.failedBut(t)
	excess := t.failed - rest
	if excess <= 0 {
		return 0
	}
	return float64(s.cfg.FailureCost) / float64(time.Millisecond) * excess / (1 - min(excess, 0.99))
}

// scout returns the candidate that is worth asking most, or "".
func (s *ProxyStrategy) scout(e Evidence, open []Candidate, mine float64, tracks tracks) string {
	best, most := "", 0.0
	var predicted map[string]float64
	for _, c := range open {
		if c.ID == e.Self {
			continue
		}
		t := tracks.peers[c.ID]
		age, hope := scoutAgeMax, math.NaN()
		switch {
		case t != nil:
			age = min(t.age, scoutAgeMax)
			hope = t.hope() + s.toll(t, tracks)*math.Exp2(-float64(age)/float64(hopeHalf))
		default:
			if predicted == nil {
				predicted = s.forecast(e, open)
			}
			if x, ok := predicted[c.ID]; ok {
				hope = x
			}
		}
		if math.IsNaN(hope) {
			hope = mine // nothing is known: as good as any
		}
		hope += float64(c.Wait) / float64(time.Millisecond)
		worth := mine / max(hope, 0.1)
		// What promises less than the owner has is asked ever less often.
		if score := worth * worth * worth * age.Seconds(); score > most {
			best, most = c.ID, score
		}
	}
	return best
}

// forecast predicts times, ms, from the model of Next, for those of which it
// knows anything.
func (s *ProxyStrategy) forecast(e Evidence, open []Candidate) map[string]float64 {
	v := s.look(e, open)
	out := make(map[string]float64, len(v.options))
	for _, o := range v.options {
		if !math.IsNaN(o.time) {
			out[o.ID] = o.time
		}
	}
	return out
}
