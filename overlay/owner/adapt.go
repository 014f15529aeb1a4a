package owner

import (
	"errors"
	"maps"
	"math/rand/v2"
	"time"

	"peerd/coords/assign"
	"peerd/overlay/estimate"
	"peerd/overlay/ownership"
)

const (
	// reviewsAtOnce bounds the reviews of one tick: each takes about as long as a
	// decision, some 100 µs.
	reviewsAtOnce = 32
	// leaveGap is the least time between two subnets that leave for the same
	// peer, so that its waiting time can show before the next one does.
	leaveGap = 2 * time.Second
	// shunned is the time for which a peer that did not answer is neither a scout nor a
	// successor, and no scout is sent to a subnet after one has refused.
	shunned = time.Minute
)

// review looks at decided subnets that are due, and sends off those that should
// be elsewhere. One that has no work left stays where it is.
func (c *Placement) review(now time.Time) {
	reviewer, ok := c.cfg.Strategy.(assign.Reviewer)
	if c.cfg.Adapt == nil || !ok {
		return
	}
	due := c.toReview(now)
	if len(due) == 0 {
		return
	}
	all, known := c.candidates(), c.delegations()
	for _, s := range due {
		e := c.evidence(s, all, now)
		e.Delegations = known
		c.mu.Lock()
		maps.DeleteFunc(s.avoid, func(_ string, until time.Time) bool { return until.Before(now) })
		e.Exclude = make(map[string]bool, len(s.avoid))
		for who := range s.avoid {
			e.Exclude[who] = true
		}
		e.CanProbe = s.watch.CanScout(*c.cfg.Adapt)
		c.mu.Unlock()
		e.Exclude = c.balance.closedTo(e.Exclude, all, false)
		r, err := reviewer.Review(e)
		if err != nil {
			c.log.Debug("review failed", "subnet", s.prefix, "err", err)
			continue
		}
		c.reviewed(s, r, e, now)
		c.saveLearned(s)
	}
}

// saveLearned saves a subnet if much of what is known of it is not on the disk.
func (c *Placement) saveLearned(s *subnet) {
	c.mu.Lock()
	due := s.learned()
	c.mu.Unlock()
	if !due {
		return
	}
	if err := c.save(s); err != nil {
		c.log.Error("failed to save subnet state", "subnet", s.prefix, "err", err)
	}
}

// refresh refits the proxy coordinate of a decided subnet if pages arrived since the
// last fit, so that the lease that is about to be renewed describes the current state of
// its servers. The decision has no other effect.
func (c *Placement) refresh(s *subnet) {
	if c.cfg.Adapt == nil {
		return
	}
	c.mu.Lock()
	due := s.news && s.unit.Decided && !s.unit.Leaves()
	s.news = false
	c.mu.Unlock()
	if !due {
		return
	}
	e := c.evidence(s, c.candidates(), time.Now())
	e.Delegations = c.delegations()
	step, err := c.cfg.Strategy.Next(e)
	if err != nil || step.Proxy == nil {
		return // the one that was announced remains
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if s.unit.Decided && !s.unit.Leaves() {
		s.lease.Proxy = step.Proxy
	}
}

// toReview returns some of the subnets that are due.
func (c *Placement) toReview(now time.Time) []*subnet {
	c.mu.Lock()
	defer c.mu.Unlock()
	var due []*subnet
	for p, s := range c.subnets {
		if len(due) == reviewsAtOnce {
			break
		}
		if !s.free() || !s.watch.Due(now) {
			continue
		}
		if _, pending, inFlight, _ := c.cfg.Frontier.SubnetLoad(p); pending > 0 || inFlight > 0 {
			due = append(due, s)
		}
	}
	return due
}

// reviewed takes in a review: the subnet stays, or begins to leave.
func (c *Placement) reviewed(s *subnet, r assign.Review, e assign.Evidence, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s.unit.State != ownership.Owned || c.subnets[s.prefix] != s {
		return
	}
	to := s.watch.Reviewed(*c.cfg.Adapt, r, now, rand.Float64())
	if to == "" || now.Sub(c.outgoing[to]) < leaveGap { // its patience does not end with that
		return
	}
	maps.DeleteFunc(c.outgoing, func(_ string, at time.Time) bool { return now.Sub(at) > leaveGap })
	c.outgoing[to] = now
	s.watch.Moved(now)
	c.step(s, ownership.Event{Kind: ownership.Moved, To: to, Why: ownership.ReasonNearer})
	c.log.Info("started handover: another peer is nearer", "subnet", s.prefix, "to", to,
		"gain", r.Gain)
}

// notSent takes in that a peer that was asked for a page has not requested it; the table's mutex is
// held.
func (s *subnet) notSent(who string, deciding bool, err error) {
	switch {
	case deciding:
		s.exclude[who] = true
	case errors.Is(err, estimate.ErrRefused):
		s.watch.Refused(time.Now().Add(shunned))
	default:
		s.shun(who, time.Now())
	}
}

// shun keeps a peer from being asked for a while; the table's mutex is held.
func (s *subnet) shun(who string, now time.Time) {
	if s.avoid == nil {
		s.avoid = map[string]time.Time{}
	}
	s.avoid[who] = now.Add(shunned)
}
