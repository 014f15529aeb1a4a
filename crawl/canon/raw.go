package canon

import (
	"errors"
	"fmt"
	"strings"

	liberrors "github.com/nlnwa/whatwg-url/errors"
	"github.com/nlnwa/whatwg-url/url"
)

const (
	// maxRaw bounds the reference and the base of Raw, in bytes.
	maxRaw = 64 << 10
	// maxRawAts bounds the "@" in each of them: the parser's work for them
	// grows with their square, to some 2 ms here.
	maxRawAts = 1024
)

// Parts is a URL as the WHATWG URL Standard gives it to scripts (section 6.1):
// the serialization and the pieces that it is made of.
type Parts struct {
	Href     string // the whole URL
	Protocol string // with its colon: "https:"
	// Username and Password are percent-encoded.
	Username, Password string
	Host               string // with the port, if it is not the default one
	Hostname           string // ASCII; IPv6 in brackets
	Port               string // "" for the default one
	Pathname           string
	Search             string // with its "?"; "" if there is nothing behind it
	Hash               string // with its "#"; "" if there is nothing behind it
}

// Raw parses a reference against a base ("" for none) and serializes it as the
// WHATWG URL Standard has it: of any scheme, with fragment and credentials, and
// without the choices that make Parse's form unique. The error is ErrSyntax, or
// ErrTooLong beyond 64 KiB or 1024 "@".
func Raw(base, ref string) (Parts, error) {
	for _, s := range []string{base, ref} {
		if len(s) > maxRaw || strings.Count(s, "@") > maxRawAts {
			return Parts{}, ErrTooLong
		}
	}
	u, err := standard(base, ref)
	if err != nil {
		return Parts{}, syntaxError(err)
	}
	return Parts{
		Href: u.Href(false), Protocol: u.Protocol(), Username: u.Username(), Password: u.Password(),
		Host: u.Host(), Hostname: u.Hostname(), Port: u.Port(),
		Pathname: u.Pathname(), Search: u.Search(), Hash: u.Hash(),
	}, nil
}

// syntaxError is ErrSyntax with the library's reason, without the URL, which
// may be long.
func syntaxError(err error) error {
	var v *liberrors.ValidationError
	if !errors.As(err, &v) {
		return fmt.Errorf("%w: %v", ErrSyntax, err)
	}
	if cause := v.Unwrap(); cause != nil {
		return fmt.Errorf("%w: %s: %v", ErrSyntax, v.Type(), cause)
	}
	return fmt.Errorf("%w: %s", ErrSyntax, v.Type())
}

// parser reports failures only; it holds no state between calls.
var parser = url.NewParser()

// standard parses as the standard does. The library's one known fault: it
// refuses a label of digits before a right-to-left one, as in "1.xn--mhb",
// which browsers and the web platform tests take. Such a host is parsed again
// with its digits out of sight.
func standard(base, ref string) (*url.Url, error) {
	u, err := parser.ParseRef(base, ref)
	if err == nil || !isDomainToASCII(err) {
		return u, err
	}
	var d digits
	again := url.NewParser(url.WithPreParseHostFunc(d.hide), url.WithPostParseHostFunc(d.show))
	if u, err2 := again.ParseRef(base, ref); err2 == nil && !d.mixedUp {
		return u, nil
	}
	return nil, err
}

// isDomainToASCII says whether a host failed in that step of the standard
// (section 3.3).
func isDomainToASCII(err error) bool {
	var v *liberrors.ValidationError
	return errors.As(err, &v) && v.Type() == liberrors.DomainToASCII
}

// digitMark begins the labels that stand in for digits.
const digitMark = "x-digits-only-"

// digits takes labels of digits out of one host after the other.
type digits struct {
	hidden  int  // labels of the present host that are marked
	mixedUp bool // a host had marks of its own
}

// hide marks the labels of digits before the last label: a last one makes the
// host an IPv4 address, or invalid.
func (d *digits) hide(_ *url.Url, host string) string {
	d.hidden = 0
	labels := strings.Split(host, ".")
	last := len(labels) - 1
	if labels[last] == "" {
		last-- // a trailing dot
	}
	for i, label := range labels[:max(last, 0)] {
		if label != "" && strings.Trim(label, "0123456789") == "" {
			labels[i] = digitMark + label
			d.hidden++
		}
	}
	return strings.Join(labels, ".")
}

// show undoes hide. A marked label that has become the last one, because an empty
// "xn--" behind it is gone, would be read as an IPv4 address the next time.
func (d *digits) show(_ *url.Url, host string) string {
	last := strings.TrimSuffix(host, ".")
	last = last[strings.LastIndexByte(last, '.')+1:]
	if strings.Count(host, digitMark) != d.hidden || strings.HasPrefix(last, digitMark) {
		d.mixedUp = true
	}
	return strings.ReplaceAll(host, digitMark, "")
}
