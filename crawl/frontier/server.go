package frontier

import (
	"container/heap"
	"net/netip"
	"time"

	"peerd/store"
)

// A host has one queue. It belongs to exactly one server.
type host struct {
	name     string
	srv      *server
	pending  int64
	nextAt   time.Time
	retryAt  time.Time // no request before, because of failures
	dueAt    time.Time // of the first revisit; zero: none
	dueEarly time.Time // earliest time set since Due returned the host
	epoch    uint64
	turns    turns
	current  store.URL // of the job in progress; "" without one, or before its entry is read
	pushing  int
	slot     *slot         // of the job in progress, or nil
	domain   string        // the registered one; "" until it was needed
	counted  [kinds]bool   // as what it is counted in srv.domains
	evidence evidence      // whether its server has pages of it
	reserved int           // Reservations of the host in progress, as its clock says
	closed   bool          // being evicted: no new job, no new URL
	leaving  chan struct{} // if not nil: closed when the host is
	checked  int64         // when StaleHosts last returned it, in Unix seconds
	place    int           // in srv.asks, from 1; 0: in none
	picked   int           // number of its last pick among those of srv.picks
}

// accepts reports whether the host, which may be nil, accepts new URLs.
func (h *host) accepts() bool { return h != nil && !h.closed && !h.srv.sub.paused }

// leaveLocked tells those who wait for it that the host accepts no URLs.
func (h *host) leaveLocked() {
	if h.leaving != nil {
		close(h.leaving)
		h.leaving = nil
	}
}

// askAt returns when the host may be asked next, if its server may.
func (h *host) askAt() time.Time { return later(h.nextAt, h.retryAt) }

// hasWork reports whether the host has URLs, and no request to it is in progress.
func (h *host) hasWork() bool {
	return h.pending > 0 && !h.closed && h.slot == nil && h.reserved == 0
}

// mayAsk reports whether the host has work and may be asked now, if its server may.
func (h *host) mayAsk(now time.Time) bool { return h.hasWork() && !h.askAt().After(now) }

// A server is one address. It is the unit of scheduling, because two hosts at one address
// are one machine, which must not get two requests at once unless it has shown that it serves
// many (slots.go). Its hosts take turns.
type server struct {
	addr     netip.Addr
	sub      *subnet
	hosts    []*host
	asks     *asks    // order of hosts; nil: they are few
	picks    int      // hosts picked by it
	domains  *domains // of hosts; nil: not counted yet
	turn     int
	class    class
	slots    []*slot   // at least one
	width    float64   // number of slots that are allowed, rounded down; at least 1
	calmAt   time.Time // until then a sign of strain belongs to the last one
	tested   int       // hosts that were preferred to find out whether they are served
	jobs     int       // taken in the present visits
	readyAt  time.Time // key in the heap: not before heapedAt, so that all wait equally
	heapedAt time.Time // when it was put into the heap
	heap     *readyHeap
	index    int // position in the heap; -1 if not in it
}

// MaxVisitPause is the longest pause within a visit. After a longer one many servers have closed
// the connection: 5 s is the default of Apache (KeepAliveTimeout).
const MaxVisitPause = 5 * time.Second

// A class is the reason for which this peer owns a server. If more servers are ready than
// there are workers, the classes share the workers according to Config.Shares (Malet 2009,
// section 4.2.3).
type class int

const (
	own      class = iota // found and claimed by this peer
	assigned              // handed over by another peer
	classes
)

// Shares are the shares of fetches that the classes get while both have work. Only their
// ratio matters; a class that is alone gets everything.
type Shares struct{ Own, Assigned float64 }

// DefaultShares are the shares of Malet 2009, section 4.2.3.
var DefaultShares = Shares{Own: 0.1, Assigned: 0.8}

// readyHeap orders servers by the time at which they may be asked.
type readyHeap []*server

func (h readyHeap) Len() int           { return len(h) }
func (h readyHeap) Less(i, j int) bool { return h[i].readyAt.Before(h[j].readyAt) }
func (h readyHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}
func (h *readyHeap) Push(x any) {
	s := x.(*server)
	s.index = len(*h)
	*h = append(*h, s)
}
func (h *readyHeap) Pop() any {
	old := *h
	s := old[len(old)-1]
	s.index = -1
	*h = old[:len(old)-1]
	return s
}

// addLocked adds a host and returns its server, which the caller must reheap. It returns
// nil if there is a host of that name.
func (f *Frontier) addLocked(rec store.Host) *server {
	if f.hosts[rec.Name] != nil {
		return nil
	}
	rec.Addr = rec.Addr.Unmap()
	srv := f.servers[rec.Addr]
	if srv == nil {
		srv = newServer(rec.Addr)
		f.servers[rec.Addr] = srv
	}
	if srv.sub == nil {
		srv.sub = f.subnetLocked(rec.Subnet)
		srv.class = own
		if rec.Assigned {
			srv.class = assigned
		}
		srv.sub.servers = append(srv.sub.servers, srv)
	}
	f.epochs++
	others := f.names.read(rec.Name)
	h := &host{name: rec.Name, srv: srv, pending: rec.Queued,
		nextAt: later(rec.NextAt, others.nextAt), reserved: others.active,
		retryAt: rec.Health.NextTry, dueAt: rec.DueAt, epoch: f.epochs}
	srv.hosts = append(srv.hosts, h)
	f.hosts[rec.Name] = h
	f.pending += rec.Queued
	f.recountLocked(h)
	return srv
}

// reheapLocked inserts s into the heap, moves it or removes it, according to its state, and
// wakes the leader if s is now the first.
func (f *Frontier) reheapLocked(s *server) {
	f.resizeLocked(s)
	at, ok := s.next()
	free, some := s.free(f.addrs.read(s.addr))
	at = later(at, free)
	if !ok || time.Until(at) > MaxVisitPause ||
		s.jobs >= f.cfg.VisitLength && f.crowdedLocked() {
		f.endVisitsLocked(s)
	}
	ok = ok && some && !s.sub.taken()
	if ok {
		next, full := f.networkAt(s.sub.prefix)
		at, ok = later(at, next), !full
	}
	in := &f.ready[s.class].others
	if s.visited() {
		in = &f.ready[s.class].visited
	}
	if s.index >= 0 && (!ok || s.heap != in) {
		heap.Remove(s.heap, s.index)
	}
	if !ok {
		return
	}
	if s.index >= 0 {
		s.readyAt = later(at, s.heapedAt)
		heap.Fix(s.heap, s.index)
	} else {
		s.heap, s.heapedAt = in, time.Now()
		s.readyAt = later(at, s.heapedAt)
		heap.Push(s.heap, s)
	}
	if s.index == 0 {
		f.wake.Signal()
	}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// readyServers are the servers of a class with work.
type readyServers struct{ visited, others readyHeap }

// first returns the server to ask now, or how long to wait. With visitsOnly it is none of the
// others.
func (r *readyServers) first(now time.Time, visitsOnly bool) (*server, time.Duration) {
	var best *server
	for i, h := range []readyHeap{r.visited, r.others} {
		if len(h) == 0 || i == 1 && visitsOnly {
			continue
		}
		if best == nil || h[0].readyAt.Before(best.readyAt) {
			best = h[0]
		}
	}
	switch {
	case best == nil:
		return nil, time.Hour
	case best.readyAt.After(now):
		return nil, best.readyAt.Sub(now)
	}
	return best, 0
}

// fullLocked reports whether no other host may be visited now.
func (f *Frontier) fullLocked() bool { return f.cfg.MaxVisits > 0 && f.visits >= f.cfg.MaxVisits }

// crowdedLocked reports whether a server waits for the end of a visit.
func (f *Frontier) crowdedLocked() bool {
	return f.fullLocked() && len(f.ready[own].others)+len(f.ready[assigned].others) > 0
}

// take starts a job of the first ready host. If there is none, it returns how long to wait.
func (f *Frontier) take(now time.Time) (Job, time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if wait := f.cfg.Node.FetchWait(now); wait > 0 {
		f.closedUntil = now.Add(wait)
		return Job{}, min(wait, time.Hour)
	}
	f.postponeLocked(now)
	s, wait := f.firstLocked(now)
	if s == nil {
		return Job{}, wait
	}
	if f.cfg.MaxVisits > 0 && !s.visited() && f.wantedLocked(s) < len(s.slots) {
		f.reheapLocked(s) // it may have lost the slot that is free
		return Job{}, 0
	}
	sl, h := f.pickLocked(s, now)
	if h == nil { // impossible, but must not cause a busy loop
		s.delay(now.Add(100 * time.Millisecond))
		f.reheapLocked(s)
		return Job{}, 100 * time.Millisecond
	}
	f.recordWaitLocked(now.Sub(later(f.closedUntil, s.readyAt)))
	sl.active, h.slot = h, sl
	h.orderLocked()
	f.enterLocked(s.sub.prefix, now)
	s.sub.inFlight++
	f.inFlight++
	f.changedLocked(s)
	return Job{Host: h.name, Addr: s.addr, Subnet: s.sub.prefix, Epoch: h.epoch, host: h,
		sub: s.sub}, 0
}

// firstLocked returns the server to ask now, or how long to wait. It chooses among the
// classes with a ready server by smooth weighted round robin: each earns credit in
// proportion to its share.
func (f *Frontier) firstLocked(now time.Time) (*server, time.Duration) {
	wait, sum := time.Hour, 0.0
	var best *server
	for c := range classes {
		s, after := f.ready[c].first(now, f.fullLocked())
		if s == nil {
			wait = min(wait, after)
			continue
		}
		f.credit[c] += f.share[c]
		sum += f.share[c]
		if best == nil || f.credit[c] > f.credit[best.class] {
			best = s
		}
	}
	if best == nil {
		return nil, wait
	}
	f.credit[best.class] -= sum
	return best, 0
}

// An outcome is how a job ended.
type outcome struct {
	done          bool // the entry has left the queue
	deferred      bool // the entry was moved behind all others of the host
	requested     bool // a request was sent: the clocks move
	gap, hostWait time.Duration
}

// release ends a job. Its subnet may have been dropped in the meantime, and even adopted
// again; the clock of the address moves in any case.
func (f *Frontier) release(j Job, o outcome) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.releaseLocked(j, o)
}

func (f *Frontier) releaseLocked(j Job, o outcome) {
	now := time.Now()
	h, s, sl := j.host, j.host.srv, j.host.slot
	f.inFlight--
	j.sub.inFlight--
	j.sub.notifyLocked()
	sl.active, h.slot, h.current = nil, nil, ""
	if o.requested {
		sl.nextAt = later(sl.nextAt, now.Add(o.gap))
		h.nextAt = later(h.nextAt, now.Add(max(o.gap, o.hostWait)))
		f.pauses.Count++
		f.pauses.Total += o.gap
	}
	f.leaveLocked(j.Subnet, o.requested)
	switch {
	case o.deferred:
		h.turns.pushed(store.DeferredPlace)
	case !o.done && j.Entry.Key != nil:
		h.turns.putBack(j.Entry, o.requested)
	}
	if o.done {
		h.pending--
		if f.hosts[h.name] == h {
			f.pending--
			f.recountLocked(h)
		}
	}
	if f.hosts[h.name] == h {
		h.orderLocked()
	} else { // dropped, and perhaps added again
		t := f.names.by[h.name]
		t.active--
		t.nextAt = later(t.nextAt, h.nextAt)
		if again := f.hosts[h.name]; again != nil {
			again.nextAt = later(again.nextAt, h.nextAt)
			again.orderLocked()
		}
		f.reserveLocked(h.name, -1)
	}
	if s.sub != nil {
		f.changedLocked(s)
		return
	}
	f.keepClocksLocked(s) // no host uses the address
	if !s.active() {
		delete(f.servers, s.addr)
	}
}

// changedLocked reheaps the servers that a change of s may affect: the whole subnet if it
// is serialized, else s alone.
func (f *Frontier) changedLocked(s *server) {
	if s.sub.serial {
		f.reheapAllLocked(s.sub)
		return
	}
	f.reheapLocked(s)
}
