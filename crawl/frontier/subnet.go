package frontier

import (
	"context"
	"net/netip"
	"slices"
	"time"

	"peerd/store"
)

// A subnet is the unit that is paused, adopted and dropped.
type subnet struct {
	prefix   netip.Prefix
	servers  []*server
	paused   bool // nothing is fetched and nothing taken in: it is leaving
	single   bool // one request at a time in the whole subnet: it is being estimated
	inFlight int
	pushing  int
	changed  chan struct{} // if somebody waits: closed when inFlight or pushing fall
}

func (s *subnet) closed() bool { return s.paused || s.single && s.inFlight > 0 }

func (s *subnet) quiet() bool { return s.inFlight == 0 && s.pushing == 0 }

func (s *subnet) notifyLocked() {
	if s.changed != nil {
		close(s.changed)
		s.changed = nil
	}
}

// subnetLocked returns the subnet of that prefix, which it makes if need be.
func (f *Frontier) subnetLocked(p netip.Prefix) *subnet {
	s := f.subnets[p]
	if s == nil {
		s = &subnet{prefix: p}
		f.subnets[p] = s
	}
	return s
}

func (f *Frontier) reheapAllLocked(s *subnet) {
	for _, srv := range s.servers {
		f.reheapLocked(srv)
	}
}

// A pushed is one host that an Update may push to, and what it has pushed.
type pushed struct {
	host   *host
	sub    *subnet
	added  int64
	depths []int // of these, each once
}

// add counts an entry of that depth.
func (p *pushed) add(depth int) {
	p.added++
	if !slices.Contains(p.depths, depth) {
		p.depths = append(p.depths, depth)
	}
}

// enter opens an Update of the hosts; leave closes it.
func (f *Frontier) enter(hosts []string) (map[string]*pushed, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	in := make(map[string]*pushed, len(hosts))
	for _, n := range hosts {
		h := f.hosts[n]
		if h == nil {
			return nil, ErrUnknownHost
		}
		if h.srv.sub.paused || h.closed {
			return nil, ErrPaused
		}
		in[n] = &pushed{host: h, sub: h.srv.sub}
	}
	for _, p := range in {
		p.sub.pushing++
		p.host.pushing++
	}
	return in, nil
}

func (f *Frontier) leave(in map[string]*pushed, committed bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	grown := map[*server]bool{}
	for n, p := range in {
		p.sub.pushing--
		p.host.pushing--
		p.sub.notifyLocked()
		if committed && p.added > 0 && f.hosts[n] == p.host {
			for _, d := range p.depths {
				p.host.window.pushed(d)
			}
			p.host.pending += p.added
			f.pending += p.added
			grown[p.host.srv] = true
		}
	}
	for srv := range grown {
		f.reheapLocked(srv)
	}
}

// Single sets or ends single file in a subnet: one request at a time in all of
// it. A subnet that has no host yet remembers it.
func (f *Frontier) Single(p netip.Prefix, on bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.subnetLocked(p)
	s.single = on
	f.reheapAllLocked(s)
}

// Shut stops a subnet without waiting for what is under way: no new job, no
// new URL. Pause waits. A subnet that has no host yet remembers it.
func (f *Frontier) Shut(p netip.Prefix) { f.setPaused(p, true) }

// Resume opens a paused or shut subnet again.
func (f *Frontier) Resume(p netip.Prefix) { f.setPaused(p, false) }

func (f *Frontier) setPaused(p netip.Prefix, on bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.subnetLocked(p)
	s.paused = on
	f.reheapAllLocked(s)
}

// Pause stops a subnet: no new job, no new URL; it returns when the last job
// and the last push there have ended, or with ctx's error, the subnet being
// open again then. A subnet that is dropped meanwhile counts as stopped. Only
// one Pause of a subnet may be under way.
func (f *Frontier) Pause(ctx context.Context, p netip.Prefix) error {
	f.Shut(p)
	for {
		quiet := f.quiet(p)
		if quiet == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			f.Resume(p)
			return ctx.Err()
		case <-quiet:
		}
	}
}

// quiet returns nil when nothing is under way in a paused subnet, else a
// channel that is closed when that may have changed.
func (f *Frontier) quiet(p netip.Prefix) <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.subnets[p]
	if s == nil {
		return nil
	}
	if !s.paused { // somebody else has resumed it
		s.paused = true
		f.reheapAllLocked(s)
	}
	if s.quiet() {
		return nil
	}
	if s.changed == nil {
		s.changed = make(chan struct{})
	}
	return s.changed
}

// Adopt takes in the hosts of a subnet that the store has received, in the
// place of all that was known of it, Single and Pause included. None of them
// is asked before at.
func (f *Frontier) Adopt(p netip.Prefix, hosts []store.Host, at time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.dropLocked(p)
	for _, h := range hosts {
		f.addLocked(h)
	}
	s := f.subnetLocked(p)
	for _, srv := range s.servers {
		srv.nextAt = later(srv.nextAt, at)
		f.reheapLocked(srv)
	}
}

// Drop forgets a paused subnet and all its hosts. The store is not touched.
func (f *Frontier) Drop(p netip.Prefix) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.dropLocked(p)
}

// dropLocked keeps only the servers that are being asked, until they have
// answered: whatever comes to their addresses waits for that.
func (f *Frontier) dropLocked(p netip.Prefix) {
	s := f.subnets[p]
	if s == nil {
		return
	}
	delete(f.subnets, p)
	for _, srv := range s.servers {
		for _, h := range srv.hosts {
			f.pending -= h.pending
			delete(f.hosts, h.name)
		}
		srv.sub, srv.hosts, srv.turn = nil, nil, 0
		f.reheapLocked(srv)
		if srv.asked == nil {
			delete(f.servers, srv.addr)
		}
	}
	s.servers = nil
	s.notifyLocked()
}

// Load returns what a subnet holds: its hosts, the URLs queued, the jobs under
// way, and the time from which on all of them may be asked.
func (f *Frontier) Load(p netip.Prefix) (hosts int, pending int64, inFlight int, nextAt time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.subnets[p]
	if s == nil {
		return
	}
	for _, srv := range s.servers {
		if srv.nextAt.After(nextAt) {
			nextAt = srv.nextAt
		}
		hosts += len(srv.hosts)
		for _, h := range srv.hosts {
			pending += h.pending
			if h.nextAt.After(nextAt) {
				nextAt = h.nextAt
			}
		}
	}
	return hosts, pending, s.inFlight, nextAt
}

// HostStats is one row of the queue.
type HostStats struct {
	Name     string
	Subnet   netip.Prefix
	Pending  int64
	InFlight bool
	NextAt   time.Time
}

// HostList returns a row a host.
func (f *Frontier) HostList() []HostStats {
	f.mu.Lock()
	defer f.mu.Unlock()
	rows := make([]HostStats, 0, len(f.hosts))
	for _, h := range f.hosts {
		at := h.nextAt
		if h.srv.nextAt.After(at) {
			at = h.srv.nextAt
		}
		rows = append(rows, HostStats{Name: h.name, Subnet: h.srv.sub.prefix, Pending: h.pending, InFlight: h.srv.asked == h, NextAt: at})
	}
	return rows
}
