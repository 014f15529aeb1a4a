package frontier

import (
	"fmt"
	"net/netip"

	"peerd/crawl/canon"
)

// MaxAheadBytes is the approximate size of what is read ahead of all hosts.
const MaxAheadBytes = maxAheadBytes

// Ahead returns the number of entries of a host that were read ahead, and their size.
func (f *Frontier) Ahead(name string) (n, size int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, q := range f.hosts[name].turns.finders {
		for _, e := range q.window.entries {
			n++
			size += len(e.URL) + len(e.Key) + entryOverhead
		}
	}
	return n, size
}

// Clocks returns the number of clocks of networks, addresses and hosts.
func (f *Frontier) Clocks() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.networks.by) + len(f.addrs.by) + len(f.names.by)
}

// WrongOrder returns what is wrong in the order of hosts at an address; "" if nothing is.
func (f *Frontier) WrongOrder(addr netip.Addr) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.servers[addr]
	if s == nil || s.asks == nil {
		return ""
	}
	in := 0
	for _, h := range s.hosts {
		if h.hasWork() {
			in++
		}
		if at := h.place - 1; h.hasWork() != (at >= 0) || at >= 0 && (*s.asks)[at] != h {
			return fmt.Sprintf("%s has work: %v, at place %d", h.name, h.hasWork(), h.place)
		}
	}
	for i := range *s.asks {
		if i > 0 && s.asks.Less(i, (i-1)/2) {
			return fmt.Sprintf("places %d and %d are in the wrong order", i, (i-1)/2)
		}
	}
	if in != len(*s.asks) {
		return fmt.Sprintf("%d hosts are in order, want %d", len(*s.asks), in)
	}
	return ""
}

// WrongDomains returns what is counted wrongly of the domains at an address; "" if nothing is.
func (f *Frontier) WrongDomains(addr netip.Addr) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.servers[addr]
	if s == nil || s.domains == nil {
		return ""
	}
	var of [kinds]map[string]bool
	for kind := range of {
		of[kind] = map[string]bool{}
	}
	for _, h := range s.hosts {
		if h.evidence == served {
			of[servedHosts][canon.RegisteredDomain(h.name)] = true
		}
		if h.pending > 0 && !h.closed {
			of[waitingHosts][canon.RegisteredDomain(h.name)] = true
		}
	}
	for kind, want := range of {
		if got := s.domains.n[kind]; got != len(want) {
			return fmt.Sprintf("kind %d: %d domains, want %d", kind, got, len(want))
		}
	}
	if len(s.domains.by) > len(of[servedHosts])+len(of[waitingHosts]) {
		return fmt.Sprintf("%d domains are kept", len(s.domains.by))
	}
	return ""
}
