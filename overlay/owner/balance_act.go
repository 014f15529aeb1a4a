package owner

import (
	"net/netip"
	"time"

	"peerd/coords/assign"
	"peerd/overlay/ownership"
)

// balance is the part of a Manager that gives subnets away when this peer has too much to do or its
// working hours end.
type balance struct {
	*table
	balancer *balancer // guarded by mu
}

// Capacity returns what this peer can still take, in units of NominalPages: 1 without a
// limit, 0 if it takes nothing. It uses memory only.
func (b *balance) Capacity() float64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.balancer.capacity() / NominalPages
}

// rebalance gives subnets away when this peer has too much load or its working hours
// end, and returns those that other peers gave when theirs ended.
func (b *balance) rebalance(now time.Time) {
	if b.draining.Load() {
		return
	}
	b.mu.Lock()
	every := measureEvery
	if b.balancer.limits.Closed {
		every = closedEvery
	}
	due := now.Sub(b.balancer.at) >= every || now.Before(b.balancer.at)
	b.mu.Unlock()
	if !due {
		return
	}
	l := b.cfg.Limiter.Limits(now)
	var all []assign.Candidate
	if l.Closed || l.Pages > 0 || b.borrows() {
		all = b.takers()
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	raw, n := 0.0, 0
	if l.Pages > 0 {
		raw, n = b.demand()
	}
	b.balancer.observe(now, l, raw, n)
	if l.Closed {
		b.handOn(all, now)
		return
	}
	b.giveBack(all, now)
	if b.balancer.relieves {
		b.relieve(all, now)
	}
}

// closedTo adds to excluded the candidates that take no subnets. With self it includes
// this peer if it is one of these and another candidate is left.
func (b *balance) closedTo(
	excluded map[string]bool, all []assign.Candidate, self bool,
) map[string]bool {
	if excluded == nil {
		excluded = map[string]bool{}
	}
	others := false
	for _, c := range all {
		switch {
		case c.ID == b.self:
		case b.cfg.Limiter.AtCapacity(c.ID):
			excluded[c.ID] = true
		case !excluded[c.ID]:
			others = true
		}
	}
	b.mu.Lock()
	full := b.balancer.checkCapacity() != nil
	b.mu.Unlock()
	if self && others && full {
		excluded[b.self] = true
	}
	return excluded
}

// size is how many pages a subnet would have fetched within a day from now: what
// is queued, as far as the politeness of its hosts lets it.
func (b *balance) size(p netip.Prefix) float64 {
	hosts, pending, inFlight, _ := b.cfg.Frontier.SubnetLoad(p)
	return min(float64(pending)+float64(inFlight),
		float64(hosts)*float64(24*time.Hour)/float64(max(b.cfg.Gap, time.Millisecond)))
}

// demand is the size of all subnets that are not on their way to others. The
// table's mutex is held.
func (b *balance) demand() (sum float64, n int) {
	for p, s := range b.subnets {
		if s.unit.Stays() {
			sum += b.size(p)
			n++
		}
	}
	return sum, n
}

// relieve gives one subnet away. The table's mutex is held.
func (b *balance) relieve(all []assign.Candidate, now time.Time) {
	capacity := map[string]float64{}
	for _, c := range all {
		if c.ID != b.self {
			capacity[c.ID] = c.Capacity * NominalPages
		}
	}
	var loads []assign.Load
	sizes := map[netip.Prefix]float64{}
	for p, s := range b.subnets {
		if s.free() {
			sizes[p] = b.size(p)
			loads = append(loads, assign.Load{Subnet: p, Size: sizes[p],
				Probes: b.times(s, all, now)})
		}
	}
	for _, r := range b.balancer.decide(now, b.self, loads, capacity) {
		b.balancer.gave(now, r, sizes[r.Subnet])
		s := b.subnets[r.Subnet]
		s.watch.Moved(now)
		b.step(s, ownership.Event{Kind: ownership.Moved, To: r.To})
		b.log.Info("started handover: load above limit", "subnet", s.prefix, "to", r.To,
			"load", int64(b.balancer.load), "bound", int64(b.balancer.limits.Pages))
	}
}

// times are those of a page of a subnet from each peer with what waits there, ms: as
// measured, else as predicted. Who did not answer lately is left out. The table's
// mutex is held.
func (b *balance) times(s *subnet, all []assign.Candidate, now time.Time) map[string]float64 {
	q, own := b.question(s, all, now)
	ms := map[string]float64{}
	for _, c := range all {
		if q.not[c.ID] {
			continue
		}
		d := q.option(c, own).time
		if mean, ok := s.history.meanTime(c.ID); ok {
			d = mean + c.Wait
		}
		ms[c.ID] = float64(d) / float64(time.Millisecond)
	}
	return ms
}
