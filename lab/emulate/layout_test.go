package emulate

import (
	"net/netip"
	"reflect"
	"testing"

	"peerd/lab/emulate/wan"
)

func TestLayout(t *testing.T) {
	w := wan.NewWorld(wan.Cities(), 7)
	l := NewLayout(w, 8, 24, 7)
	again := NewLayout(w, 8, 24, 7)
	again.World = l.World // a world has functions, which are not comparable
	if !reflect.DeepEqual(l, again) {
		t.Error("two layouts of one seed differ")
	}
	cities := make(map[string]bool)
	for _, p := range l.PeerPlaces {
		cities[l.World.Name(p)] = true
	}
	if len(cities) != 8 {
		t.Errorf("8 peers are in %d cities, want 8", len(cities))
	}
	places := make(map[netip.Prefix]int)
	var shared, second int
	users := make(map[netip.Addr]int)
	for i, addrs := range l.SiteAddrs {
		second += len(addrs) - 1
		for _, a := range addrs {
			if users[a]++; users[a] > 1 {
				shared++
			}
			p, _ := a.Prefix(24)
			if was, ok := places[p]; ok && was != l.SitePlaces[i] {
				t.Errorf("subnet %v has two places", p)
			}
			places[p] = l.SitePlaces[i]
		}
	}
	if len(places) != 22 || second != 2 || shared != 2 {
		t.Errorf("%d subnets, %d second addresses, %d shared addresses; want 22, 2, 2",
			len(places), second, shared)
	}
	n := l.Network()
	if p, ok := n.PlaceOf(l.SiteAddrs[3][1]); !ok || p != l.SitePlaces[3] {
		t.Errorf("second address of site 3 is at place %d, want %d", p, l.SitePlaces[3])
	}
	if p, ok := n.PlaceOf(l.PeerAddrs[5]); !ok || p != l.PeerPlaces[5] {
		t.Errorf("peer 5 is at place %d, want %d", p, l.PeerPlaces[5])
	}
}

func TestLargestLayoutHasDistinctAddresses(t *testing.T) {
	l := NewLayout(wan.NewWorld(wan.Cities(), 1), MaxPeers, 0, 1)
	l.SiteAddrs = NewLayout(wan.NewWorld(wan.Cities(), 1), 0, MaxSites, 1).SiteAddrs
	subnets := make(map[netip.Prefix]string)
	for _, a := range l.PeerAddrs {
		p, _ := a.Prefix(24)
		subnets[p] = "peer"
	}
	if len(subnets) != MaxPeers {
		t.Errorf("%d subnets for %d peers, want one each", len(subnets), MaxPeers)
	}
	for _, addrs := range l.SiteAddrs {
		for _, a := range addrs {
			if p, _ := a.Prefix(24); !a.IsLoopback() || subnets[p] == "peer" {
				t.Fatalf("site at %v, want a loopback address outside the peers' subnets", a)
			}
		}
	}
}
