package emulate

import (
	"bytes"
	"cmp"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"

	"github.com/maxmind/mmdbwriter"
	"github.com/maxmind/mmdbwriter/mmdbtype"
	"go4.org/netipx"

	"peerd/internal/order"
	"peerd/lab/emulate/wan"
)

// geoEpoch is the build date of every emulated database, 2026-01-01, so that equal
// layouts give equal bytes.
const geoEpoch = 1767225600

// GeoDB returns a database in MaxMind's format with the places of all peers and sites
// of l, by /24. The share wrong (0 to 1) of the sites' /24s has the place of another
// site from the farther half: real databases name the head office for servers of
// content networks, and err for anycast and satellite addresses ([M] 5.8). The places
// of peers are correct. Equal arguments give equal bytes.
func (l Layout) GeoDB(wrong float64, seed uint64) ([]byte, error) {
	tree, err := mmdbwriter.New(mmdbwriter.Options{
		DatabaseType: "Testnet-City", BuildEpoch: geoEpoch, IncludeReservedNetworks: true,
		RecordSize: 24, IPVersion: 6,
		Description: map[string]string{"en": "places of an emulated network"},
	})
	if err != nil {
		return nil, fmt.Errorf("emulate: geo: %w", err)
	}
	globe := l.World.Globe()
	insert := func(p netip.Prefix, place int) error {
		at := globe[place]
		err := tree.Insert(netipx.PrefixIPNet(p), mmdbtype.Map{
			"city": mmdbtype.Map{"names": mmdbtype.Map{"en": mmdbtype.String(at.Name)}},
			"location": mmdbtype.Map{"latitude": mmdbtype.Float64(at.Lat),
				"longitude": mmdbtype.Float64(at.Lon)},
		})
		if err != nil {
			return fmt.Errorf("emulate: geo: %s: %w", p, err)
		}
		return nil
	}
	for i, a := range l.PeerAddrs {
		if err := insert(subnetOf(a), l.PeerPlaces[i]); err != nil {
			return nil, err
		}
	}
	subnets := l.siteSubnets()
	for i, place := range misplaced(globe, subnets, wrong, seed) {
		if err := insert(subnets[i].prefix, place); err != nil {
			return nil, err
		}
	}
	var out bytes.Buffer
	if _, err := tree.WriteTo(&out); err != nil {
		return nil, fmt.Errorf("emulate: geo: %w", err)
	}
	return out.Bytes(), nil
}

// siteSubnet is a /24 with sites and the place of these.
type siteSubnet struct {
	prefix netip.Prefix
	place  int
	holder string // "" unless it is an edge of a content network
}

// siteSubnets returns the /24s of the sites in the order of the sites, then those of the edges.
func (l Layout) siteSubnets() []siteSubnet {
	var all []siteSubnet
	seen := map[netip.Prefix]bool{}
	for i, addrs := range l.SiteAddrs {
		if _, ok := l.Behind(i); ok {
			continue
		}
		for _, a := range addrs {
			if p := subnetOf(a); !seen[p] {
				seen[p] = true
				all = append(all, siteSubnet{prefix: p, place: l.SitePlaces[i]})
			}
		}
	}
	for i, c := range l.Networks {
		for _, e := range c.Edges {
			all = append(all, siteSubnet{subnetOf(e.Addr), e.Place,
				fmt.Sprintf("%s:C%04d", registryName, i)})
		}
	}
	return all
}

// misplaced returns the place of each subnet in a database. For the share wrong of them,
// rounded, this is the place of a subnet from the farther half of the others.
func misplaced(globe []wan.Place, subnets []siteSubnet, wrong float64, seed uint64) []int {
	rng := rand.New(rand.NewPCG(seed, 0x67656f))
	places := make([]int, len(subnets))
	for i, s := range subnets {
		places[i] = s.place
	}
	n := int(max(0, min(1, wrong))*float64(len(subnets)) + 0.5)
	for _, i := range rng.Perm(len(subnets))[:n] {
		here := globe[subnets[i].place]
		all := slices.Clone(subnets)
		order.SortStableFunc(all, func(a, b siteSubnet) int {
			return cmp.Compare(here.Distance(globe[b.place]), here.Distance(globe[a.place]))
		})
		places[i] = all[rng.IntN((len(all)+1)/2)].place
	}
	return places
}

// subnetOf returns the /24 of an IPv4 address.
func subnetOf(a netip.Addr) netip.Prefix {
	p, err := a.Prefix(24)
	if err != nil {
		panic(err) // an IPv4 address has one
	}
	return p
}
