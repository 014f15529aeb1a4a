package robots

import "strings"

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
		if d, ok := escaped(s, i); ok {
			i += 2
			c, escape = d, !isUnreserved(d)
		}
		if escape {
			b.WriteByte('%')
			b.WriteByte(upperHex[c>>4])
			b.WriteByte(upperHex[c&15])
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

const upperHex = "0123456789ABCDEF"

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
	return !isUnreserved(c) && strings.IndexByte("/:?#[]@!$&()*+,;=%", c) < 0 ||
		strings.IndexByte(special, c) >= 0
}

// escaped returns the byte that the escape at s[i] encodes.
func escaped(s string, i int) (byte, bool) {
	if s[i] != '%' || i+2 >= len(s) {
		return 0, false
	}
	hi, lo := unhex(s[i+1]), unhex(s[i+2])
	return hi<<4 | lo, hi < 16 && lo < 16
}

// unhex returns the value of a hex digit, and 255 for any other byte.
func unhex(c byte) byte {
	switch {
	case '0' <= c && c <= '9':
		return c - '0'
	case 'a' <= c && c <= 'f':
		return c - 'a' + 10
	case 'A' <= c && c <= 'F':
		return c - 'A' + 10
	}
	return 255
}

// isUnreserved reports whether c is unreserved (RFC 3986, section 2.3).
func isUnreserved(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' ||
		c == '-' || c == '.' || c == '_' || c == '~'
}
