package frontier

import (
	"container/heap"
	"time"
)

// manyHosts is the number of hosts above which a server has an order of them. Up to that, looking
// at all takes no longer.
const manyHosts = 32

// asks are the hosts of a server with work, ordered by the time at which they may be asked, and of
// several with the same time by their last pick. A server has none before it has many hosts: an
// address may have a hundred thousand.
type asks []*host

func (a asks) Len() int { return len(a) }
func (a asks) Less(i, j int) bool {
	if c := a[i].askAt().Compare(a[j].askAt()); c != 0 {
		return c < 0
	}
	return a[i].picked < a[j].picked
}
func (a asks) Swap(i, j int) {
	a[i], a[j] = a[j], a[i]
	a[i].place, a[j].place = i+1, j+1
}
func (a *asks) Push(x any) {
	h := x.(*host)
	*a = append(*a, h)
	h.place = len(*a)
}
func (a *asks) Pop() any {
	old := *a
	h := old[len(old)-1]
	old[len(old)-1] = nil
	*a, h.place = old[:len(old)-1], 0
	return h
}

// orderLocked gives a server an order of its hosts if it has many.
func (s *server) orderLocked() {
	if s.asks != nil || len(s.hosts) <= manyHosts {
		return
	}
	s.asks = &asks{}
	for _, h := range s.hosts {
		h.place = 0
		h.orderLocked()
	}
}

// orderLocked puts a host in its place in the order of its server. It is called after each change
// of hasWork and askAt.
func (h *host) orderLocked() {
	a := h.srv.asks
	switch {
	case a == nil:
	case !h.hasWork():
		h.leaveOrderLocked()
	case h.place == 0:
		heap.Push(a, h)
	default:
		heap.Fix(a, h.place-1)
	}
}

// leaveOrderLocked removes a host from the order of its server.
func (h *host) leaveOrderLocked() {
	if a := h.srv.asks; a != nil && h.place > 0 {
		heap.Remove(a, h.place-1)
	}
}

// next returns when a host of s may be asked for the next page, if its slots allow and nothing else
// is asked in its subnet. ok is false if s has no work.
func (s *server) next() (time.Time, bool) {
	if s.sub == nil || s.sub.paused {
		return time.Time{}, false
	}
	s.orderLocked()
	if s.asks != nil {
		if s.asks.Len() == 0 {
			return time.Time{}, false
		}
		return (*s.asks)[0].askAt(), true
	}
	var first time.Time
	found := false
	for _, h := range s.hosts {
		if h.hasWork() && (!found || h.askAt().Before(first)) {
			first, found = h.askAt(), true
		}
	}
	return first, found
}

// pickNext returns the next host in turn that may be asked now. Of many hosts it is the one that
// waits for longest.
func (s *server) pickNext(now time.Time) *host {
	if s.asks == nil {
		return s.inTurn(func(h *host) bool { return h.mayAsk(now) })
	}
	if s.asks.Len() == 0 || !(*s.asks)[0].mayAsk(now) {
		return nil
	}
	h := (*s.asks)[0]
	s.picks++
	h.picked = s.picks
	heap.Fix(s.asks, 0)
	return h
}

// maxTurn is the number of hosts that inTurn looks at, before the next call goes on.
const maxTurn = 1024

// inTurn returns the next host in turn for which is holds; nil if none of the next maxTurn is one.
func (s *server) inTurn(is func(*host) bool) *host {
	n := min(len(s.hosts), maxTurn)
	for i := range n {
		at := (s.turn + i) % len(s.hosts)
		if h := s.hosts[at]; is(h) {
			s.turn = (at + 1) % len(s.hosts)
			return h
		}
	}
	if n > 0 {
		s.turn = (s.turn + n) % len(s.hosts)
	}
	return nil
}
