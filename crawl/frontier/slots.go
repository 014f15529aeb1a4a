package frontier

import (
	"math"
	"net/netip"
	"slices"
	"time"

	"peerd/crawl/canon"
)

// A slot permits one request at a time to an address, with a gap after each. An address has one
// slot at first. With n it is asked as n addresses of one host would be. The number grows by
// additive increase and falls by multiplicative decrease, as the window of TCP does (RFC 5681): see
// Frontier.Observe.
type slot struct {
	active  *host     // host with a job in progress, or nil
	visited *host     // host of the visit in progress, or nil
	jobs    int       // of that host in that visit
	nextAt  time.Time // no request before
}

// A Load is what an answer shows of the load of its server.
type Load int

const (
	LoadUnknown  Load = iota // neither
	LoadSteady               // a page of the host, in no longer a time than usual
	LoadStrained             // too many requests, no answer, or a much longer time than usual
)

// An evidence says whether the server of a host has pages of it.
type evidence uint8

const (
	unasked  evidence = iota // no page was requested
	unproved                 // there was no page in a usual time
	served                   // there was one
)

// minManyHosts is the number of hosts from which an address may have two slots.
const minManyHosts = 4

func newServer(addr netip.Addr) *server {
	return &server{addr: addr, slots: []*slot{{}}, width: 1, index: -1}
}

// active reports whether a job is in progress.
func (s *server) active() bool {
	return slices.ContainsFunc(s.slots, func(sl *slot) bool { return sl.active != nil })
}

// visited reports whether a host is being visited.
func (s *server) visited() bool {
	return slices.ContainsFunc(s.slots, func(sl *slot) bool { return sl.visited != nil })
}

// delay has s asked no earlier than at.
func (s *server) delay(at time.Time) {
	for _, sl := range s.slots {
		sl.nextAt = later(sl.nextAt, at)
	}
}

// restedAt returns when the gaps after all requests that have ended are over.
func (s *server) restedAt() (at time.Time) {
	for _, sl := range s.slots {
		at = later(at, sl.nextAt)
	}
	return at
}

// free returns when a slot is free. A request outside the queues, of which others is the clock,
// takes one of them. ok is false if a request must end first.
func (s *server) free(others clock) (at time.Time, ok bool) {
	var first, second time.Time
	idle := 0
	for _, sl := range s.slots {
		if sl.active != nil {
			continue
		}
		if idle++; idle == 1 || sl.nextAt.Before(first) {
			first, second = sl.nextAt, first
		} else if idle == 2 || sl.nextAt.Before(second) {
			second = sl.nextAt
		}
	}
	switch {
	case idle == 0 || idle == 1 && others.active > 0:
		return time.Time{}, false
	case others.active > 0:
		return second, true
	}
	at = later(first, others.nextAt)
	if idle > 1 && second.Before(at) {
		at = second
	}
	return at, true
}

// Observe tells what the answer to a job shows of the load of its server. The job goes on.
//
// A steady answer adds 1/n slot to the n slots of an address, up to Config.AddrRequests and to the
// square root of the number of registrable domains there: of those that have URLs, and of those of
// which it has answered with pages. Names in one domain count once, so that a site gains nothing by
// many names. A sign of strain takes half of the slots. Those that follow within the gap belong to
// it.
func (f *Frontier) Observe(j Job, l Load) {
	f.mu.Lock()
	defer f.mu.Unlock()
	h := j.host
	switch {
	case l == LoadStrained:
		f.strainedLocked(h.srv)
	case f.hosts[h.name] != h: // dropped
	case l == LoadSteady:
		h.evidence = served
		f.recountLocked(h)
		if s := h.srv; !time.Now().Before(s.calmAt) {
			s.width = min(s.width+1/s.width, f.boundLocked(s))
			if f.wantedLocked(s) != len(s.slots) {
				f.changedLocked(s)
			}
		}
	case h.evidence == unasked:
		h.evidence = unproved
	}
}

// Slots returns how many requests at a time an address may get.
func (f *Frontier) Slots(addr netip.Addr) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	if s := f.servers[addr.Unmap()]; s != nil {
		return len(s.slots)
	}
	return 1
}

// Strained tells that a request that is not a job, or that another peer has sent, showed a sign of
// strain of the server at an address.
func (f *Frontier) Strained(addr netip.Addr) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if s := f.servers[addr.Unmap()]; s != nil {
		f.strainedLocked(s)
	}
}

func (f *Frontier) strainedLocked(s *server) {
	if now := time.Now(); !now.Before(s.calmAt) {
		s.width, s.calmAt = max(s.width/2, 1), now.Add(f.cfg.Gap)
		f.reheapLocked(s)
	}
}

// boundLocked returns how many slots the hosts of a server permit.
func (f *Frontier) boundLocked(s *server) float64 {
	if f.cfg.AddrRequests <= 1 || len(s.hosts) < minManyHosts {
		return 1
	}
	if s.domains == nil {
		s.domains = &domains{by: map[string]*[kinds]int{}}
		for _, h := range s.hosts {
			h.counted = [kinds]bool{}
			f.recountLocked(h)
		}
	}
	n := min(s.domains.n[servedHosts], s.domains.n[waitingHosts])
	return max(math.Floor(min(math.Sqrt(float64(n)), float64(f.cfg.AddrRequests))), 1)
}

// The kinds of hosts of which the domains are counted.
const (
	servedHosts  = iota // their server has pages of them
	waitingHosts        // they have URLs
	kinds
)

// domains are the registrable domains of the hosts of a server, counted so that an answer need not
// look at all hosts: there may be many thousands. A server has none before they are needed.
type domains struct {
	by map[string]*[kinds]int // hosts of each kind; none with none of any
	n  [kinds]int             // domains with hosts of each kind
}

// add adds n to the hosts of a kind in a domain.
func (d *domains) add(domain string, kind, n int) {
	c := d.by[domain]
	if c == nil {
		c = new([kinds]int)
		d.by[domain] = c
	}
	before := c[kind]
	c[kind] += n
	switch {
	case before == 0:
		d.n[kind]++
	case c[kind] == 0:
		d.n[kind]--
		if *c == ([kinds]int{}) {
			delete(d.by, domain)
		}
	}
}

// recountLocked counts a host as what it is now. It is called after each change.
func (f *Frontier) recountLocked(h *host) {
	if f.hosts[h.name] == h {
		h.orderLocked()
		h.countAs([kinds]bool{servedHosts: h.evidence == served,
			waitingHosts: h.pending > 0 && !h.closed})
	}
}

// countAs counts a host at its server as a host of some kinds.
func (h *host) countAs(is [kinds]bool) {
	d := h.srv.domains
	if d == nil {
		return
	}
	for kind, now := range is {
		if now == h.counted[kind] {
			continue
		}
		if h.domain == "" {
			h.domain = canon.RegisteredDomain(h.name)
		}
		if h.counted[kind] = now; now {
			d.add(h.domain, kind, 1)
		} else {
			d.add(h.domain, kind, -1)
		}
	}
}

// resizeLocked gives a server as many slots as its width and its hosts permit. Those that rest for
// longest are kept, and a new one rests first, because it may replace one that was removed while it
// rested. Requests in progress end before their slots are removed.
func (f *Frontier) resizeLocked(s *server) {
	if s.width > 1 {
		s.width = min(s.width, f.boundLocked(s))
	}
	want := f.wantedLocked(s)
	for len(s.slots) < want {
		s.slots = append(s.slots, &slot{nextAt: time.Now().Add(f.cfg.Gap)})
		if s.visited() {
			f.visits++
		}
	}
	for len(s.slots) > want {
		first := -1
		for i, sl := range s.slots {
			if sl.active == nil && (first < 0 || sl.nextAt.Before(s.slots[first].nextAt)) {
				first = i
			}
		}
		if first < 0 {
			return
		}
		f.endVisitLocked(s, s.slots[first])
		s.slots = slices.Delete(s.slots, first, first+1)
		if s.visited() {
			f.visits--
			f.wake.Signal()
		}
	}
}

// wantedLocked returns how many slots a server is to have: as many as its width, and as can be
// visited.
func (f *Frontier) wantedLocked(s *server) int {
	n := int(s.width)
	if f.cfg.MaxVisits > 0 {
		free := f.cfg.MaxVisits - f.visits
		if s.visited() {
			free += len(s.slots)
		}
		n = min(n, free)
	}
	return max(n, 1)
}

// pickLocked returns the slot and the host of s to ask now: a host that is being visited, or else
// the next in turn, which is then visited.
func (f *Frontier) pickLocked(s *server, now time.Time) (*slot, *host) {
	sl := s.freeSlot(now)
	if sl == nil {
		return nil, nil
	}
	h := sl.visited
	goesOn := h != nil && h.mayAsk(now)
	var untested *host
	if goesOn && f.testsLocked(s, h) {
		untested = s.inTurn(func(h *host) bool { return h.evidence == unasked && h.mayAsk(now) })
	}
	switch {
	case untested != nil:
		h = untested
		s.tested++
	case goesOn && sl.jobs%f.cfg.VisitLength != 0:
	default:
		if h = s.pickNext(now); h == nil || f.cfg.MaxVisits == 0 {
			return sl, h
		}
	}
	if !s.visited() {
		f.visits += len(s.slots)
	}
	if sl.visited != h {
		f.leftLocked(sl)
		for _, other := range s.slots {
			if other.visited == h { // the visit goes on here
				other.visited, other.jobs = nil, 0
			}
		}
		sl.visited, sl.jobs = h, 0
	}
	sl.jobs++
	s.jobs++
	return sl, h
}

// freeSlot returns a slot that is free, or nil: if possible one with a visit that goes on, or else
// one without a visit.
func (s *server) freeSlot(now time.Time) (free *slot) {
	for _, sl := range s.slots {
		switch {
		case sl.active != nil || sl.nextAt.After(now):
		case sl.visited != nil && sl.visited.mayAsk(now):
			return sl
		case free == nil || free.visited != nil:
			free = sl
		}
	}
	return free
}

// testsLocked reports whether a visit of h is to give way to hosts of which no page was requested:
// with many hosts it is soon known whether the server serves them. The connections that this costs
// are bounded.
func (f *Frontier) testsLocked(s *server, h *host) bool {
	most := f.cfg.AddrRequests
	return most > 1 && len(s.hosts) >= minManyHosts && s.tested < 2*most*most &&
		h.evidence != unasked
}

// endVisitsLocked ends the visits of hosts of s without a job in progress.
func (f *Frontier) endVisitsLocked(s *server) {
	for _, sl := range s.slots {
		if sl.active == nil {
			f.endVisitLocked(s, sl)
		}
	}
}

// endVisitLocked ends the visit of a slot of s, if there is one.
func (f *Frontier) endVisitLocked(s *server, sl *slot) {
	if sl.visited == nil {
		return
	}
	f.leftLocked(sl)
	if sl.visited, sl.jobs = nil, 0; !s.visited() {
		s.jobs = 0
		f.visits -= len(s.slots)
		f.wake.Signal()
	}
}

// leftLocked reports that the host that a slot visits, if there is one, is left.
func (f *Frontier) leftLocked(sl *slot) {
	if sl.visited != nil {
		f.cfg.Node.Left(sl.visited.name)
	}
}
