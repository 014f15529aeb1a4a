package warc

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"
)

// The errors that callers tell apart.
var (
	ErrFull    = errors.New("warc: no room")           // quota, free disk, or the disk itself
	ErrClosed  = errors.New("warc: archive is closed") // Append, Sync after Close
	ErrInvalid = errors.New("warc: invalid exchange")  // cannot be written as WARC
	ErrCorrupt = errors.New("warc: damaged record")    // a file does not hold what it should
	ErrLocked  = errors.New("warc: archive is in use") // another process has it open
)

// maxURL bounds a URL, in bytes; lines of the index are bounded through it.
const maxURL = 16 << 10

// Field is one "name: value" line of a WARC header or an
// application/warc-fields block.
type Field struct{ Name, Value string }

// Exchange is one request and what came back. Append keeps no reference to it.
type Exchange struct {
	URL       string     // absolute, ASCII, at most 16 KiB
	Addr      netip.Addr // of the server; the zero Addr leaves it out
	Time      time.Time  // when the request began
	Request   []byte     // request head as sent, with the empty line; nil if nothing was sent
	Response  []byte     // response head, "HTTP/1.1 200 OK\r\n...\r\n\r\n"; nil if none came
	Body      []byte     // as transferred, without chunking, content coding kept
	Truncated string     // why Body ends early: "length", "time", "disconnect", "unspecified", or ""

	// Protocols are the WARC-Protocol fields, one each: "http/1.1", "h2",
	// "tls/1.3". CipherSuite is an IANA name. Both are proposals in wide use,
	// github.com/iipc/warc-specifications, 42 and 86.
	Protocols   []string
	CipherSuite string

	Revisit  *Revisit // the page is the one already stored; Body is not written
	Metadata []Field  // of the metadata record, such as fetchTimeMs, via, hopsFromSeed (WARC 1.1, 6.6)
}

// Revisit says which capture an unchanged page equals (WARC 1.1, 6.7).
type Revisit struct {
	Profile string    // NotModified or IdenticalPayload
	URL     string    // of the earlier capture; "" leaves it out
	Time    time.Time // of the earlier capture; the zero time leaves it out
	Digest  string    // payload digest of the earlier capture, "sha1:..."; needed for IdenticalPayload
}

// Profiles of revisit records.
const (
	NotModified      = "http://netpreserve.org/warc/1.1/revisit/server-not-modified"
	IdenticalPayload = "http://netpreserve.org/warc/1.1/revisit/identical-payload-digest"
)

// Location says where the response (or revisit) record of an exchange is.
type Location struct {
	File   string // base name of the finished file
	Offset int64  // of the gzip member
	Length int64  // of the gzip member, in bytes
	Digest string // payload digest, "sha1:" and base32
}

func (x *Exchange) check() error {
	bad := func(what string) error { return fmt.Errorf("%w: %s", ErrInvalid, what) }
	if !isURL(x.URL) {
		return bad("URL")
	}
	if len(x.Request) == 0 && len(x.Response) == 0 && len(x.Metadata) == 0 {
		return bad("empty")
	}
	for _, head := range [][]byte{x.Request, x.Response} {
		if len(head) > 0 && !isHead(head) {
			return bad("head does not end with its first empty line")
		}
	}
	if len(x.Response) > 0 && !bytes.HasPrefix(x.Response, []byte("HTTP/")) || len(x.Response) == 0 && len(x.Body) > 0 {
		return bad("response head")
	}
	switch x.Truncated {
	case "", "length", "time", "disconnect", "unspecified":
	default:
		return bad("reason of truncation")
	}
	for _, v := range append([]string{x.CipherSuite}, x.Protocols...) {
		if v != "" && !isToken(v) {
			return bad("protocol")
		}
	}
	for _, f := range x.Metadata {
		if !isToken(f.Name) {
			return bad("name of a metadata field")
		}
	}
	if r := x.Revisit; r != nil {
		return r.check(x, bad)
	}
	return nil
}

func (r *Revisit) check(x *Exchange, bad func(string) error) error {
	switch {
	case r.Profile != NotModified && r.Profile != IdenticalPayload:
		return bad("revisit profile")
	case len(x.Response) == 0:
		return bad("revisit without response head")
	case r.URL != "" && !isURL(r.URL):
		return bad("revisit URL")
	case r.Digest != "" && (len(r.Digest) > 200 || !isToken(strings.NewReplacer(":", "", "=", "", "/", "").Replace(r.Digest))):
		return bad("revisit digest")
	case r.Profile == IdenticalPayload && r.Digest == "":
		return bad("revisit without digest")
	}
	return nil
}

// isHead says whether head ends with its first empty line.
func isHead(head []byte) bool {
	return bytes.Index(head, []byte("\r\n\r\n")) == len(head)-4
}

// isURL is a coarse test: something that fits one line of a header and of an index.
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

// isToken is token of RFC 9110, 5.6.2, and "/" for protocol names.
func isToken(s string) bool {
	for i := range len(s) {
		if c := s[i]; c <= ' ' || c >= 0x7f || strings.IndexByte(`"(),:;<=>?@[\]{}`, c) >= 0 {
			return false
		}
	}
	return s != ""
}
