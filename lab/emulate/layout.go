package emulate

import (
	"net/netip"

	"peerd/lab/emulate/wan"
)

// Layout assigns every peer and every site a place in World and addresses: loopback
// addresses in 127.64–143, with one /24 for each peer. Most sites have a /24 of their
// own. Of every twelve, one shares the /24 and one the address of its neighbour, at the
// neighbour's place. Of every eight, one has a second address in a second /24, unless it
// shares. The numbers of the sites' /24s follow a tour around the earth, as registries
// assign neighbouring numbers to one region; every seventh is misplaced.
type Layout struct {
	World      *wan.World
	PeerPlaces []int
	PeerAddrs  []netip.Addr
	SitePlaces []int
	SiteAddrs  [][]netip.Addr // at a content network: of all its edges
	Networks   []ContentNetwork
	behind     map[int]int // site → number of its content network
}

// The limits of the address plan.
const (
	MaxPeers = 1 << 12
	MaxSites = 1 << 13
)

// NewLayout distributes peers and sites over the places of w. Equal arguments give equal
// layouts. It panics if there are more than MaxPeers or MaxSites.
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
	l := Layout{World: plan.World, PeerPlaces: plan.Peers, SitePlaces: make([]int, sites),
		SiteAddrs: make([][]netip.Addr, sites)}
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

// address returns the address in the nth /24 of the block that starts at 127.second,
// with the last byte last.
func address(second, n int, last byte) netip.Addr {
	return netip.AddrFrom4([4]byte{127, byte(second + n>>8), byte(n), last})
}

// Network returns a network with the places of all addresses of l.
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
	for _, c := range l.Networks {
		for _, e := range c.Edges {
			n.Place(e.Addr, e.Place)
		}
	}
	return n
}
