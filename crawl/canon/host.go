package canon

import (
	"net/netip"
	"strings"

	"golang.org/x/net/publicsuffix"
)

// canonicalHost returns a host without its trailing dot, or ErrHost. The host comes from the
// WHATWG parser: lower-case ASCII, with IP literals in shortest form.
func canonicalHost(host string) (string, error) {
	if strings.HasPrefix(host, "[") {
		a, err := netip.ParseAddr(strings.Trim(host, "[]"))
		if err != nil || !a.Is6() {
			return "", ErrHost
		}
		return host, nil
	}
	host = strings.TrimSuffix(host, ".")
	if !isDNSName(host) {
		return "", ErrHost
	}
	return host, nil
}

// isDNSName reports whether host can be a name in the DNS (RFC 1035, section 2.3.4): labels of 1
// to 63 bytes, 253 bytes in all. Underscores occur in the names of real hosts.
func isDNSName(host string) bool {
	if len(host) == 0 || len(host) > 253 {
		return false
	}
	label := 0
	for i := range len(host) {
		switch c := host[i]; {
		case c == '.':
			if label == 0 {
				return false
			}
			label = 0
		case 'a' <= c && c <= 'z', isDigit(c), c == '-', c == '_':
			if label++; label > 63 {
				return false
			}
		default:
			return false
		}
	}
	return label > 0
}

// RegisteredDomain returns the registered part of a host: one label more than its public suffix
// (publicsuffix.org, with the private section, so that the customers of a blog service are
// distinct). An IP address or a public suffix is returned unchanged. It takes about a microsecond.
func RegisteredDomain(host string) string {
	if _, err := netip.ParseAddr(host); err == nil {
		return host
	}
	domain, err := publicsuffix.EffectiveTLDPlusOne(host)
	if err != nil {
		return host
	}
	return domain
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }
