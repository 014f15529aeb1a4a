package canon

import (
	"net/netip"
	"strings"
)

// canonicalHost returns a host of the WHATWG parser (lower-case ASCII, literals
// in shortest form) without its trailing dot, or ErrHost.
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

// isDNSName says whether the DNS can hold the name (RFC 1035, section 2.3.4):
// labels of 1 to 63 bytes, 253 in all. Underscores occur in real host names.
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

func isDigit(c byte) bool { return '0' <= c && c <= '9' }
