package emulate

import (
	"fmt"
	"math/rand/v2"
	"net/netip"

	"go4.org/netipx"

	rir "peerd/coords/registry"
)

const (
	// registryName is the name of the registry of emulated networks.
	registryName = "testnet"
	// maxHeld is the maximum number of successive /24s of one holder.
	maxHeld = 4
)

// Registry returns the entries of an Internet registry for the sites' addresses, as a
// tree: the registry's 127.0.0.0/8; blocks of up to eight /24s, such as 127.80.8.0/21;
// in these the holders' prefixes, runs of 1 to 4 /24s, which usually are not one CIDR
// block; and the single /24s. Neighbouring /24s are mostly near each other (see
// NewLayout), so those of a holder are too. A holder has the same numbers in the block
// of second addresses. The /24s of a content network have one holder, and are all over the world.
// Equal arguments give equal entries.
func (l Layout) Registry(seed uint64) []rir.Entry {
	rng := rand.New(rand.NewPCG(seed, 0x726972))
	used := map[netip.Prefix]bool{}
	last := -1
	for _, s := range l.siteSubnets() {
		used[s.prefix] = true
		if a := s.prefix.Addr().As4(); a[1] < 112 {
			last = max(last, int(a[1]-80)<<8+int(a[2]))
		}
	}
	seen := map[netip.Prefix]bool{}
	var all []rir.Entry
	add := func(p netip.Prefix, holder string) {
		if !seen[p] {
			seen[p] = true
			all = append(all, rir.Entry{Prefix: p, Holder: holder, Registry: registryName,
				Country: "ZZ"})
		}
	}
	add(netip.MustParsePrefix("127.0.0.0/8"), "")
	for from, h := 0, 0; from <= last; h++ {
		to := min(last, from+rng.IntN(maxHeld))
		holder := fmt.Sprintf("%s:H%04d", registryName, h)
		for _, second := range []int{80, 112} {
			held := false
			for n := from; n <= to; n++ {
				held = held || used[subnetOf(address(second, n, 0))]
			}
			if !held {
				continue
			}
			for n := from; n <= to; n++ {
				up, _ := address(second, n, 0).Prefix(21)
				add(up, "")
			}
			for _, p := range netipx.IPRangeFrom(address(second, from, 0),
				address(second, to, 255)).Prefixes() {
				add(p, holder)
			}
			for n := from; n <= to; n++ {
				if p := subnetOf(address(second, n, 0)); used[p] {
					add(p, holder)
				}
			}
		}
		from = to + 1
	}
	for _, s := range l.siteSubnets() {
		if s.holder != "" {
			add(s.prefix, s.holder)
		}
	}
	return all
}
