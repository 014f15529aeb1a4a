package resolve

import (
	"errors"
	"net"
	"time"
)

// An error of a lookup matches one of these.
var (
	ErrNotFound  = errors.New("no such host")
	ErrTemporary = errors.New("name lookup failed")
)

// ErrBusy is the error of a lookup that would have waited too long for the limit of queries about
// one registered domain, or to one name server. It says nothing about the name, so it matches
// neither ErrNotFound nor ErrTemporary, and is not cached.
var ErrBusy = errors.New("too many queries for now")

// Reason is why a host was not resolved.
type Reason uint8

// The reasons. The first three match ErrNotFound, the others ErrTemporary.
const (
	ReasonNXDomain    Reason = iota + 1 // the name does not exist (RFC 8020)
	ReasonNoAddress                     // the name exists but has neither A nor AAAA records
	ReasonInvalid                       // the text cannot be a host name
	ReasonServFail                      // SERVFAIL: the name server could not find out
	ReasonRefused                       // REFUSED, or another error code
	ReasonTimeout                       // no name server answered in time
	ReasonUnreachable                   // no name server could be reached
	ReasonMalformed                     // the answer was malformed, or its aliases had no end
	ReasonOther                         // any other error, for example of the system's resolver
)

var reasonTexts = [...]string{
	"", "NXDOMAIN", "no address record", "not a host name", "SERVFAIL", "refused", "timed out",
	"name server unreachable", "malformed answer", "",
}

// String returns the reason in words; "" for ReasonOther.
func (r Reason) String() string {
	if int(r) < len(reasonTexts) {
		return reasonTexts[r]
	}
	return ""
}

func (r Reason) kind() error {
	if r >= ReasonNXDomain && r <= ReasonInvalid {
		return ErrNotFound
	}
	return ErrTemporary
}

// Error is the failure to resolve a host. It matches ErrNotFound or ErrTemporary, and the error
// of the lookup that caused it.
type Error struct {
	Host   string
	Reason Reason
	// Authoritative reports that a negative answer contained the SOA record of the zone, so that
	// it came from the zone's name servers (RFC 2308, section 3).
	Authoritative bool
	// Began is when the lookup began; for a cached failure that is in the past.
	Began time.Time

	ttl   time.Duration // of a negative answer; 0 if it may not be cached, unknownTTL
	cause error
}

// unknownTTL is the TTL of negative answers of lookups that do not return it.
const unknownTTL = -1

// Error returns a message with the host, the kind of failure, the reason and its cause.
func (e *Error) Error() string {
	s := "resolve " + e.Host + ": " + e.Reason.kind().Error()
	if r := e.Reason.String(); r != "" {
		s += ": " + r
	}
	if e.Authoritative {
		s += " (authoritative)"
	}
	if e.cause != nil {
		s += ": " + e.cause.Error()
	}
	return s
}

// Unwrap returns the kind of failure and its cause.
func (e *Error) Unwrap() []error {
	if e.cause == nil {
		return []error{e.Reason.kind()}
	}
	return []error{e.Reason.kind(), e.cause}
}

// asError returns err as the error of the lookup of host.
func asError(host string, err error) *Error {
	if known, ok := errors.AsType[*Error](err); ok {
		e := *known
		e.Host = host
		return &e
	}
	e := &Error{Host: host, Reason: ReasonOther, ttl: unknownTTL, cause: err}
	dns, ok := errors.AsType[*net.DNSError](err)
	switch {
	case err == nil:
		e.Reason = ReasonNoAddress
	case errors.Is(err, ErrNotFound), ok && dns.IsNotFound && !dns.IsTemporary:
		e.Reason = ReasonNXDomain
	default:
		if reason := transportReason(err); reason != 0 {
			e.Reason = reason
		}
	}
	return e
}

// transportReason returns the reason for an error of a connection to a name server; 0 if there is
// none that fits.
func transportReason(err error) Reason {
	if timeout, ok := errors.AsType[interface {
		error
		Timeout() bool
	}](err); ok && timeout.Timeout() {
		return ReasonTimeout
	}
	if _, ok := errors.AsType[*net.OpError](err); ok {
		return ReasonUnreachable
	}
	return 0
}
