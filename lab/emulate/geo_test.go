package emulate

import (
	"bytes"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"testing"

	rir "peerd/coords/registry"
	"peerd/lab/emulate/wan"
	"peerd/node/geo"
)

func TestGeoDB(t *testing.T) {
	l := NewLayout(wan.NewWorld(wan.Cities(), 7), 8, 48, 7)
	globe := l.World.Globe()
	for _, wrong := range []float64{0, 0.25, 1} {
		data, err := l.GeoDB(wrong, 7)
		if err != nil {
			t.Fatal(err)
		}
		if again, _ := l.GeoDB(wrong, 7); !bytes.Equal(again, data) {
			t.Error("two calls of GeoDB differ")
		}
		file := filepath.Join(t.TempDir(), "x.mmdb")
		if err := os.WriteFile(file, data, 0o600); err != nil {
			t.Fatal(err)
		}
		db, err := geo.Open(file)
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		at := func(a netip.Addr) wan.Place {
			lat, lon, ok := db.Locate(a)
			if !ok {
				t.Fatalf("Locate(%s) found no place", a)
			}
			return wan.Place{Lat: lat, Lon: lon}
		}
		for i, a := range l.PeerAddrs {
			if d := at(a).Distance(globe[l.PeerPlaces[i]]); d > 1 {
				t.Errorf("peer %d is %v km off, want at most 1", i, d)
			}
		}
		off, subnets := 0, l.siteSubnets()
		for _, s := range subnets {
			if at(s.prefix.Addr().Next()).Distance(globe[s.place]) > 1 {
				off++
			}
		}
		if want := wrong * float64(len(subnets)); float64(off) > want+0.5 ||
			float64(off) < want-0.5 {
			t.Errorf("share %v: %d of %d subnets are misplaced, want %.1f", wrong, off,
				len(subnets), want)
		}
		if _, _, ok := db.Locate(netip.MustParseAddr("8.8.8.8")); ok {
			t.Error("Locate(8.8.8.8) found a place, want none")
		}
	}
}

func TestRegistry(t *testing.T) {
	l := NewLayout(wan.NewWorld(wan.Cities(), 7), 8, 96, 7)
	entries := l.Registry(7)
	if !slices.Equal(entries, l.Registry(7)) {
		t.Error("two calls of Registry differ")
	}
	table, err := rir.Build(entries)
	if err != nil || table.Len() != len(entries) {
		t.Fatalf("%d entries of %d: %v", table.Len(), len(entries), err)
	}
	place := map[netip.Prefix]int{}
	for _, s := range l.siteSubnets() {
		place[s.prefix] = s.place
		var up []rir.Entry
		for e := range table.Supernets(s.prefix) {
			up = append(up, e)
		}
		if len(up) < 3 || up[0].Prefix != s.prefix || up[0].Holder == "" ||
			up[len(up)-1].Prefix.Bits() != 8 {
			t.Errorf("Supernets(%s) = %v, want at least 3, from the /24 to the /8", s.prefix, up)
		}
	}
	// Most /24s of a holder are in one region.
	globe := l.World.Globe()
	near, pairs, several := 0, 0, 0
	holders := map[string]bool{}
	for e := range table.Within(netip.MustParsePrefix("0.0.0.0/0")) {
		if e.Holder == "" || holders[e.Holder] {
			continue
		}
		holders[e.Holder] = true
		var held []netip.Prefix
		for _, p := range table.Held(e.Holder) {
			if _, ok := place[p]; ok {
				held = append(held, p)
			}
		}
		if len(held) > 1 {
			several++
		}
		for i := range held {
			for j := range i {
				pairs++
				if globe[place[held[i]]].Distance(globe[place[held[j]]]) < 2500 {
					near++
				}
			}
		}
	}
	t.Logf("%d holders, %d of several subnets; %d of %d pairs are near", len(holders), several,
		near, pairs)
	if several < len(holders)/3 || near*3 < pairs*2 || near == pairs {
		t.Errorf("%d holders, %d of several subnets; %d of %d pairs are near, "+
			"want two thirds but not all", len(holders), several, near, pairs)
	}
}
