package resolve

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strings"
)

// The two ways in which a name has no address. Errors of Cache.Addrs match one
// of them, or are the caller's own context error.
var (
	ErrNotFound  = errors.New("no such host")
	ErrTemporary = errors.New("name lookup failed")
)

// Error says which host could not be resolved. It matches ErrNotFound or
// ErrTemporary, and the error of the lookup behind it.
type Error struct {
	Host  string
	kind  error
	cause error
}

// Error tells the host, the kind of failure and its cause.
func (e *Error) Error() string {
	s := "resolve " + e.Host + ": " + e.kind.Error()
	if e.cause != nil {
		s += ": " + e.cause.Error()
	}
	return s
}

// Unwrap returns the kind of failure and its cause.
func (e *Error) Unwrap() []error {
	if e.cause == nil {
		return []error{e.kind}
	}
	return []error{e.kind, e.cause}
}

// resolver is Go's own: it needs no thread per lookup.
var resolver = &net.Resolver{PreferGo: true}

// systemLookup asks the system's name servers and hosts file. The final dot
// keeps the machine's search domains out of it: a page that links to
// http://intranet/ must not make us ask for intranet.example.com.
func systemLookup(ctx context.Context, host string) ([]netip.Addr, error) {
	return resolver.LookupNetIP(ctx, "ip", host+".")
}

// final says whether err means that the name does not exist or has no
// address, so that asking again soon is of no use.
func final(err error) bool {
	if errors.Is(err, ErrNotFound) {
		return true
	}
	var dns *net.DNSError
	return errors.As(err, &dns) && dns.IsNotFound && !dns.IsTemporary
}

// plausible rejects what can be no name in the DNS (RFC 1035, section 2.3.4)
// before anybody is asked.
func plausible(host string) bool {
	if host == "" || len(host) > 253 {
		return false
	}
	for label := range strings.SplitSeq(host, ".") {
		if label == "" || len(label) > 63 {
			return false
		}
	}
	return !strings.ContainsAny(host, " \t\r\n\x00/:%@[]")
}
