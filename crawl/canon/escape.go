package canon

import "strings"

// normalizeEscapes normalizes the percent escapes of a path and query (RFC 3986, sections 6.2.2.1
// and 6.2.2.2). In the result, every "%" begins an escape of a byte that is not unreserved.
func normalizeEscapes(s string) string {
	if strings.IndexByte(s, '%') < 0 {
		return s
	}
	var b strings.Builder
	b.Grow(len(s))
	for i := 0; i < len(s); i++ {
		if s[i] != '%' {
			b.WriteByte(s[i])
			continue
		}
		c, ok := escapeAt(s, i)
		switch {
		case !ok:
			b.WriteString("%25")
			continue
		case isUnreserved(c):
			b.WriteByte(c)
		default:
			b.WriteByte('%')
			b.WriteByte(upperHex[c>>4])
			b.WriteByte(upperHex[c&15])
		}
		i += 2
	}
	return b.String()
}

// decodeEscapes decodes all valid percent escapes, once.
func decodeEscapes(s string) string {
	var b strings.Builder
	b.Grow(len(s))
	for i := 0; i < len(s); i++ {
		c, ok := byte(0), false
		if s[i] == '%' {
			c, ok = escapeAt(s, i)
		}
		if !ok {
			b.WriteByte(s[i])
			continue
		}
		b.WriteByte(c)
		i += 2
	}
	return b.String()
}

const upperHex = "0123456789ABCDEF"

// escapeAt returns the byte that the escape at s[i] encodes.
func escapeAt(s string, i int) (c byte, ok bool) {
	if i+2 >= len(s) {
		return 0, false
	}
	hi, ok1 := unhex(s[i+1])
	lo, ok2 := unhex(s[i+2])
	return hi<<4 | lo, ok1 && ok2
}

func unhex(c byte) (byte, bool) {
	switch {
	case isDigit(c):
		return c - '0', true
	case 'a' <= c && c <= 'f':
		return c - 'a' + 10, true
	case 'A' <= c && c <= 'F':
		return c - 'A' + 10, true
	}
	return 0, false
}

// isUnreserved reports whether c is unreserved (RFC 3986, section 2.3).
func isUnreserved(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || isDigit(c) ||
		c == '-' || c == '.' || c == '_' || c == '~'
}
