package fetch

import (
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"peerd/store"
)

// errBadURL means that the URL of a request is not canonical; nothing was sent.
var errBadURL = errors.New("not a canonical URL")

// target is the destination of a request: the URL for net/http, and the authority with an explicit
// port.
type target struct {
	url  *url.URL
	addr string // host:port, [host]:port for IPv6 literals
	port uint16
}

// parseTarget splits u so that the path and query are sent unchanged. url.Parse would rewrite some
// URLs that are canonical by the WHATWG rules ("|" becomes "%7C") and reject others ("%zz").
func parseTarget(u store.URL) (target, error) {
	scheme, rest, ok := strings.Cut(string(u), "://")
	port := uint16(80)
	switch {
	case ok && scheme == "https":
		port = 443
	case ok && scheme == "http":
	default:
		return target{}, fmt.Errorf("%w: %q", errBadURL, u)
	}
	authority, uri := rest, "/"
	if i := strings.IndexAny(rest, "/?"); i >= 0 {
		authority, uri = rest[:i], rest[i:]
	}
	if strings.HasPrefix(uri, "?") {
		uri = "/" + uri
	}
	bad := func(r rune) bool { return r <= ' ' || r > '~' || r == '#' }
	if authority == "" || strings.Contains(authority, "@") || strings.ContainsFunc(rest, bad) {
		return target{}, fmt.Errorf("%w: %q", errBadURL, u)
	}

	addr := authority
	if i := strings.LastIndexByte(authority, ':'); i > strings.LastIndexByte(authority, ']') {
		n, err := strconv.ParseUint(authority[i+1:], 10, 16)
		if err != nil || n == 0 || i == 0 {
			return target{}, fmt.Errorf("%w: %q", errBadURL, u)
		}
		port = uint16(n)
	} else {
		addr = authority + ":" + strconv.Itoa(int(port))
	}
	return target{url: verbatim(scheme, authority, uri), addr: addr, port: port}, nil
}

// verbatim returns a URL with the given RequestURI.
func verbatim(scheme, authority, uri string) *url.URL {
	p, err := url.Parse(scheme + "://" + authority + uri)
	if err == nil && p.RequestURI() == uri && p.Host == authority {
		return p
	}
	path, query, hasQuery := strings.Cut(uri, "?")
	if strings.HasPrefix(path, "//") {
		// This is sent in absolute form, which every server must accept (RFC 9112, section 3.2.2).
		path = "//" + authority + path
	}
	return &url.URL{
		Scheme: scheme, Host: authority, Opaque: path, RawQuery: query, ForceQuery: hasQuery,
	}
}
