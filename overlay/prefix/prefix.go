// Package prefix says which networks an address belongs to, for limits that count networks
// because addresses within one cost little.
//
// Limits by network apply to public addresses only: peers of a testnet, of a simulation or of
// one local network all have addresses of one prefix. Which addresses that are not public may
// be dialed at all is decided by package overlay.
package prefix

import (
	"net/netip"

	ma "github.com/multiformats/go-multiaddr"
	manet "github.com/multiformats/go-multiaddr/net"
)

// Of returns the IP address of a. It returns false if a begins with no IP address.
func Of(a ma.Multiaddr) (netip.Addr, bool) {
	ip, err := manet.ToIP(a)
	if err != nil {
		return netip.Addr{}, false
	}
	addr, ok := netip.AddrFromSlice(ip)
	return addr.Unmap(), ok
}

// Public returns the IP address of a if it is a public one.
func Public(a ma.Multiaddr) (netip.Addr, bool) {
	addr, ok := Of(a)
	return addr, ok && manet.IsPublicAddr(a)
}

// IsPublic reports whether a is a public address.
func IsPublic(a netip.Addr) bool {
	m, err := manet.FromIP(a.AsSlice())
	return err == nil && manet.IsPublicAddr(m)
}

// Near returns the /24 or /48 of an address: what one site usually has.
func Near(a netip.Addr) netip.Prefix { return of(a, 24, 48) }

// Wide returns the /16 or /32 of an address: about what one provider has.
func Wide(a netip.Addr) netip.Prefix { return of(a, 16, 32) }

func of(a netip.Addr, bits4, bits6 int) netip.Prefix {
	bits := bits6
	if a = a.Unmap(); a.Is4() {
		bits = bits4
	}
	p, _ := a.WithZone("").Prefix(bits) // fails for the zero address only
	return p
}
