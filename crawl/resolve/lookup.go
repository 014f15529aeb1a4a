package resolve

import (
	"context"
	"net"
	"net/netip"
	"strings"
	"time"
)

// Answer is the result of a lookup.
type Answer struct {
	Addrs []netip.Addr
	// TTL is how long the addresses may be used, from the end of the lookup; 0 if that is not
	// known.
	TTL time.Duration
}

// Lookup looks up the addresses of a host. Errors are *Error, ErrBusy, or any other, which counts
// as temporary. It is called concurrently for different hosts and bounds its own time, besides
// waits for limits.
type Lookup func(ctx context.Context, host string) (Answer, error)

// WithoutTTL returns the Lookup of a function that returns addresses only. A lookup takes at most
// ten seconds. An error that matches ErrNotFound, or a *net.DNSError with IsNotFound, means that
// the host does not exist.
func WithoutTTL(look func(ctx context.Context, host string) ([]netip.Addr, error)) Lookup {
	return func(ctx context.Context, host string) (Answer, error) {
		ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
		defer cancel()
		addrs, err := look(ctx, host)
		return Answer{Addrs: addrs}, err
	}
}

// systemLookup asks the resolver of the system: that of package net, or that of the C library if
// the program is linked with it and the configuration of the system requires it.
type systemLookup struct {
	hosts  *watched[hostTable]
	limits *limits
	rate   bucket
}

// lookup looks a host up in the hosts file, then with the system's resolver. The trailing dot
// prevents that search domains are applied to a name with several labels.
func (s *systemLookup) lookup(ctx context.Context, host string) (Answer, error) {
	if addrs := s.hosts.get()[host]; len(addrs) > 0 {
		return Answer{Addrs: addrs, TTL: hostsTTL}, nil
	}
	for range 2 { // an A and an AAAA query
		if err := s.limits.wait(ctx, host); err != nil {
			return Answer{}, err
		}
		if err := s.rate.wait(ctx); err != nil {
			return Answer{}, err
		}
	}
	if strings.Contains(host, ".") {
		host += "."
	}
	return WithoutTTL(func(ctx context.Context, host string) ([]netip.Addr, error) {
		return net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	})(ctx, host)
}

// isValidName reports whether host can be a name in the DNS (RFC 1035, section 2.3.4).
func isValidName(host string) bool {
	if host == "" || len(host) > 253 {
		return false
	}
	for label := range strings.SplitSeq(host, ".") {
		if label == "" || len(label) > 63 {
			return false
		}
	}
	return !strings.ContainsAny(host, " \t\r\n\x00/:%@[]\\\"();")
}
