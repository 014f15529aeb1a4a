package resolve

import (
	"context"
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
