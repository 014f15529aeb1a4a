package assign

import (
	"iter"
	"net/netip"
	"slices"

	"peerd/coords/registry"
)

// Leaf prefixes: what is delegated below the registries' data.
const (
	leaf4 = 24
	leaf6 = 48
)

// subnets is the hierarchy of IP addresses (Papapetrou 2003, 7.5): the
// registries' table, what is known of delegations, and the candidates in their
// own subnets.
type subnets struct {
	table *registry.Table // may be nil: then there are leaves and the root only
	leaf  bool
	known Known
	// homes are the candidates' own subnets, in the order of prefixes, one a
	// subnet, without those that are known to be delegated.
	homes []Delegation
}

// newSubnets places the candidates: "we can immediately assign the subnet where
// the machine belongs to the new crawler" (7.5.2). A delegation supersedes it.
func newSubnets(table *registry.Table, leaf bool, known Known, open []Candidate) subnets {
	h := subnets{table: table, leaf: leaf, known: known}
	for _, c := range open {
		if !c.Addr.IsValid() {
			continue
		}
		a := c.Addr.Unmap().WithZone("")
		h.homes = append(h.homes, Delegation{Subnet: h.smallest(netip.PrefixFrom(a, a.BitLen())), Owner: c.ID})
	}
	slices.SortStableFunc(h.homes, func(a, b Delegation) int { return a.Subnet.Compare(b.Subnet) })
	h.homes = slices.CompactFunc(h.homes, func(a, b Delegation) bool { return a.Subnet == b.Subnet })
	h.homes = slices.DeleteFunc(h.homes, func(d Delegation) bool {
		_, ok := h.knownOwner(d.Subnet)
		return ok
	})
	return h
}

// above yields the table's subnets around p, the smallest first.
func (h subnets) above(p netip.Prefix) iter.Seq[registry.Entry] {
	if h.table == nil {
		return func(func(registry.Entry) bool) {}
	}
	return h.table.Supernets(p)
}

// smallest is the subnet that is delegated when p is to be: p itself, unless it
// is a single address. Then it is "the smallest subnet from the IP hierarchy
// that includes" it, where "we exclude the unary subnets" (7.6.1), or the leaf
// if that is smaller or there is none.
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

// levels yields target and what contains it, up to the whole of its addresses.
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

// holder is the company that target belongs to, "" if it is nobody's.
func (h subnets) holder(target netip.Prefix) string {
	for e := range h.above(target) {
		return e.Holder
	}
	return ""
}

// within yields the delegations inside p, p itself first, in the order of
// prefixes, the candidates' own subnets among them.
func (h subnets) within(p netip.Prefix) iter.Seq[Delegation] {
	return func(yield func(Delegation) bool) {
		at, _ := slices.BinarySearchFunc(h.homes, p, func(d Delegation, p netip.Prefix) int { return d.Subnet.Compare(p) })
		homes := h.homes[at:]
		inside := func() bool {
			return len(homes) > 0 && homes[0].Subnet.Bits() >= p.Bits() && p.Contains(homes[0].Subnet.Addr())
		}
		if h.known != nil {
			for d := range h.known.Within(p) {
				for inside() && homes[0].Subnet.Compare(d.Subnet) < 0 {
					if !yield(homes[0]) {
						return
					}
					homes = homes[1:]
				}
				if !yield(d) {
					return
				}
			}
		}
		for ; inside(); homes = homes[1:] {
			if !yield(homes[0]) {
				return
			}
		}
	}
}

// company yields the delegations of subnets that the same company holds, one
// after the other.
func (h subnets) company(target netip.Prefix) iter.Seq[Delegation] {
	return func(yield func(Delegation) bool) {
		holder := h.holder(target)
		if holder == "" {
			return
		}
		end := netip.Addr{} // of what was gone through: a holder's blocks may nest
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

// lastAddr is the last address of a prefix.
func lastAddr(p netip.Prefix) netip.Addr {
	b := p.Masked().Addr().AsSlice()
	for i := p.Bits(); i < len(b)*8; i++ {
		b[i/8] |= 0x80 >> (i % 8)
	}
	a, _ := netip.AddrFromSlice(b)
	return a
}

// knownOwner is who is known to have been given exactly p.
func (h subnets) knownOwner(p netip.Prefix) (string, bool) {
	if h.known == nil {
		return "", false
	}
	for d := range h.known.Within(p) {
		return d.Owner, d.Subnet == p // p itself would be the first
	}
	return "", false
}

// delegated is whose target is: given to somebody, a candidate's own, or
// propagated from an older hierarchy.
func (h subnets) delegated(target netip.Prefix) (string, bool) {
	if owner, ok := h.knownOwner(target); ok {
		return owner, true
	}
	i, ok := slices.BinarySearchFunc(h.homes, target, func(d Delegation, p netip.Prefix) int { return d.Subnet.Compare(p) })
	if ok {
		return h.homes[i].Owner, true
	}
	return h.propagated(target)
}

// propagated is whose target was in a hierarchy before this one (7.5.3).
// Delegations of prefixes that the table has not are taken for older ones:
//
//   - "is split to two or more subnets in the new hierarchy": the smallest such
//     prefix around target says whose it is;
//   - "two subnets were joined to form a bigger subnet": of those inside target
//     the owner of the most addresses has it, the first of equal ones.
//
// Leaves are in no table and are never older.
func (h subnets) propagated(target netip.Prefix) (string, bool) {
	if h.known == nil || h.table == nil {
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
		return "", false // it was joined of nothing
	}
	shares := map[string]float64{}
	best, end := "", netip.Addr{}
	for d := range h.known.Within(target) {
		if h.leaf && d.Subnet.Bits() >= leafBits(target.Addr()) || end.IsValid() && d.Subnet.Addr().Compare(end) <= 0 {
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
