package fetch

import (
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"
)

// OwnNetworks are the ranges of addresses to which this machine itself is connected, although they
// are public: behind them are its neighbours and it itself. It is safe for concurrent use.
type OwnNetworks struct {
	interfaces func() ([]net.Addr, error)
	more       func() []netip.Addr

	mu     sync.Mutex
	at     time.Time // when all was read
	ranges []netip.Prefix
}

// ownLifetime is how long the addresses of the interfaces are remembered, so that a change of them
// is noticed soon.
const ownLifetime = 5 * time.Second

// NewOwnNetworks returns the ranges of the interfaces of this machine, at any time, and of what
// more returns: further addresses of it, such as that of its router in front of the public network,
// and the gateways. It may be nil.
func NewOwnNetworks(more func() []netip.Addr) *OwnNetworks {
	return &OwnNetworks{interfaces: net.InterfaceAddrs, more: more}
}

// contains returns the range that contains a, an unmapped address without zone.
func (o *OwnNetworks) contains(a netip.Addr) (netip.Prefix, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if now := time.Now(); o.at.IsZero() || now.Sub(o.at) >= ownLifetime {
		o.at, o.ranges = now, o.read()
	}
	i := slices.IndexFunc(o.ranges, func(p netip.Prefix) bool { return p.Contains(a) })
	if i < 0 {
		return netip.Prefix{}, false
	}
	return o.ranges[i], true
}

// read returns the ranges as they are now. If the interfaces cannot be read, those that were read
// last remain.
func (o *OwnNetworks) read() []netip.Prefix {
	addrs, err := o.interfaces()
	if err != nil {
		return o.ranges
	}
	var all []netip.Prefix
	for _, a := range addrs {
		if p, ok := ownRange(a.String()); ok {
			all = append(all, p)
		}
	}
	if o.more != nil {
		for _, a := range o.more() {
			all = append(all, hostRange(a.Unmap().WithZone("")))
		}
	}
	return all
}

// ownRange returns the range of an address of an interface, such as 192.0.2.7/24. A range that is
// too large for a link, as some tunnels have, is replaced by that of one host.
func ownRange(text string) (netip.Prefix, bool) {
	p, err := netip.ParsePrefix(text)
	if err != nil {
		return p, false
	}
	if p.Addr().Is4In6() && p.Bits() >= 96 {
		p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
	}
	if host := hostRange(p.Addr()); p.Bits() < maxLink(p.Addr()) || p.Bits() > host.Bits() {
		return host, true
	}
	return p.Masked(), true
}

// maxLink returns the number of bits of the largest range that counts as one link.
func maxLink(a netip.Addr) int {
	if a.Is4() {
		return 16
	}
	return 48
}

// hostRange returns the range of one host: an IPv4 address, or an IPv6 link (/64), all
// addresses of which belong to one household or machine.
func hostRange(a netip.Addr) netip.Prefix {
	bits := 32
	if a.Is6() {
		bits = 64
	}
	return netip.PrefixFrom(a, bits).Masked()
}

// isatap reports whether an IPv6 address contains the IPv4 address of a machine within a site (RFC
// 5214, section 6.1). It may be behind any prefix.
func isatap(a netip.Addr) bool {
	b := a.As16()
	return a.Is6() && b[8]&^2 == 0 && b[9] == 0 && b[10] == 0x5e && b[11] == 0xfe
}

// nat64Names are the addresses of ipv4only.arpa (RFC 7050, section 2.2).
var nat64Names = [][4]byte{{192, 0, 0, 170}, {192, 0, 0, 171}}

// NAT64Prefixes returns the ranges of addresses that contain IPv4 addresses, by the IPv6 addresses
// of the name ipv4only.arpa in this network (RFC 7050, section 3; RFC 6052, section 2.2).
func NAT64Prefixes(addrs []netip.Addr) (all []netip.Prefix) {
	for _, a := range addrs {
		if !a.Is6() || a.Is4In6() {
			continue
		}
		b := a.As16()
		for _, bits := range []int{96, 64, 56, 48, 40, 32} {
			var v4 [4]byte
			at := bits / 8
			for i := range v4 {
				if at == 8 { // reserved
					at++
				}
				v4[i] = b[at]
				at++
			}
			p := netip.PrefixFrom(a, bits).Masked()
			if slices.Contains(nat64Names, v4) && !slices.Contains(all, p) {
				all = append(all, p)
				break
			}
		}
	}
	return all
}
