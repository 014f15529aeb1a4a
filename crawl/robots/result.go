package robots

import (
	"bytes"
	"time"
)

const (
	// MaxBody is the maximum number of bytes that are read of a robots.txt: the minimum that RFC
	// 9309, section 2.5, requires.
	MaxBody = 500 << 10
	// Lifetime is how long a result is valid if the response does not say it. It is much
	// shorter than the day that RFC 9309 allows: sites expect that a change is obeyed soon.
	Lifetime = time.Hour
	// MinLifetime and MaxLifetime bound the lifetime that a response states (RFC 9309, section
	// 2.4: standard cache control applies, but a copy is used for at most a day).
	MinLifetime = time.Minute
	MaxLifetime = 24 * time.Hour
	// RetryUnreachable is how long a result is valid if the file was unreachable. It is short,
	// because most outages are, and nothing may be fetched until the rules are known.
	RetryUnreachable = 10 * time.Minute
	// MaxUnreachable is how long an unreachable file disallows everything. After that, it is
	// treated as absent (RFC 9309, section 2.3.1.4).
	MaxUnreachable = 30 * 24 * time.Hour
)

// Result is the outcome of fetching a robots.txt.
type Result struct {
	Fetched time.Time `cbor:"1,keyasint"`
	Expires time.Time `cbor:"2,keyasint"`
	// Status is the HTTP status of the last response, 0 if there was none.
	Status int `cbor:"3,keyasint,omitempty"`
	// Body is the file, at most MaxBody bytes, if the status was 2xx.
	Body []byte `cbor:"4,keyasint,omitempty"`
	// Unreachable means that the rules are unknown, so nothing may be fetched (RFC 9309, section
	// 2.3.1.4).
	Unreachable bool `cbor:"5,keyasint,omitempty"`
	// UnreachableSince is when the file was first found unreachable. WithFallback sets it, and
	// the other fields may then be those of an earlier result.
	UnreachableSince time.Time `cbor:"6,keyasint,omitzero"`
}

// WithFallback returns the result that is in force after r was fetched, if old was in force
// before. It returns r if the file was reachable. Otherwise the file of old, or its absence, stays
// in force (RFC 9309, sections 2.3.1.4 and 2.4). If old knows neither, nothing may be fetched for
// MaxUnreachable, and everything after that. The result expires when r does. The zero value of old
// means that nothing is known.
func (r Result) WithFallback(old Result) Result {
	if !r.Unreachable {
		return r
	}
	r.UnreachableSince = old.UnreachableSince
	if r.UnreachableSince.IsZero() {
		r.UnreachableSince = r.Fetched
		if old.Unreachable && !old.Fetched.IsZero() {
			r.UnreachableSince = old.Fetched
		}
	}
	switch {
	case old.Status != 0 && !old.Unreachable:
		r.Status, r.Body, r.Unreachable = old.Status, old.Body, false
	case r.Fetched.Sub(r.UnreachableSince) >= MaxUnreachable:
		r.Status, r.Unreachable = 0, false
	}
	return r
}

// Compile returns the rules of r. An absent file allows everything, an unreachable one nothing.
// Compiling the largest possible file takes about 50 ms, so callers should keep the rules.
func (r Result) Compile() *Rules {
	switch {
	case r.Unreachable:
		return &Rules{denyAll: true}
	case r.Status < 200 || r.Status > 299:
		return &Rules{}
	}
	return compile(trimPartialLine(r.Body))
}

// trimPartialLine removes the partial last line of a body that was truncated at MaxBody: the
// beginning of "Disallow: /private" could be "Disallow: /".
func trimPartialLine(body []byte) []byte {
	if len(body) < MaxBody {
		return body
	}
	body = body[:MaxBody]
	return body[:bytes.LastIndexAny(body, "\r\n")+1]
}
