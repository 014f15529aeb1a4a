package owner

import (
	"maps"
	"net/netip"
	"time"

	"peerd/coords/assign"
	"peerd/store"
)

// Room is what this peer can still take, in plain peers (PlainPages): 1 without any
// bound, 0 when it takes nothing. It answers from memory.
func (m *Manager) Room() float64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.balance.room() / PlainPages
}

// takes says why this peer refuses a subnet that is offered to it.
func (m *Manager) takes(p netip.Prefix) error {
	if m.cfg.Limits == nil {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.balance.accept(time.Now(), p)
}

// level gives subnets away when this peer has too much, or its hours end, and those
// back that others gave as theirs ended.
func (m *Manager) level(now time.Time) {
	if m.cfg.Limits == nil || m.draining.Load() {
		return
	}
	m.mu.Lock()
	every := measureEvery
	if m.balance.limits.Closed {
		every = closedEvery
	}
	due := now.Sub(m.balance.at) >= every || now.Before(m.balance.at)
	m.mu.Unlock()
	if !due {
		return
	}
	l := m.cfg.Limits(now)
	var all []assign.Candidate
	if l.Closed || l.Pages > 0 || m.borrows() {
		all = m.takers()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	raw, n := 0.0, 0
	if l.Pages > 0 {
		raw, n = m.demand()
	}
	m.balance.observe(now, l, raw, n)
	if l.Closed {
		m.handOn(all, now)
		return
	}
	m.giveBack(all, now)
	if m.balance.relieves {
		m.relieve(all, now)
	}
}

// takers are this peer, and those of the others that take subnets.
func (m *Manager) takers() []assign.Candidate {
	var some []assign.Candidate
	for _, c := range m.candidates() {
		if c.ID == m.cfg.Self.String() || !m.isFull(c.ID) {
			some = append(some, c)
		}
	}
	return some
}

func (m *Manager) isFull(who string) bool { return m.cfg.Full != nil && m.cfg.Full(who) }

// closedTo adds to excluded the candidates that take nothing: this peer too, if
// self is set and it is one of these, unless nobody is left then.
func (m *Manager) closedTo(excluded map[string]bool, all []assign.Candidate, self bool) map[string]bool {
	if excluded == nil {
		excluded = map[string]bool{}
	}
	others := false
	for _, c := range all {
		switch {
		case c.ID == m.cfg.Self.String():
		case m.isFull(c.ID):
			excluded[c.ID] = true
		case !excluded[c.ID]:
			others = true
		}
	}
	m.mu.Lock()
	full := m.balance.full() != nil
	m.mu.Unlock()
	if self && others && full {
		excluded[m.cfg.Self.String()] = true
	}
	return excluded
}

// size is how many pages a subnet would have fetched within a day from now: what
// is queued, as far as the politeness of its hosts lets it.
func (m *Manager) size(p netip.Prefix) float64 {
	hosts, pending, inFlight, _ := m.cfg.Frontier.Load(p)
	return min(float64(pending)+float64(inFlight), float64(hosts)*float64(24*time.Hour)/float64(max(m.cfg.Gap, time.Millisecond)))
}

// demand is the size of all subnets that are not on their way to others. The
// Manager's mutex is held.
func (m *Manager) demand() (sum float64, n int) {
	for p, s := range m.subnets {
		if !s.leaving() && s.to == "" {
			sum += m.size(p)
			n++
		}
	}
	return sum, n
}

// relieve gives one subnet away. The Manager's mutex is held.
func (m *Manager) relieve(all []assign.Candidate, now time.Time) {
	room := map[string]float64{}
	for _, c := range all {
		if c.ID != m.cfg.Self.String() {
			room[c.ID] = c.Capacity * PlainPages
		}
	}
	var loads []assign.Load
	sizes := map[netip.Prefix]float64{}
	for p, s := range m.subnets {
		if s.phase == store.PhaseOwned && !s.leaving() && s.to == "" && !s.doubted() && !s.again {
			sizes[p] = m.size(p)
			loads = append(loads, assign.Load{Subnet: p, Size: sizes[p], Probes: m.times(s, all, now)})
		}
	}
	for _, r := range m.balance.decide(now, m.cfg.Self.String(), loads, room) {
		m.balance.gave(now, r, sizes[r.Subnet])
		s := m.subnets[r.Subnet]
		s.watch.Moved(now)
		s.to, s.syncing = r.To, true
		m.log.Info("subnet leaves as this peer has too much", "subnet", s.prefix, "to", r.To, "load", int64(m.balance.load), "bound", int64(m.balance.limits.Pages))
	}
}

// times are those of a page of a subnet from each peer with what waits there, ms: as
// measured, else as predicted. Who did not answer lately is left out. The Manager's
// mutex is held.
func (m *Manager) times(s *subnet, all []assign.Candidate, now time.Time) map[string]float64 {
	q, own := m.question(s, all, now)
	ms := map[string]float64{}
	for _, c := range all {
		if q.not[c.ID] {
			continue
		}
		d := q.option(c, own).time
		if mean, ok := meanTime(s.samples, c.ID); ok {
			d = mean + c.Wait
		}
		ms[c.ID] = float64(d) / float64(time.Millisecond)
	}
	return ms
}

// question is who may have a subnet. The Manager's mutex is held.
func (m *Manager) question(s *subnet, all []assign.Candidate, now time.Time) (q nomination, own assign.Candidate) {
	q = nomination{subnet: s.prefix, self: m.cfg.Self.String(), proxy: s.lease.Proxy, not: maps.Clone(s.exclude), anywhere: true}
	if q.not == nil {
		q.not = map[string]bool{}
	}
	for who, until := range s.avoid {
		if until.After(now) {
			q.not[who] = true
		}
	}
	for _, k := range s.keepers {
		if k.synced {
			q.prefer = append(q.prefer, k.id.String())
		}
	}
	for _, c := range all {
		if c.ID == q.self {
			own = c
		}
	}
	return q, own
}
