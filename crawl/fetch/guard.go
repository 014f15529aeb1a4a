package fetch

import (
	"errors"
	"fmt"
	"net/netip"
	"sync/atomic"
)

// ErrForbiddenAddr means that an address is neither public nor allowed by the operator. Nothing was
// sent to it.
var ErrForbiddenAddr = errors.New("address is neither public nor allowed")

// Guard decides which addresses may be dialled: public unicast addresses, except those of the
// networks of this machine, and those that the operator allows. It is safe for concurrent use.
type Guard struct {
	allow []netip.Prefix
	own   *OwnNetworks // nil: none
	nat64 atomic.Pointer[[]netip.Prefix]
}

// NewGuard returns a guard that allows public addresses and those in allow. Invalid prefixes are
// ignored.
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

// Refuse makes the guard refuse the networks of this machine, unless the operator allows them. It
// must be called before the guard is used.
func (g *Guard) Refuse(own *OwnNetworks) { g.own = own }

// RefuseNAT64 makes the guard refuse the ranges of the translators of this network: behind their
// addresses is any IPv4 address, also one that may not be dialled.
func (g *Guard) RefuseNAT64(ranges []netip.Prefix) { g.nat64.Store(&ranges) }

// Check returns nil if a may be dialled, and otherwise an error that matches ErrForbiddenAddr. An
// IPv4-mapped address is treated as the IPv4 address.
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
	for _, p := range specialPrefixes {
		if p.Contains(a) {
			return fmt.Errorf("%w: %v is in %v", ErrForbiddenAddr, a, p)
		}
	}
	return g.checkOwn(a)
}

// checkOwn is Check for the networks of this machine.
func (g *Guard) checkOwn(a netip.Addr) error {
	if isatap(a) {
		return fmt.Errorf("%w: %v is an ISATAP address", ErrForbiddenAddr, a)
	}
	if ranges := g.nat64.Load(); ranges != nil {
		for _, p := range *ranges {
			if p.Contains(a) {
				return fmt.Errorf("%w: %v is behind the translator %v", ErrForbiddenAddr, a, p)
			}
		}
	}
	if g.own == nil {
		return nil
	}
	if p, ok := g.own.contains(a); ok {
		return fmt.Errorf("%w: %v is in %v, a network of this machine", ErrForbiddenAddr, a, p)
	}
	return nil
}

// ErrForbiddenPort means that a port belongs to a protocol to which HTTP must not be sent. Nothing
// was sent.
var ErrForbiddenPort = errors.New("port is not one for HTTP")

// badPorts are the ports that browsers block (Fetch Standard, "port blocking"): a link, or a peer
// that names a URL, must not cause connections to mail servers or scans of a machine.
var badPorts = func() map[uint16]bool {
	bad := map[uint16]bool{}
	for _, p := range []uint16{
		1, 7, 9, 11, 13, 15, 17, 19, 20, 21, 22, 23, 25, 37, 42, 43, 53, 69, 77, 79, 87, 95, 101,
		102, 103, 104, 109, 110, 111, 113, 115, 117, 119, 123, 135, 137, 139, 143, 161, 179, 389,
		427, 465, 512, 513, 514, 515, 526, 530, 531, 532, 540, 548, 554, 556, 563, 587, 601, 636,
		989, 990, 993, 995, 1719, 1720, 1723, 2049, 3659, 4045, 4190, 5060, 5061, 6000, 6566, 6665,
		6666, 6667, 6668, 6669, 6679, 6697, 10080,
	} {
		bad[p] = true
	}
	return bad
}()

// checkPort returns nil if a port may be dialled, and otherwise an error that matches
// ErrForbiddenPort.
func checkPort(port uint16) error {
	if badPorts[port] {
		return fmt.Errorf("%w: %d", ErrForbiddenPort, port)
	}
	return nil
}
