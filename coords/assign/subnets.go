package assign

import (
	"iter"
	"net/netip"
	"slices"

	"peerd/coords/registry"
)

// Lengths of leaf prefixes, which are delegated below the registries' data.
const (
	leaf4 = 24
	leaf6 = 48
)

// subnets is the hierarchy of IP addresses (Papapetrou 2003, 7.5): the registries'
// table, the known delegations, and the candidates' own subnets.
type subnets struct {
	table       *registry.Table // nil: there are only leaves and the root
	leaf        bool
	delegations Delegations
	// ownSubnets are the candidates' own subnets in the order of their prefixes, without
	// duplicates and without those that are known to be delegated.
	ownSubnets []Delegation
}

// newSubnets places the candidates: "we can immediately assign the subnet where the
// machine belongs to the new crawler" (7.5.2). A delegation takes precedence.
func newSubnets(table *registry.Table, leaf bool, known Delegations, open []Candidate) subnets {
	h := subnets{table: table, leaf: leaf, delegations: known}
	for _, c := range open {
		if !c.Addr.IsValid() {
			continue
		}
		a := c.Addr.Unmap().WithZone("")
		h.ownSubnets = append(h.ownSubnets,
			Delegation{Subnet: h.smallest(netip.PrefixFrom(a, a.BitLen())), Owner: c.ID})
	}
	slices.SortStableFunc(h.ownSubnets, func(a, b Delegation) int {
		return compareSubnet(a, b.Subnet)
	})
	h.ownSubnets = slices.CompactFunc(h.ownSubnets, func(a, b Delegation) bool {
		return a.Subnet == b.Subnet
	})
	h.ownSubnets = slices.DeleteFunc(h.ownSubnets, func(d Delegation) bool {
		_, ok := h.knownOwner(d.Subnet)
		return ok
	})
	return h
}

// compareSubnet orders delegations by their subnets.
func compareSubnet(d Delegation, p netip.Prefix) int { return d.Subnet.Compare(p) }

// above yields the table's blocks around p, the smallest first.
func (h subnets) above(p netip.Prefix) iter.Seq[registry.Entry] {
	if h.table == nil {
		return func(func(registry.Entry) bool) {}
	}
	return h.table.Supernets(p)
}

// smallest returns the subnet that is delegated for p: p itself, unless it is a single
// address. Then it is "the smallest subnet from the IP hierarchy that includes" it,
// where "we exclude the unary subnets" (7.6.1), or the leaf if that is smaller or there
// is no such subnet.
func (h subnets) smallest(p netip.Prefix) netip.Prefix {
	p = p.Masked()
	if p.Bits() < p.Addr().BitLen() {
		return p
	}
	leaf, _ := p.Addr().Prefix(leafBits(p.Addr()))
	for e := range h.above(p) {
		switch {
		case e.Prefix.IsSingleIP():
		case h.leaf && e.Prefix.Bits() < leaf.Bits():
			return leaf
		default:
			return e.Prefix
		}
	}
	return leaf
}

func leafBits(a netip.Addr) int {
	if a.Is4() {
		return leaf4
	}
	return leaf6
}

// levels yields target and the blocks that contain it, up to all addresses.
func (h subnets) levels(target netip.Prefix) iter.Seq[netip.Prefix] {
	return func(yield func(netip.Prefix) bool) {
		if !yield(target) {
			return
		}
		for e := range h.above(target) {
			if e.Prefix != target && !yield(e.Prefix) {
				return
			}
		}
		if root, _ := target.Addr().Prefix(0); root != target {
			yield(root)
		}
	}
}

// holder returns the company that holds target, "" if there is none.
func (h subnets) holder(target netip.Prefix) string {
	for e := range h.above(target) {
		return e.Holder
	}
	return ""
}

// within yields the delegations inside p, including the candidates' own subnets, in the
// order of their prefixes, p itself first.
func (h subnets) within(p netip.Prefix) iter.Seq[Delegation] {
	return func(yield func(Delegation) bool) {
		at, _ := slices.BinarySearchFunc(h.ownSubnets, p, compareSubnet)
		own := h.ownSubnets[at:]
		inside := func() bool {
			return len(own) > 0 && own[0].Subnet.Bits() >= p.Bits() &&
				p.Contains(own[0].Subnet.Addr())
		}
		if h.delegations != nil {
			for d := range h.delegations.Within(p) {
				for inside() && own[0].Subnet.Compare(d.Subnet) < 0 {
					if !yield(own[0]) {
						return
					}
					own = own[1:]
				}
				if !yield(d) {
					return
				}
			}
		}
		for ; inside(); own = own[1:] {
			if !yield(own[0]) {
				return
			}
		}
	}
}

// company yields the delegations of all subnets that the holder of target holds.
func (h subnets) company(target netip.Prefix) iter.Seq[Delegation] {
	return func(yield func(Delegation) bool) {
		holder := h.holder(target)
		if holder == "" {
			return
		}
		end := netip.Addr{} // last address visited: a holder's blocks may nest
		for _, p := range h.table.Held(holder) {
			if end.IsValid() && p.Addr().BitLen() == end.BitLen() && p.Addr().Compare(end) <= 0 {
				continue
			}
			end = lastAddr(p)
			for d := range h.within(p) {
				if h.holder(d.Subnet) == holder && !yield(d) {
					return
				}
			}
		}
	}
}

// lastAddr returns the last address of a prefix.
func lastAddr(p netip.Prefix) netip.Addr {
	b := p.Masked().Addr().AsSlice()
	for i := p.Bits(); i < len(b)*8; i++ {
		b[i/8] |= 0x80 >> (i % 8)
	}
	a, _ := netip.AddrFromSlice(b)
	return a
}

// knownOwner returns the peer to which exactly p was delegated, if that is known.
func (h subnets) knownOwner(p netip.Prefix) (string, bool) {
	if h.delegations == nil {
		return "", false
	}
	for d := range h.delegations.Within(p) {
		return d.Owner, d.Subnet == p // p itself would be the first
	}
	return "", false
}

// delegated returns the owner of target: by a delegation, as a candidate's own subnet,
// or propagated from an older hierarchy.
func (h subnets) delegated(target netip.Prefix) (string, bool) {
	if owner, ok := h.knownOwner(target); ok {
		return owner, true
	}
	i, ok := slices.BinarySearchFunc(h.ownSubnets, target, compareSubnet)
	if ok {
		return h.ownSubnets[i].Owner, true
	}
	return h.propagated(target)
}

// propagated returns the owner of target in an earlier hierarchy (7.5.3). Delegations of
// prefixes that are not in the table are assumed to be older:
//
//   - "is split to two or more subnets in the new hierarchy": the smallest such
//     prefix around target determines the owner;
//   - "two subnets were joined to form a bigger subnet": of those inside target
//     the owner of the most addresses gets it, the first one if several are equal.
//
// Leaves are in no table and are never older.
func (h subnets) propagated(target netip.Prefix) (string, bool) {
	if h.delegations == nil || h.table == nil {
		return "", false
	}
	if _, ok := h.table.Get(target); !ok {
		return "", false
	}
	for bits := target.Bits() - 1; bits > 0; bits-- {
		around, _ := target.Addr().Prefix(bits)
		owner, ok := h.knownOwner(around)
		if _, present := h.table.Get(around); ok && !present && bits < leafBits(target.Addr()) {
			return owner, true
		}
	}
	for range h.table.Children(target) {
		return "", false // it was not joined
	}
	shares := map[string]float64{}
	best, end := "", netip.Addr{}
	for d := range h.delegations.Within(target) {
		isLeaf := h.leaf && d.Subnet.Bits() >= leafBits(target.Addr())
		if isLeaf || end.IsValid() && d.Subnet.Addr().Compare(end) <= 0 {
			continue
		}
		end = lastAddr(d.Subnet)
		shares[d.Owner] += 1 / float64(uint64(1)<<min(63, d.Subnet.Bits()-target.Bits()))
		if best == "" || shares[d.Owner] > shares[best] {
			best = d.Owner
		}
	}
	return best, best != ""
}
