package resolve

import (
	"errors"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
)

// Scheme is how a name server is asked.
type Scheme string

// The schemes.
const (
	SchemeDNS   Scheme = "dns"   // UDP, and TCP for answers that do not fit (RFC 1035, 7766)
	SchemeTLS   Scheme = "tls"   // DNS over TLS (RFC 7858)
	SchemeHTTPS Scheme = "https" // DNS over HTTPS (RFC 8484)
)

// Server is a name server: one that resolves names completely.
type Server struct {
	Scheme Scheme
	// Address is IP:PORT for SchemeDNS, HOST:PORT for SchemeTLS, and the URL for SchemeHTTPS.
	Address string
}

// ParseServer parses the text of a name server: "1.1.1.1", "1.1.1.1:5353", "[2606:4700::1]:53",
// "tls://dns.example", or "https://dns.example/dns-query".
func ParseServer(s string) (Server, error) {
	scheme, rest, ok := strings.Cut(s, "://")
	switch {
	case !ok:
		if a, err := netip.ParseAddr(s); err == nil {
			return Server{SchemeDNS, net.JoinHostPort(a.String(), "53")}, nil
		}
		if a, err := netip.ParseAddrPort(s); err == nil && a.Port() != 0 {
			return Server{SchemeDNS, a.String()}, nil
		}
	case scheme == "tls":
		if a, ok := hostPort(rest, "853"); ok {
			return Server{SchemeTLS, a}, nil
		}
	case scheme == "https":
		u, err := url.Parse(s)
		if err == nil && u.Hostname() != "" && u.User == nil && u.Fragment == "" {
			return Server{SchemeHTTPS, s}, nil
		}
	}
	return Server{}, errors.New(`want an address such as "192.0.2.1" or "[2001:db8::1]:53", ` +
		`"tls://HOST", or "https://HOST/PATH"`)
}

// hostPort adds a port to a host, which is a name or an address, unless it has one.
func hostPort(s, port string) (string, bool) {
	host := strings.TrimSuffix(strings.TrimPrefix(s, "["), "]")
	if _, err := netip.ParseAddr(host); err != nil {
		if h, p, err := net.SplitHostPort(s); err == nil {
			host, port = h, p
		}
	}
	_, err := netip.ParseAddr(host)
	n, perr := strconv.ParseUint(port, 10, 16)
	if err != nil && !isValidName(host) || perr != nil || n == 0 {
		return "", false
	}
	return net.JoinHostPort(host, port), true
}

// String returns the text that ParseServer accepts.
func (s Server) String() string {
	if s.Scheme == SchemeTLS {
		return "tls://" + s.Address
	}
	return s.Address
}

// ParseServers parses the name servers of a setting. No server means those of the system's
// resolv.conf.
func ParseServers(texts []string) ([]Server, error) {
	var all []Server
	for _, s := range texts {
		server, err := ParseServer(s)
		if err != nil {
			return nil, err
		}
		all = append(all, server)
	}
	if len(all) > maxServers {
		return nil, errors.New("want at most " + strconv.Itoa(maxServers) + " name servers")
	}
	return all, nil
}
