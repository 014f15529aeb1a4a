package frontier

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"peerd/store"
)

// maxStaleScan is the maximum number of hosts that StaleHosts examines.
const maxStaleScan = 2048

// StaleHosts returns up to n hosts that have work and that StaleHosts has not returned
// since the given time. It examines a random selection of hosts, so every host is returned
// eventually.
func (f *Frontier) StaleHosts(since time.Time, n int) []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var names []string
	looked, now := 0, time.Now().Unix()
	for name, h := range f.hosts {
		if looked++; looked > maxStaleScan || len(names) == n {
			break
		}
		if h.checked <= since.Unix() && !h.closed && (h.pending > 0 || !h.dueAt.IsZero()) {
			h.checked = now
			names = append(names, name)
		}
	}
	return names
}

// HostAddr returns the subnet and address of one of our hosts.
func (f *Frontier) HostAddr(name string) (subnet netip.Prefix, addr netip.Addr, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	h := f.hosts[name]
	if h == nil {
		return subnet, addr, false
	}
	return h.srv.sub.prefix, h.srv.addr, true
}

// Queued returns the number of queued URLs of one of our hosts, with one in flight.
func (f *Frontier) Queued(name string) int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	if h := f.hosts[name]; h != nil {
		return h.pending
	}
	return 0
}

// InFlight reports whether a URL of one of our hosts is being fetched from its queue.
func (f *Frontier) InFlight(u store.URL) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	h := f.hosts[u.Host()]
	return h != nil && h.current == u
}

// DelayHost prevents requests to a host until the given time. The host need not be in the frontier.
func (f *Frontier) DelayHost(name string, until time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if h := f.hosts[name]; h != nil {
		h.nextAt = later(h.nextAt, until)
		h.orderLocked()
		f.reheapLocked(h.srv)
		return
	}
	f.names.delay(name, until, time.Now())
}

// SetRetryAt sets the time before which a host is left alone because of its failures; the
// zero time means that it may be asked again. Other delays of the host remain.
func (f *Frontier) SetRetryAt(name string, at time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if h := f.hosts[name]; h != nil {
		h.retryAt = at
		h.orderLocked()
		f.changedLocked(h.srv)
	}
}

// Removed subtracts n entries from the queue of the job's host, which the caller has removed
// from the store, with or without the entry of the job. The job goes on.
func (f *Frontier) Removed(j Job, n int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	h := j.host
	h.turns.reset()
	h.pending -= n
	if f.hosts[h.name] == h {
		f.pending -= n
		f.recountLocked(h)
	}
}

// SetHostAddr changes the address of a host within its subnet. It returns false and does
// nothing while the host is being asked; the caller must try again. The gap after the last
// request also applies to the new address.
func (f *Frontier) SetHostAddr(name string, addr netip.Addr) (bool, error) {
	addr = addr.Unmap()
	f.mu.Lock()
	moved, err := f.moveHostLocked(name, addr)
	f.mu.Unlock()
	if !moved || err != nil {
		return false, err
	}
	return true, f.storeAddr(name, addr)
}

// Redirect ends a job for which no request was sent, and gives its host another address within
// its subnet: the job's did not answer, that one did. The entry is handed out again as soon as
// the clock of the other address allows. A host that is on its way elsewhere keeps its address.
func (f *Frontier) Redirect(j Job, addr netip.Addr) error {
	addr = addr.Unmap()
	f.mu.Lock()
	f.releaseLocked(j, outcome{})
	moved := false
	var err error
	if f.hosts[j.Host] == j.host && !j.host.closed {
		moved, err = f.moveHostLocked(j.Host, addr)
	}
	f.mu.Unlock()
	if !moved || err != nil {
		return err
	}
	return f.storeAddr(j.Host, addr)
}

// storeAddr stores the address of a host, unless the host has left its subnet.
func (f *Frontier) storeAddr(name string, addr netip.Addr) error {
	err := f.cfg.DB.Update(func(tx *store.Tx) error {
		h, err := tx.Host(name)
		switch {
		case errors.Is(err, store.ErrNotFound):
			return nil
		case err == nil && h.Subnet == store.SubnetOf(addr):
			h.Addr = addr
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("frontier: set address of %s: %w", name, err)
	}
	return nil
}

func (f *Frontier) moveHostLocked(name string, addr netip.Addr) (bool, error) {
	h := f.hosts[name]
	if h == nil || h.closed {
		return false, ErrUnknownHost
	}
	old, sub := h.srv, h.srv.sub
	switch {
	case store.SubnetOf(addr) != sub.prefix:
		return false, fmt.Errorf("frontier: set address of %s: %s is not in %v",
			name, addr, sub.prefix)
	case h.slot != nil:
		return false, nil
	case old.addr == addr:
		return true, nil
	}
	srv := f.servers[addr]
	if srv == nil {
		srv = newServer(addr)
		f.servers[addr] = srv
	}
	if srv.sub == nil {
		srv.sub, srv.class = sub, old.class
		sub.servers = append(sub.servers, srv)
	}
	h.nextAt = later(h.nextAt, old.restedAt())
	f.detachLocked(h)
	h.srv, h.evidence = srv, unasked
	srv.hosts = append(srv.hosts, h)
	f.recountLocked(h)
	f.reheapLocked(srv)
	return true, nil
}

// detachLocked removes a host from its server, and the server if it has no host left.
func (f *Frontier) detachLocked(h *host) {
	s := h.srv
	h.countAs([kinds]bool{})
	h.leaveOrderLocked()
	s.hosts = slices.DeleteFunc(s.hosts, func(x *host) bool { return x == h })
	s.turn = 0
	for _, sl := range s.slots {
		if sl.visited == h {
			f.endVisitLocked(s, sl)
		}
	}
	if len(s.hosts) > 0 {
		f.reheapLocked(s)
		return
	}
	sub := s.sub
	s.sub = nil
	f.reheapLocked(s)
	sub.servers = slices.DeleteFunc(sub.servers, func(x *server) bool { return x == s })
	if !s.active() {
		f.keepClocksLocked(s)
		delete(f.servers, s.addr)
	}
}

// EvictHost closes a host and removes it from the frontier when its last job and push have
// ended. It returns the time from which the host may be asked again, wherever it goes; for
// an unknown host that is the zero time. The store is not changed. If ctx ends first, the
// host is open again.
func (f *Frontier) EvictHost(ctx context.Context, name string) (nextAt time.Time, err error) {
	for {
		at, busy := f.tryEvict(name)
		if busy == nil {
			return at, nil
		}
		select {
		case <-ctx.Done():
			f.reopen(name)
			return at, ctx.Err()
		case <-busy:
		}
	}
}

// tryEvict evicts the host if nothing is in progress there. Otherwise it returns a channel
// that is closed when that may have changed.
func (f *Frontier) tryEvict(name string) (nextAt time.Time, busy <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	h := f.hosts[name]
	if h == nil {
		return nextAt, nil
	}
	h.closed = true
	f.recountLocked(h)
	h.leaveLocked()
	f.reheapLocked(h.srv)
	if s := h.srv.sub; h.slot != nil || h.pushing > 0 {
		if s.changed == nil {
			s.changed = make(chan struct{})
		}
		return nextAt, s.changed
	}
	nextAt = later(h.nextAt, h.srv.restedAt())
	f.pending -= h.pending
	delete(f.hosts, name)
	f.detachLocked(h)
	f.names.delay(name, h.nextAt, time.Now())
	return nextAt, nil
}

func (f *Frontier) reopen(name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if h := f.hosts[name]; h != nil {
		h.closed = false
		f.recountLocked(h)
		f.reheapLocked(h.srv)
	}
}

// AdoptHost adds a host that is already in the store. It is not asked before at. A host
// that is in the frontier is left unchanged.
func (f *Frontier) AdoptHost(rec store.Host, at time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	srv := f.addLocked(rec)
	if srv == nil {
		return
	}
	h := f.hosts[rec.Name]
	h.nextAt = later(h.nextAt, at)
	h.orderLocked()
	f.reheapLocked(srv)
}
