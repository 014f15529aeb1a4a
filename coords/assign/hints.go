package assign

import (
	"net/netip"

	"peerd/coords"
)

const (
	// hintsMost is the number of decided subnets, those next to a subnet in the order of addresses,
	// from which its hints are learned.
	hintsMost = 256
	// blockBits are the bits of an address that number the subnets of a block: a /20 of IPv4, a /44
	// of IPv6. A larger block has twice as many.
	blockBits = 4
)

// hints returns the places of decided neighbours: those before and after the subnet in the order of
// addresses, in its block of 16 subnets, or of 256 if that has none. What such hints are worth is
// learned from the decided subnets in such blocks. near holds the places of peers.
func (e Evidence) hints(near []coords.Coordinate) coords.Hints {
	if e.Delegations == nil || len(near) == 0 {
		return coords.Hints{}
	}
	all := e.decided(len(near[0].Vec))
	leaf := leafBits(e.Subnet.Addr())
	for _, bits := range []int{leaf - blockBits, leaf - 2*blockBits} {
		block := func(p netip.Prefix) netip.Prefix {
			around, _ := p.Addr().Prefix(min(bits, p.Bits()))
			return around
		}
		if at, known := e.neighbours(all, block); len(at) > 0 {
			return coords.LearnHints(at, known, near)
		}
	}
	return coords.Hints{}
}

// decided returns the decided subnets next to e.Subnet that have a proxy coordinate, by address.
func (e Evidence) decided(dims int) []Delegation {
	h := subnets{delegations: e.Delegations}
	root, _ := e.Subnet.Addr().Prefix(0)
	var all []Delegation
	below := 0
	for _, d := range h.near(root, e.Subnet) {
		if d.Proxy == nil || d.Subnet == e.Subnet || d.Proxy.At.Validate(dims) != nil {
			continue
		}
		all = append(all, d)
		if d.Subnet.Compare(e.Subnet) < 0 {
			below++
		}
	}
	return all[max(0, below-hintsMost/2):min(len(all), below+hintsMost/2)]
}

// neighbours returns the places of the decided subnets before and after e.Subnet in its block, and
// the same for each of the decided ones that has any.
func (e Evidence) neighbours(
	all []Delegation, block func(netip.Prefix) netip.Prefix,
) (at []coords.Coordinate, known []coords.Precedent) {
	each := make([]coords.Precedent, len(all))
	last := make(map[netip.Prefix]int)
	after := false
	for i, d := range all {
		key := block(d.Subnet)
		each[i].At = d.Proxy.At
		if j, ok := last[key]; ok {
			each[i].Hints = append(each[i].Hints, each[j].At)
			each[j].Hints = append(each[j].Hints, each[i].At)
		}
		last[key] = i
		switch {
		case key != block(e.Subnet), after:
		case d.Subnet.Compare(e.Subnet) < 0:
			at = []coords.Coordinate{d.Proxy.At}
		default:
			at, after = append(at, d.Proxy.At), true
		}
	}
	for _, k := range each {
		if len(k.Hints) > 0 {
			known = append(known, k)
		}
	}
	return at, known
}
