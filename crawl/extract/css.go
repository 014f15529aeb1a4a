package extract

import (
	"bytes"
	"iter"
	"unicode/utf8"
)

// cssReferences yields what url() and @import of a style sheet or of
// declarations name, and src() with a string. It reads tokens (CSS Syntax
// Module Level 3, section 4) but no grammar.
func cssReferences(css []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		s := sheet{rest: css}
		for len(s.rest) > 0 {
			if ref, ok := s.next(); ok && len(trim(ref)) > 0 && !yield(ref) {
				return
			}
		}
	}
}

// sheet is a style sheet that is being read.
type sheet struct {
	rest     []byte
	awaiting bool // a string is the target of an @import
}

// next reads one token, at least one byte, and returns a reference if the
// token is one.
func (s *sheet) next() ([]byte, bool) {
	awaiting := s.awaiting
	switch b := s.rest[0]; {
	case b == '/' && len(s.rest) > 1 && s.rest[1] == '*':
		_, s.rest, _ = bytes.Cut(s.rest[2:], []byte("*/"))
	case isSpace(b):
		s.rest = s.rest[1:]
	case b == '"' || b == '\'':
		s.awaiting = false
		return s.quoted(), awaiting
	case b == '@' || isNameByte(b):
		s.awaiting = false
		return s.word()
	default:
		s.awaiting = false
		s.rest = s.rest[1:]
	}
	return nil, false
}

// word reads a name, and what follows if it is one that takes a reference.
func (s *sheet) word() ([]byte, bool) {
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
		s.awaiting = true
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

// quoted reads a string, which a newline ends too.
func (s *sheet) quoted() []byte {
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

// unquoted reads the reference of url( without quotes.
func (s *sheet) unquoted(arg []byte) []byte {
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
	return 'a' <= b|0x20 && b|0x20 <= 'z' || '0' <= b && b <= '9' || b == '-' || b == '_' || b == '\\' || b >= 0x80
}

// unescapeCSS resolves backslashes: hexadecimal digits name a character, an
// escaped newline is nothing, all else stands for itself.
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
		r, n := hexadecimal(s[i:])
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

// hexadecimal reads up to six digits and returns how many there were.
func hexadecimal(s []byte) (r rune, n int) {
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
