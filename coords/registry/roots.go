package registry

import (
	"net/netip"
)

// WithRoots appends the roots of the entries: the blocks in which IANA assigns
// addresses, IPv4 /8, IPv6 /12, and /23 inside 2001::/16. A root has no holder; its
// registry is the one that received most of its addresses. A block that is an entry
// already is no root, and one larger than that has none. Like append, it writes behind
// the entries if there is capacity.
func WithRoots(entries []Entry) []Entry {
	type part struct {
		root     netip.Prefix
		registry string
	}
	have := map[netip.Prefix]bool{}
	parts := map[part]float64{}
	var order []part
	for _, e := range entries {
		root, ok := rootOf(e.Prefix)
		if !ok {
			continue
		}
		if e.Prefix == root {
			have[root] = true
			continue
		}
		p := part{root, e.Registry}
		if _, ok := parts[p]; !ok {
			order = append(order, p)
		}
		parts[p] += 1 / float64(uint64(1)<<min(63, e.Prefix.Bits()-root.Bits()))
	}
	best := map[netip.Prefix]part{}
	for _, p := range order {
		if b, ok := best[p.root]; !ok || parts[p] > parts[b] {
			best[p.root] = p
		}
	}
	out := entries
	for _, p := range order {
		if best[p.root] == p && !have[p.root] {
			out = append(out, Entry{Prefix: p.root, Registry: p.registry})
		}
	}
	return out
}

// rootOf returns IANA's block around p; ok is false if p is larger than that.
func rootOf(p netip.Prefix) (netip.Prefix, bool) {
	bits := 8
	if !p.Addr().Is4() {
		bits = 12
		if a := p.Addr().As16(); a[0] == 0x20 && a[1] == 0x01 {
			bits = 23
		}
	}
	if !p.IsValid() || p.Bits() < bits {
		return netip.Prefix{}, false
	}
	root, err := p.Addr().Prefix(bits)
	return root, err == nil
}
