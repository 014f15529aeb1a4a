package fetch

import (
	"errors"
	"fmt"
	"net/netip"
)

// ErrForbiddenAddr says that an address is neither public nor allowed by the
// operator. Nothing was sent there.
var ErrForbiddenAddr = errors.New("address is neither public nor allowed")

// Guard decides which addresses may be dialled: public unicast ones, and those
// that the operator allowed. It is immutable and safe for concurrent use.
type Guard struct {
	allow []netip.Prefix
}

// NewGuard returns a guard that allows the addresses within allow besides the
// public ones. Invalid prefixes are left out.
func NewGuard(allow []netip.Prefix) *Guard {
	g := &Guard{}
	for _, p := range allow {
		if p.Addr().Is4In6() && p.Bits() >= 96 {
			p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
		}
		if p.IsValid() {
			g.allow = append(g.allow, p.Masked())
		}
	}
	return g
}

// Check returns nil if a may be dialled, else an error that matches
// ErrForbiddenAddr. An IPv4-mapped address counts as the IPv4 address in it.
func (g *Guard) Check(a netip.Addr) error {
	a = a.Unmap()
	if !a.IsValid() {
		return fmt.Errorf("%w: no address", ErrForbiddenAddr)
	}
	bare := a.WithZone("")
	for _, p := range g.allow {
		if p.Contains(bare) {
			return nil
		}
	}
	if a.Zone() != "" || a.Is6() && !globalUnicast.Contains(a) {
		return fmt.Errorf("%w: %v", ErrForbiddenAddr, a)
	}
	for _, p := range special {
		if p.Contains(a) {
			return fmt.Errorf("%w: %v is in %v", ErrForbiddenAddr, a, p)
		}
	}
	return nil
}
