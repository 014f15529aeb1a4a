package extract

import (
	"bytes"
	"iter"
	"unicode/utf8"
)

// cssReferences yields the targets of url() and @import in a style sheet or in declarations, and of
// src() with a string. It scans tokens (CSS Syntax Module Level 3, section 4) and does not parse
// the grammar.
func cssReferences(css []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		s := cssScanner{rest: css}
		for len(s.rest) > 0 {
			if ref, ok := s.next(); ok && len(trim(ref)) > 0 && !yield(ref) {
				return
			}
		}
	}
}

// cssScanner scans the tokens of a style sheet.
type cssScanner struct {
	rest        []byte
	afterImport bool // a string would be the target of an @import
}

// next reads a token of at least one byte, and returns its reference if it has one.
func (s *cssScanner) next() ([]byte, bool) {
	awaiting := s.afterImport
	switch b := s.rest[0]; {
	case b == '/' && len(s.rest) > 1 && s.rest[1] == '*':
		_, s.rest, _ = bytes.Cut(s.rest[2:], []byte("*/"))
	case isSpace(b):
		s.rest = s.rest[1:]
	case b == '"' || b == '\'':
		s.afterImport = false
		return s.quoted(), awaiting
	case b == '@' || isNameByte(b):
		s.afterImport = false
		return s.word()
	default:
		s.afterImport = false
		s.rest = s.rest[1:]
	}
	return nil, false
}

// word reads a name, and its argument if that is a reference.
func (s *cssScanner) word() ([]byte, bool) {
	i := 1
	for i < len(s.rest) && isNameByte(s.rest[i]) {
		i++
		if s.rest[i-1] == '\\' && i < len(s.rest) {
			i++
		}
	}
	word := s.rest[:i]
	s.rest = s.rest[i:]
	if equalFold(word, "@import") {
		s.afterImport = true
		return nil, false
	}
	isURL := equalFold(word, "url")
	if !isURL && !equalFold(word, "src") || len(s.rest) == 0 || s.rest[0] != '(' {
		return nil, false
	}
	arg := bytes.TrimLeft(s.rest[1:], whiteSpace)
	if len(arg) > 0 && (arg[0] == '"' || arg[0] == '\'') {
		s.rest = arg
		return s.quoted(), true
	}
	if !isURL {
		return nil, false
	}
	return s.unquoted(arg), true
}

// quoted reads a string, which also ends at a newline.
func (s *cssScanner) quoted() []byte {
	quote := s.rest[0]
	for i := 1; i < len(s.rest); i++ {
		switch s.rest[i] {
		case '\\':
			i++
		case quote, '\n':
			text := s.rest[1:i]
			s.rest = s.rest[i+1:]
			return unescapeCSS(text)
		}
	}
	text := s.rest[1:]
	s.rest = nil
	return unescapeCSS(text)
}

// unquoted reads the unquoted reference of url().
func (s *cssScanner) unquoted(arg []byte) []byte {
	i := 0
	for i < len(arg) && arg[i] != ')' {
		if arg[i] == '\\' {
			i++
		}
		i++
	}
	i = min(i, len(arg))
	s.rest = arg[min(i+1, len(arg)):]
	return unescapeCSS(trim(arg[:i]))
}

func isNameByte(b byte) bool {
	return 'a' <= b|0x20 && b|0x20 <= 'z' || '0' <= b && b <= '9' || b == '-' || b == '_' ||
		b == '\\' || b >= 0x80
}

// unescapeCSS decodes escapes: hexadecimal digits are the code of a character, an escaped newline
// is removed, and any other character represents itself.
func unescapeCSS(s []byte) []byte {
	if bytes.IndexByte(s, '\\') < 0 {
		return s
	}
	out := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' || i+1 == len(s) {
			out = append(out, s[i])
			continue
		}
		i++
		r, n := scanHex(s[i:])
		switch {
		case n > 0:
			out = utf8.AppendRune(out, r)
			i += n - 1
			if i+1 < len(s) && isSpace(s[i+1]) {
				i++
			}
		case s[i] != '\n':
			out = append(out, s[i])
		}
	}
	return out
}

// scanHex reads up to six hexadecimal digits and returns their value and number.
func scanHex(s []byte) (r rune, n int) {
	for n < min(len(s), 6) {
		b := s[n]
		switch {
		case '0' <= b && b <= '9':
			r = r<<4 | rune(b-'0')
		case 'a' <= b|0x20 && b|0x20 <= 'f':
			r = r<<4 | rune(b|0x20-'a'+10)
		default:
			return r, n
		}
		n++
	}
	return r, n
}
