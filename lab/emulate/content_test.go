package emulate

import (
	"net/netip"
	"reflect"
	"slices"
	"testing"

	"peerd/lab/emulate/wan"
)

func TestContentNetworks(t *testing.T) {
	w := wan.NewWorld(wan.Cities(), 7)
	plain := NewLayout(w, 10, 24, 7)
	l := plain.WithContentNetworks(w, 0.6, 5, 7)
	if again := plain.WithContentNetworks(w, 0.6, 5, 7); !reflect.DeepEqual(l.SiteAddrs,
		again.SiteAddrs) {
		t.Error("two layouts of one seed differ")
	}
	network, sites := l.Network(), make([]int, 5)
	at := map[netip.Addr]bool{}
	for i := range l.SiteAddrs {
		n, ok := l.Behind(i)
		if !ok {
			if !slices.Equal(l.Answer(0, i), plain.SiteAddrs[i]) ||
				l.PlaceFor(0, i) != plain.SitePlaces[i] {
				t.Errorf("site %d, which has a server of its own, is elsewhere", i)
			}
			continue
		}
		sites[n]++
		answers := map[netip.Addr]bool{}
		for _, from := range l.PeerPlaces {
			a := l.Answer(from, i)
			place, known := network.PlaceOf(a[0])
			if !known || place != l.PlaceFor(from, i) || !slices.Contains(l.SiteAddrs[i], a[0]) {
				t.Errorf("the edge of site %d for place %d is %v at %d, want one of the site at %d",
					i, from, a, place, l.PlaceFor(from, i))
			}
			for _, b := range l.SiteAddrs[i] {
				other, _ := network.PlaceOf(b)
				if l.World.Link(from, other).RTT < l.World.Link(from, place).RTT {
					t.Errorf("the edge of site %d for place %d is not the nearest", i, from)
				}
			}
			answers[a[0]] = true
		}
		if len(answers) < 2 {
			t.Errorf("all peers get the same answer for site %d", i)
		}
		for _, a := range l.SiteAddrs[i] {
			at[a] = true
		}
	}
	if !slices.Equal(sites, []int{7, 3, 2, 1, 1}) {
		t.Errorf("%v sites behind the networks, want 7, 3, 2, 1, 1", sites)
	}
	if len(at) != 5*13 {
		t.Errorf("%d edges, want 13 of each network", len(at))
	}
	holders := map[string]int{}
	for _, e := range l.Registry(7) {
		if e.Prefix.Addr().As4()[1] >= 144 {
			holders[e.Holder]++
		}
	}
	if len(holders) != 5 || holders["testnet:C0000"] != 13 {
		t.Errorf("edges by holder: %v, want 13 at each of 5", holders)
	}
}

// Places that were there before keep their links.
func TestContentNetworksLeaveTheWorldAsItWas(t *testing.T) {
	w := wan.NewWorld(wan.Cities(), 3)
	plain := NewLayout(w, 8, 24, 3)
	l := plain.WithContentNetworks(w, 1, 64, 3)
	for i := range plain.World.Len() {
		if plain.World.Link(0, i) != l.World.Link(0, i) {
			t.Fatalf("the link to place %d differs", i)
		}
	}
}
