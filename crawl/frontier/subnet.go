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
	paused   bool // no new job and no new URL: it is being handed over
	serial   bool // one request at a time in the whole subnet: it is being estimated
	inFlight int
	pushing  int
	changed  chan struct{} // if not nil: closed when inFlight or pushing decreases
}

// taken reports whether no other request may be sent to the subnet until one has ended.
func (s *subnet) taken() bool { return s.serial && s.inFlight > 0 }

func (s *subnet) idle() bool { return s.inFlight == 0 && s.pushing == 0 }

func (s *subnet) notifyLocked() {
	if s.changed != nil {
		close(s.changed)
		s.changed = nil
	}
}

// leaveLocked tells those who wait for it that the subnet's hosts accept no URLs.
func (s *subnet) leaveLocked() {
	for _, srv := range s.servers {
		for _, h := range srv.hosts {
			h.leaveLocked()
		}
	}
}

// subnetLocked returns the subnet of a prefix and creates it if necessary.
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

// A hostUpdate is a host that an Update may push to, and what it has pushed.
type hostUpdate struct {
	host   *host
	sub    *subnet
	added  int64
	places []int // distinct places of the added entries
}

// add counts an entry at a place.
func (p *hostUpdate) add(place int) {
	p.added++
	if !slices.Contains(p.places, place) {
		p.places = append(p.places, place)
	}
}

// beginUpdate starts an Update of the hosts; endUpdate ends it.
func (f *Frontier) beginUpdate(hosts []string) (map[string]*hostUpdate, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	in := make(map[string]*hostUpdate, len(hosts))
	for _, n := range hosts {
		h := f.hosts[n]
		if h == nil {
			return nil, ErrUnknownHost
		}
		if !h.accepts() {
			return nil, ErrPaused
		}
		in[n] = &hostUpdate{host: h, sub: h.srv.sub}
	}
	for _, p := range in {
		p.sub.pushing++
		p.host.pushing++
	}
	return in, nil
}

func (f *Frontier) endUpdate(in map[string]*hostUpdate, committed bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	grown := map[*server]bool{}
	for n, p := range in {
		p.sub.pushing--
		p.host.pushing--
		p.sub.notifyLocked()
		if committed && p.added > 0 && f.hosts[n] == p.host {
			for _, at := range p.places {
				p.host.turns.pushed(at)
			}
			p.host.pending += p.added
			f.pending += p.added
			f.recountLocked(p.host)
			grown[p.host.srv] = true
		}
	}
	for srv := range grown {
		f.reheapLocked(srv)
	}
}

// SetSerial turns serialization of a subnet on or off: with it, the whole subnet gets one
// request at a time. It may be called before the subnet has a host.
func (f *Frontier) SetSerial(p netip.Prefix, on bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.subnetLocked(p)
	s.serial = on
	f.reheapAllLocked(s)
}

// BeginPause stops a subnet without waiting for jobs in progress: no new job, no new URL.
// It may be called before the subnet has a host.
func (f *Frontier) BeginPause(p netip.Prefix) { f.setPaused(p, true) }

// Resume reopens a paused subnet.
func (f *Frontier) Resume(p netip.Prefix) { f.setPaused(p, false) }

func (f *Frontier) setPaused(p netip.Prefix, on bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.subnetLocked(p)
	s.paused = on
	if on {
		s.leaveLocked()
	}
	f.reheapAllLocked(s)
}

// Pause stops a subnet: no new job, no new URL. It returns when the last job and push there
// have ended. If ctx ends first, the subnet is open again and Pause returns the error of
// ctx. A subnet that is dropped in the meantime counts as stopped. Only one Pause per
// subnet may be in progress.
func (f *Frontier) Pause(ctx context.Context, p netip.Prefix) error {
	f.BeginPause(p)
	for {
		busy := f.busy(p)
		if busy == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			f.Resume(p)
			return ctx.Err()
		case <-busy:
		}
	}
}

// busy returns nil if nothing is in progress in a paused subnet. Otherwise it returns a
// channel that is closed when that may have changed.
func (f *Frontier) busy(p netip.Prefix) <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.subnets[p]
	if s == nil {
		return nil
	}
	if !s.paused { // resumed concurrently
		s.paused = true
		s.leaveLocked()
		f.reheapAllLocked(s)
	}
	if s.idle() {
		return nil
	}
	if s.changed == nil {
		s.changed = make(chan struct{})
	}
	return s.changed
}

// Adopt adds the hosts of a subnet that the store has received. They replace everything
// that was known about the subnet, including SetSerial and Pause. None of them is asked
// before at.
func (f *Frontier) Adopt(p netip.Prefix, hosts []store.Host, at time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.dropLocked(p)
	for _, h := range hosts {
		if f.names.read(h.Name).active == 0 {
			delete(f.names.by, h.Name) // the record says until when the host waits
		}
		f.addLocked(h)
	}
	s := f.subnetLocked(p)
	for _, srv := range s.servers {
		srv.delay(at)
		f.reheapLocked(srv)
	}
}

// Drop removes a paused subnet and all its hosts. The store is not changed.
func (f *Frontier) Drop(p netip.Prefix) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.dropLocked(p)
}

// dropLocked removes a subnet. Servers and clocks of hosts with a request in progress stay until
// it ends, so that new hosts at their addresses, and hosts that return, have to wait.
func (f *Frontier) dropLocked(p netip.Prefix) {
	s := f.subnets[p]
	if s == nil {
		return
	}
	delete(f.subnets, p)
	s.leaveLocked()
	for _, srv := range s.servers {
		f.keepClocksLocked(srv)
		for _, h := range srv.hosts {
			f.pending -= h.pending
			delete(f.hosts, h.name)
			if h.slot != nil {
				f.names.at(h.name, time.Now()).active++ // until the job ends
			}
		}
		srv.sub, srv.hosts, srv.asks, srv.domains, srv.turn = nil, nil, nil, nil, 0
		for _, sl := range srv.slots {
			f.endVisitLocked(srv, sl)
		}
		f.reheapLocked(srv)
		if !srv.active() {
			delete(f.servers, srv.addr)
		}
	}
	s.servers = nil
	s.notifyLocked()
}

// SubnetLoad returns the number of hosts, queued URLs and jobs in progress of a subnet, and
// the time from which all its hosts may be asked. Back-offs of failing hosts do not count:
// they are in the records of the hosts.
func (f *Frontier) SubnetLoad(
	p netip.Prefix,
) (hosts int, pending int64, inFlight int, nextAt time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.subnets[p]
	if s == nil {
		return
	}
	for _, srv := range s.servers {
		nextAt = later(nextAt, srv.restedAt())
		hosts += len(srv.hosts)
		for _, h := range srv.hosts {
			pending += h.pending
			nextAt = later(nextAt, h.nextAt)
		}
	}
	return hosts, pending, s.inFlight, nextAt
}

// HostStats describes one host.
type HostStats struct {
	Name     string
	Subnet   netip.Prefix
	Pending  int64
	InFlight bool
	NextAt   time.Time
}

// HostList returns the statistics of every host, in no particular order.
func (f *Frontier) HostList() []HostStats {
	f.mu.Lock()
	defer f.mu.Unlock()
	rows := make([]HostStats, 0, len(f.hosts))
	for _, h := range f.hosts {
		free, _ := h.srv.free(clock{})
		rows = append(rows, HostStats{Name: h.name, Subnet: h.srv.sub.prefix, Pending: h.pending,
			InFlight: h.slot != nil, NextAt: later(h.askAt(), free)})
	}
	return rows
}
