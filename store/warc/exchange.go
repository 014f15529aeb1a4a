package warc

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"
)

// The errors that callers may want to distinguish.
var (
	ErrNoSpace = errors.New("warc: no space left")     // quota or disk
	ErrClosed  = errors.New("warc: archive is closed") // by Append and Sync after Close
	ErrInvalid = errors.New("warc: invalid exchange")  // not possible in WARC
	ErrCorrupt = errors.New("warc: damaged record")    // invalid file contents
	ErrLocked  = errors.New("warc: archive is in use") // by another process
)

// maxURL is the maximum length of a URL in bytes. It limits the length of index lines.
const maxURL = 16 << 10

// Field is one "name: value" line of a WARC header or of an application/warc-fields block.
type Field struct {
	Name  string `cbor:"1,keyasint"`
	Value string `cbor:"2,keyasint"`
}

// Exchange is an HTTP request and its response. Append keeps no reference to it.
type Exchange struct {
	URL  string     `cbor:"1,keyasint"`           // absolute, ASCII, at most 16 KiB
	Addr netip.Addr `cbor:"2,keyasint,omitempty"` // server address; optional
	Time time.Time  `cbor:"3,keyasint"`           // start of the request
	// Request is the request header as sent, with the empty line; nil if nothing was sent.
	Request []byte `cbor:"4,keyasint,omitempty"`
	// Response is the response header, "HTTP/1.1 200 OK\r\n...\r\n\r\n"; nil if none came.
	Response []byte `cbor:"5,keyasint"`
	// Body is as received, with content coding, without chunking.
	Body []byte `cbor:"6,keyasint,omitempty"`
	// Truncated is the reason why Body is incomplete: "length", "time", "disconnect" or
	// "unspecified". It is "" if Body is complete.
	Truncated string `cbor:"7,keyasint,omitempty"`

	// Protocols are the values of WARC-Protocol fields, such as "http/1.1", "h2" and
	// "tls/1.3". CipherSuite is an IANA name. Both fields are widely used proposals:
	// https://github.com/iipc/warc-specifications, issues 42 and 86.
	Protocols   []string `cbor:"8,keyasint,omitempty"`
	CipherSuite string   `cbor:"9,keyasint,omitempty"`

	// Revisit is set if the page is stored already; Body is not written then.
	Revisit *Revisit `cbor:"10,keyasint,omitempty"`
	// From names the peer that fetched an exchange that was copied, in the field
	// Peerd-Collected-From of each record; "" if it was not copied.
	From string `cbor:"-"`
	// Metadata are the fields of the metadata record, such as fetchTimeMs, via and
	// hopsFromSeed (WARC 1.1, section 6.6).
	Metadata []Field `cbor:"11,keyasint,omitempty"`
	// At is the place of an exchange that was read, without its length; Append ignores it.
	At Location `cbor:"-"`
}

// Revisit refers to the earlier capture of an unchanged page (WARC 1.1, section 6.7).
type Revisit struct {
	Profile string    `cbor:"1,keyasint"`           // NotModified or IdenticalPayload
	URL     string    `cbor:"2,keyasint,omitempty"` // of the earlier capture; optional
	Time    time.Time `cbor:"3,keyasint,omitzero"`  // of the earlier capture; optional
	// Digest is the payload digest, "sha1:..."; required for IdenticalPayload.
	Digest string `cbor:"4,keyasint,omitempty"`
}

// Profiles of revisit records.
const (
	NotModified      = "http://netpreserve.org/warc/1.1/revisit/server-not-modified"
	IdenticalPayload = "http://netpreserve.org/warc/1.1/revisit/identical-payload-digest"
)

// Location is the place of the response or revisit record of an exchange.
type Location struct {
	File   string // base name of the finished file
	Offset int64  // of the gzip member in the file
	Length int64  // of the gzip member in bytes
	Digest string // payload digest, "sha1:" and base32; "" if there is none
	// End is the offset behind the last record of the exchange; only Append sets it.
	End int64
}

func (x *Exchange) check() error {
	bad := func(what string) error { return fmt.Errorf("%w: %s", ErrInvalid, what) }
	if !isURL(x.URL) {
		return bad("URL")
	}
	if len(x.Request) == 0 && len(x.Response) == 0 && len(x.Metadata) == 0 {
		return bad("no request, response or metadata")
	}
	for _, head := range [][]byte{x.Request, x.Response} {
		if len(head) > 0 && !isHead(head) {
			return bad("header does not end with its first empty line")
		}
	}
	if len(x.Response) > 0 && !bytes.HasPrefix(x.Response, []byte("HTTP/")) ||
		len(x.Response) == 0 && len(x.Body) > 0 {
		return bad("response header")
	}
	switch x.Truncated {
	case "", "length", "time", "disconnect", "unspecified":
	default:
		return bad("reason for truncation")
	}
	if what := x.invalidField(); what != "" {
		return bad(what)
	}
	if r := x.Revisit; r != nil {
		return r.check(x, bad)
	}
	return nil
}

// invalidField returns what cannot be written as a field of a header, or "".
func (x *Exchange) invalidField() string {
	for _, v := range append([]string{x.CipherSuite}, x.Protocols...) {
		if v != "" && !isToken(v) {
			return "protocol"
		}
	}
	if x.From != "" && (!isToken(x.From) || len(x.From) > 200) {
		return "peer"
	}
	for _, f := range x.Metadata {
		if !isToken(f.Name) {
			return "name of a metadata field"
		}
	}
	return ""
}

func (r *Revisit) check(x *Exchange, bad func(string) error) error {
	switch {
	case r.Profile != NotModified && r.Profile != IdenticalPayload:
		return bad("revisit profile")
	case len(x.Response) == 0:
		return bad("revisit without response header")
	case r.URL != "" && !isURL(r.URL):
		return bad("revisit URL")
	case r.Digest != "" && (len(r.Digest) > 200 ||
		!isToken(strings.NewReplacer(":", "", "=", "", "/", "").Replace(r.Digest))):
		return bad("revisit digest")
	case r.Profile == IdenticalPayload && r.Digest == "":
		return bad("revisit without digest")
	}
	return nil
}

// isHead reports whether head ends with its first empty line.
func isHead(head []byte) bool {
	return bytes.Index(head, []byte("\r\n\r\n")) == len(head)-4
}

// isURL is a coarse check that s can be part of a header line and of an index line.
func isURL(s string) bool {
	if len(s) == 0 || len(s) > maxURL || !strings.Contains(s, ":") {
		return false
	}
	for i := range len(s) {
		if s[i] <= ' ' || s[i] >= 0x7f {
			return false
		}
	}
	return true
}

// isToken reports whether s is a token of RFC 9110, section 5.6.2; it may contain "/",
// which protocol names need.
func isToken(s string) bool {
	for i := range len(s) {
		if c := s[i]; c <= ' ' || c >= 0x7f || strings.IndexByte(`"(),:;<=>?@[\]{}`, c) >= 0 {
			return false
		}
	}
	return s != ""
}
