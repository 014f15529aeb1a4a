package robots

import (
	"strings"

	"peerd/crawl/canon"
)

// normalizePath returns the path and query of a canonical URL in the form that is used for
// comparison (RFC 9309, sections 2.2.2 and 2.2.3). A "*" or "$" is escaped, as it must be in a
// pattern.
func normalizePath(s string) string { return normalize(s, "*$") }

// normalizePattern does the same for the value of an Allow or Disallow line, in which "*" and a
// final "$" are special.
func normalizePattern(s string) string {
	body, anchored := strings.CutSuffix(s, "$")
	body = normalize(body, "$")
	if anchored {
		body += "$"
	}
	return body
}

// normalize escapes the bytes in special and all bytes that are neither unreserved nor reserved
// in RFC 3986. It decodes the escapes of unreserved bytes and writes the others in upper case.
// The single quote is escaped as well, because canonical URLs escape it in queries but not in
// paths.
func normalize(s, special string) string {
	if !needsNormalizing(s, special) {
		return s
	}
	var b strings.Builder
	b.Grow(len(s) + 16)
	for i := 0; i < len(s); i++ {
		c := s[i]
		escape := mustEscape(c, special)
		if d, ok := canon.Unescape(s, i); ok {
			i += 2
			c, escape = d, !canon.IsUnreserved(d)
		}
		if escape {
			canon.WriteEscape(&b, c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

// needsNormalizing reports whether normalize may change s.
func needsNormalizing(s, special string) bool {
	for i := 0; i < len(s); i++ {
		if s[i] == '%' || mustEscape(s[i], special) {
			return true
		}
	}
	return false
}

func mustEscape(c byte, special string) bool {
	return !canon.IsUnreserved(c) && strings.IndexByte("/:?#[]@!$&()*+,;=%", c) < 0 ||
		strings.IndexByte(special, c) >= 0
}
