package canon

import (
	"errors"
	"strings"

	"github.com/nlnwa/whatwg-url/url"

	"peerd/store"
)

const (
	// MaxLength is the maximum length of a canonical URL in bytes. Longer URLs are crawler traps
	// more often than pages.
	MaxLength = 2048
	// maxInput is the maximum length of a reference in bytes: escapes may shrink to a third.
	maxInput = 3 * MaxLength
	// maxAts is the maximum number of "@" in a reference. The time of the parser grows with its
	// square.
	maxAts = 64
)

// Errors of Parse and Join, to be tested with errors.Is.
var (
	// ErrSyntax means that the text is not a URL.
	ErrSyntax = errors.New("canon: not a URL")
	// ErrScheme means that the scheme is neither http nor https.
	ErrScheme = errors.New("canon: scheme is not http or https")
	// ErrCredentials means that the URL contains a user name or a password, or very many "@".
	ErrCredentials = errors.New("canon: URL has credentials")
	// ErrHost means that the host cannot be a name in the DNS.
	ErrHost = errors.New("canon: host is not a DNS name")
	// ErrPort means that the port is 0, to which nothing can connect.
	ErrPort = errors.New("canon: port is 0")
	// ErrTooLong means that the URL is longer than MaxLength.
	ErrTooLong = errors.New("canon: URL is too long")
)

// Parse returns the canonical form of an absolute URL. Errors are those of the package.
func Parse(raw string) (store.URL, error) {
	if isClean(raw) {
		return store.URL(raw), nil
	}
	return parse(raw)
}

// parse is Parse without the fast path.
func parse(raw string) (store.URL, error) { return Base{}.join(raw) }

// Join resolves a reference that occurs on page and returns the result in canonical form. Errors
// are those of the package.
func Join(page store.URL, ref string) (store.URL, error) {
	return BaseOf(page).Join(ref)
}

// resolve parses a reference relative to a base, "" for none.
func resolve(base, ref string) (*url.Url, error) {
	switch {
	case len(ref) > maxInput:
		return nil, ErrTooLong
	case strings.Count(ref, "@") > maxAts:
		return nil, ErrCredentials
	}
	u, err := parseWHATWG(base, ref)
	if err != nil {
		return nil, syntaxError(err)
	}
	return u, nil
}

// canonicalize returns the canonical form of a parsed URL.
func canonicalize(u *url.Url) (store.URL, error) {
	scheme := u.Scheme()
	if scheme != "http" && scheme != "https" {
		return "", ErrScheme
	}
	if u.Username() != "" || u.Password() != "" {
		return "", ErrCredentials
	}
	host, err := canonicalHost(u.Hostname())
	if err != nil {
		return "", err
	}
	s := scheme + "://" + host
	switch port := u.Port(); port {
	case "":
	case "0":
		return "", ErrPort
	default:
		s += ":" + port
	}
	s += normalizeEscapes(u.Pathname() + u.Search())
	if len(s) > MaxLength {
		return "", ErrTooLong
	}
	return store.URL(s), nil
}
