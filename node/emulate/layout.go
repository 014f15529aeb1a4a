package emulate

import (
	"net/netip"

	"peerd/node/emulate/wan"
)

// Layout says where every peer and every site stands, by place in World and by
// address: loopback addresses in 127.64–143, a /24 for each peer. Most sites
// have a /24 of their own; of every twelve, one shares the /24 and one the very
// address of its neighbour, at its neighbour's place, and of every eight one
// has a second address in a second /24 (but not one that shares). The numbers of
// the sites' /24s follow a tour around the earth, as registries give neighbouring
// numbers to one region; every seventh is out of its place.
type Layout struct {
	World      *wan.World
	PeerPlaces []int
	PeerAddrs  []netip.Addr
	SitePlaces []int
	SiteAddrs  [][]netip.Addr
}

// The limits that the address plan sets.
const (
	MaxPeers = 1 << 12
	MaxSites = 1 << 13
)

// NewLayout spreads peers and sites over the rows of w. Equal arguments give
// equal layouts. It panics beyond MaxPeers and MaxSites.
func NewLayout(w *wan.World, peers, sites int, seed uint64) Layout {
	if peers > MaxPeers || sites > MaxSites {
		panic("emulate: more peers or sites than addresses")
	}
	home := make([]int, sites) // number of the first subnet of each site
	subnets := 0
	for i := range home {
		if home[i] = subnets - 1; !sharesSubnet(i) {
			home[i] = subnets
			subnets++
		}
	}
	plan := wan.NewPlan(w, peers, subnets, seed)
	l := Layout{World: plan.World, PeerPlaces: plan.Peers, SitePlaces: make([]int, sites), SiteAddrs: make([][]netip.Addr, sites)}
	for i := range peers {
		l.PeerAddrs = append(l.PeerAddrs, address(64, i, 1))
	}
	number := plan.Tour(seed)
	for i, subnet := range home {
		l.SitePlaces[i] = plan.Sites[subnet]
		l.SiteAddrs[i] = siteAddrs(i, number[subnet])
	}
	return l
}

func sharesSubnet(site int) bool  { return site%6 == 5 }
func sharesAddress(site int) bool { return site%12 == 11 }

func siteAddrs(site, subnet int) []netip.Addr {
	last := byte(10)
	if sharesSubnet(site) && !sharesAddress(site) {
		last = 20
	}
	addrs := []netip.Addr{address(80, subnet, last)}
	if site%8 == 3 && !sharesSubnet(site) {
		addrs = append(addrs, address(112, subnet, 10))
	}
	return addrs
}

// address is 127.second+….n.last: number n of a block of /24s.
func address(second, n int, last byte) netip.Addr {
	return netip.AddrFrom4([4]byte{127, byte(second + n>>8), byte(n), last})
}

// Network returns a network in which every address of l has its place.
func (l Layout) Network() *wan.Network {
	n := wan.NewNetwork(l.World)
	for i, a := range l.PeerAddrs {
		n.Place(a, l.PeerPlaces[i])
	}
	for i, addrs := range l.SiteAddrs {
		for _, a := range addrs {
			n.Place(a, l.SitePlaces[i])
		}
	}
	return n
}
