package canon

import (
	"errors"
	"strings"

	"github.com/nlnwa/whatwg-url/url"

	"peerd/store"
)

const (
	// MaxLength bounds a canonical URL, in bytes. Longer ones are traps more
	// often than pages.
	MaxLength = 2048
	// maxInput bounds what is parsed at all, in bytes: escapes may shrink to a
	// third.
	maxInput = 3 * MaxLength
	// maxAts bounds the "@" of what is parsed: the parser's work for them
	// grows with their square.
	maxAts = 64
)

// Errors of Parse and Join; test with errors.Is.
var (
	// ErrSyntax: the text is no URL.
	ErrSyntax = errors.New("canon: not a URL")
	// ErrScheme: the URL is neither http nor https.
	ErrScheme = errors.New("canon: scheme is not http or https")
	// ErrCredentials: the URL carries a user name or a password, or so many
	// "@" that nothing else is likely.
	ErrCredentials = errors.New("canon: URL has credentials")
	// ErrHost: the host is not one that the DNS can hold.
	ErrHost = errors.New("canon: host is no DNS name")
	// ErrTooLong: the URL is longer than MaxLength.
	ErrTooLong = errors.New("canon: URL is too long")
)

// Parse makes the canonical form of an absolute URL. The error is one of the
// package's.
func Parse(raw string) (store.URL, error) {
	if isClean(raw) {
		return store.URL(raw), nil
	}
	return parse(raw)
}

// parse is Parse without the fast path.
func parse(raw string) (store.URL, error) { return Base{}.join(raw) }

// Join resolves a reference found at page and makes the result canonical. The
// error is one of the package's.
func Join(page store.URL, ref string) (store.URL, error) {
	return BaseOf(page).Join(ref)
}

// resolve parses a reference against a base, "" for none.
func resolve(base, ref string) (*url.Url, error) {
	switch {
	case len(ref) > maxInput:
		return nil, ErrTooLong
	case strings.Count(ref, "@") > maxAts:
		return nil, ErrCredentials
	}
	u, err := standard(base, ref)
	if err != nil {
		return nil, syntaxError(err)
	}
	return u, nil
}

// finish turns a parsed URL into its canonical form.
func finish(u *url.Url) (store.URL, error) {
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
	if port := u.Port(); port != "" {
		s += ":" + port
	}
	s += normalizeEscapes(u.Pathname() + u.Search())
	if len(s) > MaxLength {
		return "", ErrTooLong
	}
	return store.URL(s), nil
}
