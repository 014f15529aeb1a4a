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
