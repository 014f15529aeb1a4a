package robots

import (
	"bytes"
	"time"
)

const (
	// MaxBody bounds what is read of a robots.txt, in bytes: the least that
	// RFC 9309, section 2.5, demands.
	MaxBody = 500 << 10
	// Lifetime is how long a verdict holds (RFC 9309, section 2.4).
	Lifetime = 24 * time.Hour
	// RetryUnreachable is how long an unreachable robots.txt holds: outages
	// are short, and nothing may be fetched until it is known.
	RetryUnreachable = 10 * time.Minute
	// MaxUnreachable is how long an unreachable file forbids all. Then it
	// counts as absent (RFC 9309, section 2.3.1.4).
	MaxUnreachable = 30 * 24 * time.Hour
)

// Verdict is what one fetch of a robots.txt taught.
type Verdict struct {
	Fetched time.Time `cbor:"1,keyasint"`
	Expires time.Time `cbor:"2,keyasint"`
	// Status is the HTTP status of the last answer, 0 if there was none.
	Status int `cbor:"3,keyasint,omitempty"`
	// Body is the file, at most MaxBody bytes, if the status was 2xx.
	Body []byte `cbor:"4,keyasint,omitempty"`
	// Unreachable: the server did not say, so nothing may be fetched (RFC
	// 9309, section 2.3.1.4).
	Unreachable bool `cbor:"5,keyasint,omitempty"`
	// Since is when the file was first found unreachable, if After has it that
	// this verdict holds although it is: the rest is what was known before.
	Since time.Time `cbor:"6,keyasint,omitzero"`
}

// After returns the verdict that holds when v was fetched and old was what held
// until then: v, unless it is unreachable. Then a file, or its absence, that
// old knows goes on to hold (RFC 9309, sections 2.3.1.4 and 2.4), and without
// one nothing may be fetched for MaxUnreachable, and everything from then on.
// Either way it is asked for again when v expires. The zero Verdict is no
// knowledge.
func (v Verdict) After(old Verdict) Verdict {
	if !v.Unreachable {
		return v
	}
	v.Since = old.Since
	if v.Since.IsZero() {
		v.Since = v.Fetched
		if old.Unreachable && !old.Fetched.IsZero() {
			v.Since = old.Fetched
		}
	}
	switch {
	case old.Status != 0 && !old.Unreachable:
		v.Status, v.Body, v.Unreachable = old.Status, old.Body, false
	case v.Fetched.Sub(v.Since) >= MaxUnreachable:
		v.Status, v.Unreachable = 0, false
	}
	return v
}

// Compile returns the rules of v. A file that does not exist allows all, one
// that could not be reached nothing. That costs some 50 ms for the largest
// file, so callers keep the result.
func (v Verdict) Compile() *Rules {
	switch {
	case v.Unreachable:
		return &Rules{closed: true}
	case v.Status < 200 || v.Status > 299:
		return &Rules{}
	}
	return compile(wholeLines(v.Body))
}

// wholeLines cuts a body that was truncated at MaxBody after its last whole
// line: half a "Disallow: /private" could be a "Disallow: /".
func wholeLines(body []byte) []byte {
	if len(body) < MaxBody {
		return body
	}
	body = body[:MaxBody]
	return body[:bytes.LastIndexAny(body, "\r\n")+1]
}
