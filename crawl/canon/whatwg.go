package canon

import (
	"errors"
	"fmt"
	"strings"
	"sync"

	liberrors "github.com/nlnwa/whatwg-url/errors"
	"github.com/nlnwa/whatwg-url/url"
)

const (
	// maxWHATWGInput is the maximum length of the reference and of the base, in bytes.
	maxWHATWGInput = 64 << 10
	// maxWHATWGAts is the maximum number of "@" in each of them. The time of the parser grows
	// with its square, to about 2 ms.
	maxWHATWGAts = 1024
)

// Parts is a URL in the form of the URL interface of the WHATWG URL Standard (section 6.1).
type Parts struct {
	Href     string // the whole URL
	Protocol string // with the colon: "https:"
	// Username and Password are percent-encoded.
	Username, Password string
	Host               string // with the port, unless it is the default
	Hostname           string // ASCII; IPv6 in brackets
	Port               string // "" for the default
	Pathname           string
	Search             string // with the "?"; "" if the query is empty
	Hash               string // with the "#"; "" if the fragment is empty
}

// ParseWHATWG parses a reference relative to a base ("" for none) and serializes it as specified
// by the WHATWG URL Standard: with any scheme, fragment and credentials, and without the
// additional rules of Parse. The error is ErrSyntax, or ErrTooLong beyond 64 KiB or 1024 "@".
func ParseWHATWG(base, ref string) (Parts, error) {
	for _, s := range []string{base, ref} {
		if len(s) > maxWHATWGInput || strings.Count(s, "@") > maxWHATWGAts {
			return Parts{}, ErrTooLong
		}
	}
	u, err := parseWHATWG(base, ref)
	if err != nil {
		return Parts{}, syntaxError(err)
	}
	return Parts{
		Href: u.Href(false), Protocol: u.Protocol(), Username: u.Username(), Password: u.Password(),
		Host: u.Host(), Hostname: u.Hostname(), Port: u.Port(),
		Pathname: u.Pathname(), Search: u.Search(), Hash: u.Hash(),
	}, nil
}

// syntaxError returns ErrSyntax with the reason of the library, but without the URL, which may be
// long.
func syntaxError(err error) error {
	var v *liberrors.ValidationError
	if !errors.As(err, &v) {
		return fmt.Errorf("%w: %w", ErrSyntax, err)
	}
	if cause := v.Unwrap(); cause != nil {
		return fmt.Errorf("%w: %s: %w", ErrSyntax, v.Type(), cause)
	}
	return fmt.Errorf("%w: %s", ErrSyntax, v.Type())
}

// parsers are the parsers that are not in use. One keeps no state between calls.
var parsers = sync.Pool{New: func() any {
	p := new(whatwgParser)
	p.Parser = url.NewParser(
		url.WithPreParseHostFunc(p.hosts.before), url.WithPostParseHostFunc(p.hosts.after))
	return p
}}

// whatwgParser is the parser of the library with corrections of "domain to ASCII". It reports
// only failures.
type whatwgParser struct {
	url.Parser
	hosts hostCorrection
}

// parseWHATWG parses as the standard specifies.
func parseWHATWG(base, ref string) (*url.Url, error) {
	p := parsers.Get().(*whatwgParser)
	defer parsers.Put(p)
	p.hosts = hostCorrection{}
	u, err := p.ParseRef(base, ref)
	if err == nil || !isDomainToASCII(err) {
		return u, err
	}
	p.hosts = hostCorrection{hideDigits: true}
	if u, err2 := p.ParseRef(base, ref); err2 == nil && !p.hosts.ambiguous {
		return u, nil
	}
	return nil, err
}

// isDomainToASCII reports whether a host failed in the step "domain to ASCII" of the standard
// (section 3.3).
func isDomainToASCII(err error) bool {
	var v *liberrors.ValidationError
	return errors.As(err, &v) && v.Type() == liberrors.DomainToASCII
}

// hostCorrection replaces parts of a host before the library parses it, and restores them
// afterwards, where the library differs from the standard:
//
//   - The standard only converts an ASCII domain to lower case, whatever its labels with "xn--"
//     decode to (section 3.3, since 2026-06-25). The library rejects or shortens such domains.
//   - The library rejects a label of digits before a right-to-left label, as in "1.\u064a", which
//     browsers and the web platform tests accept. Such a host is parsed again with hideDigits.
type hostCorrection struct {
	hideDigits bool
	ascii      string // the current host if it is ASCII and contains "xn--", else ""
	hidden     int    // labels of digits of the current host that are marked
	ambiguous  bool   // a host contained the mark itself
}

// before returns what the library parses instead of host.
func (h *hostCorrection) before(u *url.Url, host string) string {
	h.ascii, h.hidden = "", 0
	if !u.IsSpecialScheme() { // not a domain; and after is not called
		return host
	}
	if h.ascii = asciiIDN(host); h.ascii != "" {
		return strings.ReplaceAll(h.ascii, "xn--", "xx--")
	}
	if h.hideDigits {
		return h.hide(host)
	}
	return host
}

// after reverts before.
func (h *hostCorrection) after(_ *url.Url, host string) string {
	if h.ascii != "" {
		return h.ascii
	}
	if h.hideDigits {
		return h.show(host)
	}
	return host
}

// asciiIDN returns a host in lower case and without escapes if it is ASCII and contains "xn--", and
// "" otherwise. It also returns "" if a "%" is left, which the library rejects.
func asciiIDN(host string) string {
	if strings.IndexByte(host, '%') >= 0 {
		host = decodeEscapes(host)
	}
	for i := range len(host) {
		if host[i] >= 0x80 || host[i] == '%' {
			return ""
		}
	}
	if host = strings.ToLower(host); strings.Contains(host, "xn--") {
		return host
	}
	return ""
}

// digitMark is the prefix of labels that replace labels of digits.
const digitMark = "x-digits-only-"

// hide marks the labels of digits except the last label, which makes the host an IPv4 address or
// invalid.
func (h *hostCorrection) hide(host string) string {
	labels := strings.Split(host, ".")
	last := len(labels) - 1
	if labels[last] == "" {
		last-- // a trailing dot
	}
	for i, label := range labels[:max(last, 0)] {
		if label != "" && strings.Trim(label, "0123456789") == "" {
			labels[i] = digitMark + label
			h.hidden++
		}
	}
	return strings.Join(labels, ".")
}

// show reverts hide. A marked label can become the last one if an empty "xn--" after it was
// removed; without the mark, it would be parsed as an IPv4 address the next time.
func (h *hostCorrection) show(host string) string {
	last := strings.TrimSuffix(host, ".")
	last = last[strings.LastIndexByte(last, '.')+1:]
	if strings.Count(host, digitMark) != h.hidden || strings.HasPrefix(last, digitMark) {
		h.ambiguous = true
	}
	return strings.ReplaceAll(host, digitMark, "")
}
