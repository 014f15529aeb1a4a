package canon

import (
	"net/netip"
	"strconv"
	"strings"
)

// Classes of bytes that are not escaped.
const (
	inPath = 1 << iota
	inQuery
)

var classes = func() (t [256]byte) {
	for c := range 256 {
		if IsUnreserved(byte(c)) {
			t[c] = inPath | inQuery
		}
	}
	for _, c := range "/:@!$&()*+,;=" {
		t[c] = inPath | inQuery
	}
	t['\''] = inPath // escaped in queries by the WHATWG parser
	t['?'] = inQuery
	return t
}()

// isClean reports whether s is canonical, without the cost of parsing. It may return false for a
// canonical URL, but never true for any other text.
func isClean(s string) bool { return cleanPath(s) > 0 }

// cleanPath returns where the path of s begins, 0 unless isClean(s).
func cleanPath(s string) int {
	n := cleanOrigin(s)
	if n == 0 || len(s) > MaxLength || !isCleanPath(s[n:]) {
		return 0
	}
	return n
}

// cleanOrigin returns the length of the scheme and authority that s begins with; 0 unless they are
// canonical and a path follows.
func cleanOrigin(s string) int {
	rest, ok := strings.CutPrefix(s, "https://")
	defaultPort := "443"
	if !ok {
		if rest, ok = strings.CutPrefix(s, "http://"); !ok {
			return 0
		}
		defaultPort = "80"
	}
	slash := strings.IndexByte(rest, '/')
	if slash <= 0 {
		return 0
	}
	host, port, hasPort := strings.Cut(rest[:slash], ":")
	if hasPort && (port == defaultPort || !isCleanPort(port)) || !isCleanHost(host) {
		return 0
	}
	return len(s) - len(rest) + slash
}

// isCleanPath reports whether s is a canonical path with or without a query.
func isCleanPath(s string) bool {
	path, query, hasQuery := strings.Cut(s, "?")
	return areCleanBytes(path, inPath) && !hasDotSegment(path) &&
		(!hasQuery || query != "" && areCleanBytes(query, inQuery))
}

// isCleanHost accepts lower-case ASCII names and dotted-decimal IPv4 addresses.
func isCleanHost(host string) bool {
	if !isDNSName(host) {
		return false
	}
	if last := host[strings.LastIndexByte(host, '.')+1:]; isDigit(last[0]) {
		a, err := netip.ParseAddr(host)
		return err == nil && a.Is4()
	}
	return true
}

// isCleanPort accepts decimal ports without leading zeros.
func isCleanPort(port string) bool {
	n, err := strconv.ParseUint(port, 10, 16)
	return err == nil && n > 0 && port[0] != '0'
}

func areCleanBytes(s string, class byte) bool {
	for i := 0; i < len(s); i++ {
		if classes[s[i]]&class != 0 {
			continue
		}
		c, ok := Unescape(s, i)
		if !ok || IsUnreserved(c) || isLower(s[i+1]) || isLower(s[i+2]) {
			return false
		}
		i += 2
	}
	return true
}

func isLower(c byte) bool { return 'a' <= c && c <= 'z' }

// hasDotSegment reports whether a segment of an absolute path is "." or "..".
func hasDotSegment(path string) bool {
	for {
		i := strings.Index(path, "/.")
		if i < 0 {
			return false
		}
		path = path[i+2:]
		rest := strings.TrimPrefix(path, ".")
		if rest == "" || rest[0] == '/' {
			return true
		}
	}
}
