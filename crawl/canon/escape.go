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
		c, ok := Unescape(s, i)
		switch {
		case !ok:
			b.WriteString("%25")
			continue
		case IsUnreserved(c):
			b.WriteByte(c)
		default:
			WriteEscape(&b, c)
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
		c, ok := Unescape(s, i)
		if !ok {
			b.WriteByte(s[i])
			continue
		}
		b.WriteByte(c)
		i += 2
	}
	return b.String()
}

// WriteEscape writes the normal form of the percent escape of a byte.
func WriteEscape(b *strings.Builder, c byte) {
	const upperHex = "0123456789ABCDEF"
	b.WriteByte('%')
	b.WriteByte(upperHex[c>>4])
	b.WriteByte(upperHex[c&15])
}

// Unescape returns the byte that the percent escape at s[i] encodes; ok is false if there is none.
func Unescape(s string, i int) (c byte, ok bool) {
	if s[i] != '%' || i+2 >= len(s) {
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

// IsUnreserved reports whether c is unreserved (RFC 3986, section 2.3).
func IsUnreserved(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || isDigit(c) ||
		c == '-' || c == '.' || c == '_' || c == '~'
}
