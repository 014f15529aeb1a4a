package robots

import "strings"

// normalPath brings path and query of a canonical URL into the form in which
// they are compared (RFC 9309, sections 2.2.2 and 2.2.3). A "*" or "$" of the
// URL is written as its escape, as a pattern would have to.
func normalPath(s string) string { return normal(s, "*$") }

// normalPattern does the same for the value of an Allow or Disallow line,
// whose "*" and last "$" have a meaning.
func normalPattern(s string) string {
	body, anchored := strings.CutSuffix(s, "$")
	body = normal(body, "$")
	if anchored {
		body += "$"
	}
	return body
}

// normal escapes all bytes but the unreserved and reserved ones of RFC 3986,
// and those of special; it decodes the escapes of unreserved bytes and writes
// the others in upper case. The quote is escaped too, because canonical URLs
// have it escaped in queries and as it is in paths.
func normal(s, special string) string {
	if !needsNormal(s, special) {
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

// needsNormal says whether normal would change anything; it mostly would not.
func needsNormal(s, special string) bool {
	for i := 0; i < len(s); i++ {
		if s[i] == '%' || mustEscape(s[i], special) {
			return true
		}
	}
	return false
}

func mustEscape(c byte, special string) bool {
	return !isUnreserved(c) && strings.IndexByte("/:?#[]@!$&()*+,;=%", c) < 0 || strings.IndexByte(special, c) >= 0
}

// escaped returns the byte that an escape at s[i] stands for.
func escaped(s string, i int) (byte, bool) {
	if s[i] != '%' || i+2 >= len(s) {
		return 0, false
	}
	hi, lo := unhex(s[i+1]), unhex(s[i+2])
	return hi<<4 | lo, hi < 16 && lo < 16
}

// unhex returns 255 for what is no hex digit.
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

// isUnreserved is RFC 3986, section 2.3.
func isUnreserved(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' ||
		c == '-' || c == '.' || c == '_' || c == '~'
}
