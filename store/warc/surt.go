package warc

import (
	"slices"
	"strings"
)

// SURT returns the index key of a URL: its sort-friendly URI reordering transform. URLs
// that differ only in unimportant ways have the same key. The result is that of the
// Python package surt with default settings, which pywb and cdxj-indexer use:
//
//	https://www.Example.com:443/A//b/?z=1&Y=2#f  ->  com,example)/a/b?y=2&z=1
//
// SURT removes scheme, user, fragment, default port and "www." (or "www12."), reverses
// the host name, decodes unnecessary escapes, converts path and query to lower case,
// removes double and trailing slashes, and sorts the query. Unlike the Python package, it
// does not remove session IDs such as jsessionid. A string that is not an http or https
// URL is returned unchanged. Time and memory are linear in len(u), except for sorting.
func SURT(u string) string {
	scheme, rest, ok := strings.Cut(u, "://")
	scheme = strings.ToLower(scheme)
	if !ok || scheme != "http" && scheme != "https" {
		return u
	}
	rest, _, _ = strings.Cut(rest, "#")
	authority, path := rest, ""
	if i := strings.IndexAny(rest, "/?"); i >= 0 {
		authority, path = rest[:i], rest[i:]
	}
	path, query, asked := strings.Cut(path, "?")
	var b strings.Builder
	b.Grow(len(u))
	writeHost(&b, scheme, authority[strings.LastIndexByte(authority, '@')+1:])
	b.WriteByte(')')
	b.WriteString(surtPath(path))
	if asked && query != "" {
		b.WriteByte('?')
		b.WriteString(surtQuery(query))
	}
	return b.String()
}

func writeHost(b *strings.Builder, scheme, host string) {
	host, port := splitPort(strings.ToLower(unescape(host)))
	if scheme == "http" && port == "80" || scheme == "https" && port == "443" {
		port = ""
	}
	if rest, ok := strings.CutPrefix(host, "www"); ok {
		if _, after, ok := strings.Cut(rest, "."); ok && strings.Trim(rest[:len(rest)-len(after)-1],
			"0123456789") == "" {
			host = after
		}
	}
	host = strings.Trim(host, ".")
	if strings.HasPrefix(host, "[") {
		b.WriteString(host)
	} else {
		labels := strings.Split(escape(host), ".")
		slices.Reverse(labels)
		b.WriteString(strings.Join(labels, ","))
	}
	if port != "" {
		b.WriteByte(':')
		b.WriteString(escape(port))
	}
}

func splitPort(host string) (string, string) {
	if i := strings.LastIndexByte(host, ':'); i >= 0 && i > strings.LastIndexByte(host, ']') {
		return host[:i], host[i+1:]
	}
	return host, ""
}

func surtPath(p string) string {
	p = strings.ToLower(escape(unescape(p)))
	var b strings.Builder
	b.WriteByte('/')
	last := byte('/')
	for i := range len(p) {
		if p[i] != '/' || last != '/' {
			b.WriteByte(p[i])
		}
		last = p[i]
	}
	if s := b.String(); len(s) > 1 {
		return strings.TrimSuffix(s, "/")
	}
	return "/"
}

func surtQuery(q string) string {
	args := strings.Split(strings.ToLower(escape(unescape(q))), "&")
	slices.SortFunc(args, func(a, b string) int {
		ka, va, oka := strings.Cut(a, "=")
		kb, vb, okb := strings.Cut(b, "=")
		if c := strings.Compare(ka, kb); c != 0 {
			return c
		}
		switch {
		case oka == okb:
			return strings.Compare(va, vb)
		case okb:
			return -1
		}
		return 1
	})
	return strings.Join(args, "&")
}

// unescape decodes percent-encoding until none is left. One pass that looks back after
// each byte is enough, because escapes cannot overlap.
func unescape(s string) string {
	if strings.IndexByte(s, '%') < 0 {
		return s
	}
	b := make([]byte, 0, len(s))
	for i := range len(s) {
		b = append(b, s[i])
		for n := len(b); n >= 3 && b[n-3] == '%'; n = len(b) {
			hi, ok1 := unhex(b[n-2])
			lo, ok2 := unhex(b[n-1])
			if !ok1 || !ok2 {
				break
			}
			b = append(b[:n-3], hi<<4|lo)
		}
	}
	return string(b)
}

func unhex(c byte) (byte, bool) {
	switch {
	case c >= '0' && c <= '9':
		return c - '0', true
	case c >= 'a' && c <= 'f':
		return c - 'a' + 10, true
	case c >= 'A' && c <= 'F':
		return c - 'A' + 10, true
	}
	return 0, false
}

// escape encodes characters that a key cannot contain: blanks, control characters,
// non-ASCII bytes, "#" and "%".
func escape(s string) string {
	const digits = "0123456789ABCDEF"
	var b strings.Builder
	b.Grow(len(s))
	for i := range len(s) {
		if c := s[i]; c <= ' ' || c >= 0x7f || c == '#' || c == '%' {
			b.WriteByte('%')
			b.WriteByte(digits[c>>4])
			b.WriteByte(digits[c&15])
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}
