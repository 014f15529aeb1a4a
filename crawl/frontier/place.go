package frontier

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"peerd/store"
)

// staleLook bounds the hosts that one Stale looks at.
const staleLook = 2048

// Stale returns up to n hosts that have something to do and were not named by
// Stale since then. It looks at some hosts from a random one on, so that
// each has its turn sooner or later.
func (f *Frontier) Stale(since time.Time, n int) []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var some []string
	looked, now := 0, time.Now().Unix()
	for name, h := range f.hosts {
		if looked++; looked > staleLook || len(some) == n {
			break
		}
		if h.checked <= since.Unix() && !h.closed && (h.pending > 0 || !h.dueAt.IsZero()) {
			h.checked = now
			some = append(some, name)
		}
	}
	return some
}

// Some returns up to n of our hosts, any.
func (f *Frontier) Some(n int) []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var some []string
	for name := range f.hosts {
		if len(some) == n {
			break
		}
		some = append(some, name)
	}
	return some
}

// Place returns where a host of ours is.
func (f *Frontier) Place(name string) (subnet netip.Prefix, addr netip.Addr, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	h := f.hosts[name]
	if h == nil {
		return subnet, addr, false
	}
	return h.srv.sub.prefix, h.srv.addr, true
}

// Hold lets a host rest until then.
func (f *Frontier) Hold(name string, until time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if h := f.hosts[name]; h != nil {
		h.nextAt = later(h.nextAt, until)
		f.reheapLocked(h.srv)
	}
}

// Readdress gives a host another address in its subnet. It returns false, having
// done nothing, while the host is being asked: then it is to be tried again. The
// gap after its last request holds at the new address too.
func (f *Frontier) Readdress(name string, addr netip.Addr) (bool, error) {
	addr = addr.Unmap()
	moved, err := f.rehang(name, addr)
	if !moved || err != nil {
		return false, err
	}
	err = f.cfg.DB.Update(func(tx *store.Tx) error {
		h, err := tx.Host(name)
		if err == nil {
			h.Addr = addr
		}
		return err
	})
	if err != nil {
		return false, fmt.Errorf("frontier: new address of %s: %w", name, err)
	}
	return true, nil
}

func (f *Frontier) rehang(name string, addr netip.Addr) (bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	h := f.hosts[name]
	if h == nil || h.closed {
		return false, ErrUnknownHost
	}
	old, sub := h.srv, h.srv.sub
	switch {
	case store.SubnetOf(addr) != sub.prefix:
		return false, fmt.Errorf("frontier: %s of %s is not in %v", addr, name, sub.prefix)
	case old.asked == h:
		return false, nil
	case old.addr == addr:
		return true, nil
	}
	srv := f.servers[addr]
	if srv == nil {
		srv = &server{addr: addr, index: -1}
		f.servers[addr] = srv
	}
	if srv.sub == nil {
		srv.sub, srv.class = sub, old.class
		sub.servers = append(sub.servers, srv)
	}
	h.nextAt = later(h.nextAt, old.nextAt)
	f.unhangLocked(h)
	h.srv = srv
	srv.hosts = append(srv.hosts, h)
	f.reheapLocked(srv)
	return true, nil
}

// unhangLocked takes a host from its server, and the server away if it was the
// last.
func (f *Frontier) unhangLocked(h *host) {
	s := h.srv
	s.hosts = slices.DeleteFunc(s.hosts, func(x *host) bool { return x == h })
	s.turn = 0
	if len(s.hosts) > 0 {
		f.reheapLocked(s)
		return
	}
	sub := s.sub
	s.sub = nil
	f.reheapLocked(s)
	sub.servers = slices.DeleteFunc(sub.servers, func(x *server) bool { return x == s })
	if s.asked == nil {
		delete(f.servers, s.addr)
	}
}

// Evict closes a host, and takes it out of the frontier when its last job and the
// last push to it have ended. It returns from when on the host may be asked again,
// wherever it goes. The store is not touched. When ctx ends first the host is open
// again. A host that is not there may be asked at once.
func (f *Frontier) Evict(ctx context.Context, name string) (nextAt time.Time, err error) {
	for {
		at, busy := f.evict(name)
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

// evict does that if the host is quiet, else returns a channel that is closed when
// that may have changed.
func (f *Frontier) evict(name string) (nextAt time.Time, busy <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	h := f.hosts[name]
	if h == nil {
		return nextAt, nil
	}
	h.closed = true
	f.reheapLocked(h.srv)
	if s := h.srv.sub; h.srv.asked == h || h.pushing > 0 {
		if s.changed == nil {
			s.changed = make(chan struct{})
		}
		return nextAt, s.changed
	}
	nextAt = later(h.nextAt, h.srv.nextAt)
	f.pending -= h.pending
	delete(f.hosts, name)
	f.unhangLocked(h)
	return nextAt, nil
}

func (f *Frontier) reopen(name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if h := f.hosts[name]; h != nil {
		h.closed = false
		f.reheapLocked(h.srv)
	}
}

// Enter takes in a host as the store has it, not to be asked before at. One that is
// there already is left as it is.
func (f *Frontier) Enter(rec store.Host, at time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	srv := f.addLocked(rec)
	if srv == nil {
		return
	}
	h := f.hosts[rec.Name]
	h.nextAt = later(h.nextAt, at)
	f.reheapLocked(srv)
}
