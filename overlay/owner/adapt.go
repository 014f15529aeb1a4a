package owner

import (
	"maps"
	"math/rand/v2"
	"time"

	"peerd/coords/assign"
	"peerd/store"
)

const (
	// reviewsAtOnce bounds the reviews of one tick: each takes about as long as a
	// decision, some 100 µs.
	reviewsAtOnce = 32
	// leaveGap is the least time between two subnets that leave for the same
	// peer, so that its waiting time can show before the next one does.
	leaveGap = 2 * time.Second
	// shunned is how long a peer that did not answer is no scout and no heir.
	shunned = time.Minute
)

// review looks at decided subnets that are due, and sends off those that should
// be elsewhere. One that has no work left stays where it is.
func (m *Manager) review(now time.Time) {
	reviewer, ok := m.cfg.Strategy.(assign.Reviewer)
	if m.cfg.Adapt == nil || !ok {
		return
	}
	due := m.toReview(now)
	if len(due) == 0 {
		return
	}
	all, known := m.candidates(), m.known()
	for _, s := range due {
		e := m.evidence(s, all, now)
		e.Known = known
		m.mu.Lock()
		maps.DeleteFunc(s.avoid, func(_ string, until time.Time) bool { return until.Before(now) })
		e.Exclude = make(map[string]bool, len(s.avoid))
		for who := range s.avoid {
			e.Exclude[who] = true
		}
		e.CanProbe = s.watch.CanScout(*m.cfg.Adapt, now)
		m.mu.Unlock()
		e.Exclude = m.closedTo(e.Exclude, all, false)
		r, err := reviewer.Review(e)
		if err != nil {
			m.log.Debug("no review", "subnet", s.prefix, "err", err)
			continue
		}
		m.reviewed(s, r, e, now)
	}
}

// refresh fits the proxy coordinate of a decided subnet anew if pages came in
// since it was last done, so that the lease that is about to be renewed tells
// what its servers are like by now. Nothing else comes of the decision.
func (m *Manager) refresh(s *subnet) {
	if m.cfg.Adapt == nil {
		return
	}
	m.mu.Lock()
	due := s.news && s.phase == store.PhaseOwned && !s.leaving()
	s.news = false
	m.mu.Unlock()
	if !due {
		return
	}
	e := m.evidence(s, m.candidates(), time.Now())
	e.Known = m.known()
	step, err := m.cfg.Strategy.Next(e)
	if err != nil || step.Proxy == nil {
		return // the one that was announced remains
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if s.phase == store.PhaseOwned && !s.leaving() {
		s.lease.Proxy = step.Proxy
	}
}

// toReview returns some of the subnets that are due.
func (m *Manager) toReview(now time.Time) []*subnet {
	m.mu.Lock()
	defer m.mu.Unlock()
	var due []*subnet
	for p, s := range m.subnets {
		if len(due) == reviewsAtOnce {
			break
		}
		if s.phase != store.PhaseOwned || s.leaving() || s.to != "" || s.doubted() || s.again || !s.watch.Due(now) {
			continue
		}
		if _, pending, inFlight, _ := m.cfg.Frontier.Load(p); pending > 0 || inFlight > 0 {
			due = append(due, s)
		}
	}
	return due
}

// reviewed takes in a review: the subnet stays, or begins to leave.
func (m *Manager) reviewed(s *subnet, r assign.Review, e assign.Evidence, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if s.phase != store.PhaseOwned || s.leaving() || s.to != "" || m.subnets[s.prefix] != s {
		return
	}
	to := s.watch.Reviewed(*m.cfg.Adapt, e.Self, r, e.Samples, now, rand.Float64())
	if to == "" || now.Sub(m.outgoing[to]) < leaveGap { // its patience does not end with that
		return
	}
	maps.DeleteFunc(m.outgoing, func(_ string, at time.Time) bool { return now.Sub(at) > leaveGap })
	m.outgoing[to] = now
	s.watch.Moved(now)
	s.to, s.adapting, s.syncing = to, true, true
	m.log.Info("subnet leaves for a nearer peer", "subnet", s.prefix, "to", to, "gain", r.Gain)
}

// shun keeps a peer from being asked for a while; the Manager's mutex is held.
func (s *subnet) shun(who string, now time.Time) {
	if s.avoid == nil {
		s.avoid = map[string]time.Time{}
	}
	s.avoid[who] = now.Add(shunned)
}

// answered ends the wait for whoever was asked; the Manager's mutex is held.
func (m *Manager) answered(s *subnet) {
	if s.again && s.phase == store.PhaseOwned {
		m.cfg.Frontier.Single(s.prefix, false)
	}
	s.asked, s.again = "", false
}
