package home

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"strings"

	"peerd/store"
)

// maxHost is the longest host name in bytes (RFC 1035, section 2.3.4).
const maxHost = 253

// checkHost tells whether host is a host name as store.URL.Host returns them:
// lower-case ASCII labels of letters, digits, hyphens and underscores, no dot at
// the end; or an IP literal in canonical form, without brackets or zone.
func checkHost(host string) error {
	if host == "" || len(host) > maxHost {
		return fmt.Errorf("%w: %d bytes", ErrHost, len(host))
	}
	if a, err := netip.ParseAddr(host); err == nil {
		if literal(a) != host {
			return fmt.Errorf("%w: %q is no canonical address", ErrHost, host)
		}
		return nil
	}
	for label := range strings.SplitSeq(host, ".") {
		if label == "" || len(label) > 63 || strings.ContainsFunc(label, foreign) {
			return fmt.Errorf("%w: %q", ErrHost, host)
		}
	}
	return nil
}

// literal returns the text of a as in a canonical URL: like RFC 5952, but an
// IPv4-mapped address in hexadecimal too (WHATWG URL, "IPv6 serializer").
func literal(a netip.Addr) string {
	a = a.WithZone("")
	if !a.Is4In6() {
		return a.String()
	}
	b := a.As16()
	return fmt.Sprintf("::ffff:%x:%x", binary.BigEndian.Uint16(b[12:]),
		binary.BigEndian.Uint16(b[14:]))
}

func foreign(c rune) bool {
	return (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' && c != '_'
}

// literalHome returns the home of a host that is an IP literal.
func literalHome(host string) (netip.Prefix, bool) {
	a, err := netip.ParseAddr(host)
	if err != nil {
		return netip.Prefix{}, false
	}
	return store.SubnetOf(a), true
}

// checkSubnet tells whether subnet has the shape of a home of host.
func checkSubnet(host string, subnet netip.Prefix) error {
	if !subnet.IsValid() || store.SubnetOf(subnet.Addr()) != subnet {
		return fmt.Errorf("%w: %v", ErrSubnet, subnet)
	}
	if p, ok := literalHome(host); ok && p != subnet {
		return fmt.Errorf("%w: %s is not in %v", ErrSubnet, host, subnet)
	}
	return nil
}
