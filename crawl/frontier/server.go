package frontier

import (
	"container/heap"
	"net/netip"
	"time"

	"peerd/store"
)

// A host is one queue. It belongs to exactly one server.
type host struct {
	name    string
	srv     *server
	pending int64
	nextAt  time.Time
	dueAt   time.Time // of the first revisit; zero: none
	dueNew  time.Time // of the first that came since Due named the host
	epoch   uint64
	window  window
	pushing int
	closed  bool  // it leaves: no new job, no new URL
	checked int64 // when Stale named it last, in Unix seconds
}

// A server is one address: the unit of scheduling, because two hosts at one
// address are one machine that we must not ask twice at once. Its hosts take
// turns.
type server struct {
	addr    netip.Addr
	sub     *subnet
	hosts   []*host
	turn    int
	class   class
	asked   *host // whose job is under way; nil when none is
	nextAt  time.Time
	readyAt time.Time // its key in the heap
	since   time.Time // when it was put into the heap
	index   int       // its place in the heap; -1 when not in it
}

// A class is why a server is ours. When more servers are ready than there are
// workers, the classes share the workers as Config.Shares says (Malet 2009,
// section 4.2.3).
type class int

const (
	own      class = iota // found and claimed by this peer
	assigned              // handed over by another peer
	classes
)

// Shares says how many of the fetches each class gets while there is work for
// all. Only their ratio counts; a class alone gets everything.
type Shares struct{ Own, Assigned float64 }

// DefaultShares are those of Malet 2009, section 4.2.3.
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

// addLocked takes in a host and returns its server, which the caller reheaps;
// nil when a host of that name is there already, for a host has one home.
func (f *Frontier) addLocked(rec store.Host) *server {
	if f.hosts[rec.Name] != nil {
		return nil
	}
	rec.Addr = rec.Addr.Unmap()
	srv := f.servers[rec.Addr]
	if srv == nil {
		srv = &server{addr: rec.Addr, index: -1}
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
	h := &host{name: rec.Name, srv: srv, pending: rec.Pending, nextAt: rec.NextAt, dueAt: rec.DueAt, epoch: f.epochs}
	srv.hosts = append(srv.hosts, h)
	f.hosts[rec.Name] = h
	f.pending += rec.Pending
	return srv
}

// reheapLocked puts s into the heap, moves it or takes it out, as its state
// demands, and wakes the leader when it has become the first.
func (f *Frontier) reheapLocked(s *server) {
	ready := &f.ready[s.class]
	at, ok := s.ready()
	if !ok {
		if s.index >= 0 {
			heap.Remove(ready, s.index)
		}
		return
	}
	s.readyAt = at
	if s.index >= 0 {
		heap.Fix(ready, s.index)
	} else {
		s.since = time.Now()
		heap.Push(ready, s)
	}
	if s.index == 0 {
		f.wakeLocked()
	}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func (f *Frontier) wakeLocked() {
	select {
	case f.wake <- struct{}{}:
	default: // told already
	}
}

// ready says when s may be asked for the next page, if at all.
func (s *server) ready() (time.Time, bool) {
	if s.asked != nil || s.sub == nil || s.sub.closed() {
		return time.Time{}, false
	}
	var first time.Time
	found := false
	for _, h := range s.hosts {
		if h.pending > 0 && !h.closed && (!found || h.nextAt.Before(first)) {
			first, found = h.nextAt, true
		}
	}
	if first.Before(s.nextAt) {
		first = s.nextAt
	}
	return first, found
}

// pick returns the next host in turn that may be asked now.
func (s *server) pick(now time.Time) *host {
	for i := range s.hosts {
		h := s.hosts[(s.turn+i)%len(s.hosts)]
		if h.pending > 0 && !h.closed && !h.nextAt.After(now) {
			s.turn = (s.turn + i + 1) % len(s.hosts)
			return h
		}
	}
	return nil
}

// take marks the first ready host as being asked and returns the job, or says
// how long to wait.
func (f *Frontier) take(now time.Time) (Job, time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if open := f.cfg.Open; open != nil {
		if wait := open(now); wait > 0 {
			f.shut = now.Add(wait)
			return Job{}, min(wait, time.Hour)
		}
	}
	s, wait := f.firstLocked(now)
	if s == nil {
		return Job{}, wait
	}
	h := s.pick(now)
	if h == nil { // cannot be, but must not spin
		s.nextAt = now.Add(100 * time.Millisecond)
		f.reheapLocked(s)
		return Job{}, 100 * time.Millisecond
	}
	f.waitedLocked(now.Sub(later(f.shut, later(s.readyAt, s.since))))
	s.asked = h
	s.sub.inFlight++
	f.inFlight++
	f.changedLocked(s)
	return Job{Host: h.name, Addr: s.addr, Subnet: s.sub.prefix, host: h, sub: s.sub}, 0
}

// firstLocked returns the server to be asked now, or how long to wait. Of the
// classes that have one, the one whose turn it is goes first: smooth weighted
// round robin, by credits that the shares earn.
func (f *Frontier) firstLocked(now time.Time) (*server, time.Duration) {
	wait, sum := time.Hour, 0.0
	var best *server
	for c := range classes {
		if len(f.ready[c]) == 0 {
			continue
		}
		s := f.ready[c][0]
		if s.readyAt.After(now) {
			wait = min(wait, s.readyAt.Sub(now))
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
	asked         bool // a request was sent: the clocks move
	gap, hostWait time.Duration
}

// release is the end of a job. Its subnet may have been dropped meanwhile, and
// come back; the clock of the address goes on all the same.
func (f *Frontier) release(j Job, o outcome) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	h, s := j.host, j.host.srv
	f.inFlight--
	j.sub.inFlight--
	j.sub.notifyLocked()
	s.asked = nil
	if o.asked {
		s.nextAt = now.Add(o.gap)
		if o.hostWait > 0 {
			h.nextAt = now.Add(o.hostWait)
		}
	}
	if !o.done && j.Entry.Key != nil {
		h.window.back(j.Entry, o.asked)
	}
	if o.done {
		h.pending--
		if f.hosts[h.name] == h {
			f.pending--
		}
	}
	if s.sub == nil { // dropped, and no other host came to the address
		delete(f.servers, s.addr)
		return
	}
	f.changedLocked(s)
}

// changedLocked reheaps the servers whose readiness may change with that of s:
// all of a subnet that goes in single file, else s alone.
func (f *Frontier) changedLocked(s *server) {
	if s.sub.single {
		f.reheapAllLocked(s.sub)
		return
	}
	f.reheapLocked(s)
}
