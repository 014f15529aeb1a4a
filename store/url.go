package store

import (
	"crypto/sha256"
	"net/netip"
	"strconv"
	"strings"
)

// URL is a canonical absolute http or https URL. Only package crawl/canon makes one.
// Other packages may rely on its form:
//
//	scheme "://" host [":" port] path ["?" query]
//
// Scheme and host are in lower case. There are no credentials, no fragment and no
// default port. Only notices have a fragment: see KindPinged.
type URL string

// String returns the text of u.
func (u URL) String() string { return string(u) }

// authority returns host[:port] of u and the rest after it.
func (u URL) authority() (auth, rest string) {
	s := string(u)
	i := strings.Index(s, "://")
	if i < 0 {
		return "", ""
	}
	s = s[i+3:]
	for j := range len(s) {
		if s[j] == '/' || s[j] == '?' || s[j] == '#' {
			return s[:j], s[j:]
		}
	}
	return s, ""
}

// Host returns the host name of u without port, or an IPv6 literal without brackets.
// Home subnets, queues and politeness are per host.
func (u URL) Host() string {
	auth, _ := u.authority()
	if strings.HasPrefix(auth, "[") {
		if j := strings.IndexByte(auth, ']'); j > 0 {
			return auth[1:j]
		}
		return ""
	}
	if j := strings.LastIndexByte(auth, ':'); j >= 0 {
		return auth[:j]
	}
	return auth
}

// Origin returns scheme://host[:port] of u, the unit of robots.txt (RFC 9309,
// section 2.3).
func (u URL) Origin() string {
	auth, _ := u.authority()
	i := strings.Index(string(u), "://")
	if i < 0 {
		return ""
	}
	return string(u[:i+3]) + auth
}

// IsOriginOf reports whether u, which may come from another peer, is an origin of a host, in the
// form that Origin returns for canonical URLs.
func (u URL) IsOriginOf(host string) bool {
	name := host
	if strings.Contains(host, ":") {
		name = "[" + host + "]"
	}
	rest, ok := strings.CutPrefix(string(u), "http://"+name)
	if !ok {
		rest, ok = strings.CutPrefix(string(u), "https://"+name)
	}
	if !ok || host == "" || rest == "" {
		return ok && host != ""
	}
	port, ok := strings.CutPrefix(rest, ":")
	_, err := strconv.ParseUint(port, 10, 16)
	return ok && err == nil && len(port) <= len("65535")
}

// Digest names a URL in 16 bytes: the first half of its SHA-256.
type Digest [16]byte

// Digest returns the digest of u.
func (u URL) Digest() Digest {
	sum := sha256.Sum256([]byte(u))
	return Digest(sum[:16])
}

// A URLChecker returns an error for URLs that no correct peer of this network sends.
type URLChecker interface{ Check(URL) error }

// SubnetOf returns the subnet of a, the unit of ownership: its IPv4 /24 or IPv6 /48.
// IPv4-mapped addresses are treated as IPv4. The zero address gives the zero prefix.
func SubnetOf(a netip.Addr) netip.Prefix {
	a = a.Unmap().WithZone("")
	bits := 48
	if a.Is4() {
		bits = 24
	}
	p, err := a.Prefix(bits)
	if err != nil {
		return netip.Prefix{}
	}
	return p
}
