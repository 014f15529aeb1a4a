package store

import "time"

// Timing tells where the time of one fetch went. Reused fetches went over an
// open connection and have no DNS, Connect and TLS part.
type Timing struct {
	DNS       time.Duration `cbor:"1,keyasint,omitempty"`
	Connect   time.Duration `cbor:"2,keyasint,omitempty"` // TCP handshake: one round trip
	TLS       time.Duration `cbor:"3,keyasint,omitempty"`
	FirstByte time.Duration `cbor:"4,keyasint,omitempty"` // request written to first byte of the answer
	Body      time.Duration `cbor:"5,keyasint,omitempty"` // first byte to last
	Reused    bool          `cbor:"6,keyasint,omitempty"`
}

// Total is the download time: the sum of all phases but DNS, which is answered
// once a host and not by the server.
func (t Timing) Total() time.Duration { return t.Connect + t.TLS + t.FirstByte + t.Body }

// Outcome says how a fetch ended. Every fetch ends as exactly one of these.
// The numbers are stored and travel: never renumber, only append.
//
// Answered: the server gave a complete HTTP answer, which is kept. Transient:
// a later try may end better, so the URL is tried again after a wait until its
// patience is spent. What is neither is given up at once and counts as failed.
//
//	outcome             what it means                           ends as
//	none                not fetched yet, or the fetch was        no end: asked again
//	                    called off by this peer
//	ok                  2xx, whole body taken                    answered
//	redirect            3xx with a Location of at most 8 KiB;    answered; the target is
//	                    300 too, 304 not                         a URL of its own
//	http_error          any other status; a 304 nobody asked     answered
//	                    for; 3xx without a usable Location
//	robots_denied       robots.txt forbids it, nothing was sent  given up
//	robots_unreachable  robots.txt could not be had (RFC 9309,   transient
//	                    2.3.1.4), nothing was sent
//	dns                 the name does not resolve                given up
//	connect             no TCP connection; the proxy, if there   transient
//	                    is one, did not connect
//	tls                 no TLS session: handshake broken, or     given up
//	                    certificate invalid
//	timeout             connect, TLS handshake, head or the      transient
//	                    whole took too long; a body dripped
//	reset               the connection ended before the answer   transient
//	                    did, shorter than Content-Length too
//	too_large           2xx, body cut at the limit, on the wire  answered
//	                    or decoded; what came is taken
//	not_html            2xx of a type whose body is not taken    answered
//	refused             the address is neither public nor        given up
//	                    allowed; nothing was sent
//	throttled           429 or 503                               answered and transient:
//	                                                             asked again later
//	protocol            no HTTP, broken framing (lengths,        given up
//	                    chunks), an interim status as the last,
//	                    a head beyond its limits; over HTTP/2
//	                    these cannot be told from reset
//	not_modified        304 to a conditional request: what was   answered
//	                    fetched before still holds
//	decoding            2xx, but the body's content coding is    given up
//	                    unknown, broken, or blows up like a
//	                    bomb; nothing of the body is kept
type Outcome uint8

// The outcomes.
const (
	OutcomeNone              Outcome = iota // not fetched yet
	OutcomeOK                               // 2xx, body taken
	OutcomeRedirect                         // 3xx with a Location; the target is a URL of its own
	OutcomeHTTPError                        // any other final status
	OutcomeRobotsDenied                     // robots.txt forbids it; no request was sent
	OutcomeRobotsUnreachable                // robots.txt could not be had, so nothing may be fetched (RFC 9309, 2.3.1.4)
	OutcomeDNS                              // the name does not resolve
	OutcomeConnect                          // no TCP connection
	OutcomeTLS                              // no TLS session
	OutcomeTimeout                          // a phase took longer than its limit, or the body dripped
	OutcomeReset                            // the connection broke in mid-answer
	OutcomeTooLarge                         // body cut at the limit; what came is kept
	OutcomeNotHTML                          // a type whose body is not taken
	OutcomeRefused                          // the address is neither public nor allowed, or the port not one for HTTP
	OutcomeThrottled                        // 429 or 503: come again later
	OutcomeProtocol                         // an answer that is no HTTP, or beyond the limits of its head
	OutcomeNotModified                      // 304 to a conditional request
	OutcomeDecoding                         // the body's content coding is unknown, broken or a bomb
	outcomeCount
)

var outcomeNames = [outcomeCount]string{
	"none", "ok", "redirect", "http_error", "robots_denied", "robots_unreachable", "dns", "connect", "tls",
	"timeout", "reset", "too_large", "not_html", "refused", "throttled", "protocol",
	"not_modified", "decoding",
}

// String returns the outcome's name, as JSON outputs and logs use it.
func (o Outcome) String() string {
	if o < outcomeCount {
		return outcomeNames[o]
	}
	return "unknown"
}

// Answered says whether the server gave a complete HTTP answer.
func (o Outcome) Answered() bool {
	switch o {
	case OutcomeOK, OutcomeRedirect, OutcomeHTTPError, OutcomeTooLarge, OutcomeNotHTML, OutcomeThrottled,
		OutcomeNotModified:
		return true
	}
	return false
}

// Transient says whether another try later may end better.
func (o Outcome) Transient() bool {
	switch o {
	case OutcomeConnect, OutcomeTimeout, OutcomeReset, OutcomeThrottled, OutcomeRobotsUnreachable:
		return true
	}
	return false
}
