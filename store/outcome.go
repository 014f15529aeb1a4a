package store

import "time"

// Timing is the time that the phases of one fetch took. A fetch over a reused connection
// has no DNS, Connect and TLS time.
type Timing struct {
	DNS       time.Duration `cbor:"1,keyasint,omitempty"`
	Connect   time.Duration `cbor:"2,keyasint,omitempty"` // TCP handshake: one round trip
	TLS       time.Duration `cbor:"3,keyasint,omitempty"`
	FirstByte time.Duration `cbor:"4,keyasint,omitempty"` // end of request to first byte
	Body      time.Duration `cbor:"5,keyasint,omitempty"` // first byte to last byte
	Reused    bool          `cbor:"6,keyasint,omitempty"`
}

// Total returns the download time: the sum of all phases except DNS, which is needed
// once per host and does not depend on the server.
func (t Timing) Total() time.Duration { return t.Connect + t.TLS + t.FirstByte + t.Body }

// Outcome is the result of a fetch. Every fetch has exactly one. The values are stored
// and sent to other peers: never renumber them, only append.
//
// Answered means that the server sent a complete HTTP response, which is kept. Transient
// means that a later attempt may succeed: the URL is fetched again after a delay, until it
// or its host is given up; see crawl. Any other URL is given up at once.
//
//	outcome             meaning                                  result
//	none                not fetched yet, or canceled by this     none: fetched again
//	                    peer
//	ok                  2xx, complete body                       answered
//	redirect            3xx (also 300, not 304) with a           answered; the target is
//	                    Location of at most 8 KiB                a URL of its own
//	http_error          any other status; an unexpected 304;     answered; 502 and 504
//	                    3xx without a usable Location            also transient
//	robots_denied       robots.txt forbids it; nothing was sent  given up
//	robots_unreachable  no robots.txt (RFC 9309, section         transient
//	                    2.3.1.4); nothing was sent
//	dns                 the name does not resolve                transient
//	connect             no TCP connection, directly or by the    transient
//	                    proxy
//	tls                 TLS handshake failed or certificate      transient
//	                    invalid
//	timeout             connect, TLS handshake, header or the    transient
//	                    whole took too long, or the body came
//	                    too slowly
//	reset               connection closed before the end of the  transient
//	                    response, also before Content-Length
//	too_large           2xx, body truncated at the limit on the  answered
//	                    wire or decoded; the start is kept
//	not_html            2xx of a type without use for its body   answered
//	refused             address neither public nor allowed;      given up
//	                    nothing was sent
//	throttled           429 or 503                               answered and transient:
//	                                                             fetched again later
//	protocol            not HTTP, invalid framing (lengths,      given up
//	                    chunks), an interim status at the end,
//	                    or a header beyond its limits; over
//	                    HTTP/2 the same as reset
//	not_modified        304 to a conditional request: what was   answered
//	                    fetched before is still valid
//	decoding            2xx with a content coding that is        given up
//	                    unknown, invalid or a decompression
//	                    bomb; the body is dropped
//	denied              on the deny list of the peer that was    transient
//	                    to fetch it; nothing was sent
type Outcome uint8

// The outcomes.
const (
	OutcomeNone              Outcome = iota // not fetched yet
	OutcomeOK                               // 2xx, complete body
	OutcomeRedirect                         // 3xx with a Location
	OutcomeHTTPError                        // any other final status
	OutcomeRobotsDenied                     // forbidden by robots.txt; nothing was sent
	OutcomeRobotsUnreachable                // no robots.txt (RFC 9309, section 2.3.1.4)
	OutcomeDNS                              // the name does not resolve
	OutcomeConnect                          // no TCP connection
	OutcomeTLS                              // no TLS session
	OutcomeTimeout                          // a phase exceeded its limit, or a slow body
	OutcomeReset                            // connection closed before the end
	OutcomeTooLarge                         // body truncated at the limit
	OutcomeNotHTML                          // a type without use for its body
	OutcomeRefused                          // address or port not allowed
	OutcomeThrottled                        // 429 or 503: fetched again later
	OutcomeProtocol                         // not HTTP, or a header beyond its limits
	OutcomeNotModified                      // 304 to a conditional request
	OutcomeDecoding                         // content coding unknown, invalid or a bomb
	OutcomeDenied                           // on the deny list of the peer; nothing was sent
	outcomeCount
)

var outcomeNames = [outcomeCount]string{
	"none", "ok", "redirect", "http_error", "robots_denied", "robots_unreachable", "dns",
	"connect", "tls", "timeout", "reset", "too_large", "not_html", "refused", "throttled",
	"protocol", "not_modified", "decoding", "denied",
}

// String returns the name of the outcome for JSON output and logs.
func (o Outcome) String() string {
	if o < outcomeCount {
		return outcomeNames[o]
	}
	return "unknown"
}

// Answered reports whether the server sent a complete HTTP response.
func (o Outcome) Answered() bool {
	switch o {
	case OutcomeOK, OutcomeRedirect, OutcomeHTTPError, OutcomeTooLarge, OutcomeNotHTML,
		OutcomeThrottled, OutcomeNotModified:
		return true
	}
	return false
}
