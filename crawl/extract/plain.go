package extract

import (
	"bytes"
	"io"

	"golang.org/x/net/html"
)

// minRead is the least number of bytes that a tokenizer gets to continue a token.
const minRead = 256

// feed is the rest of a page. It gives the tokenizer no more than one tag to begin a token, so
// that the scanner can read what follows before the tokenizer has buffered it.
type feed struct {
	rest []byte
	// least is the minimum size of the next Read. It grows with each Read for the same token,
	// because the tokenizer then copies what it has of the token.
	least int
}

// begin prepares for a new token.
func (in *feed) begin() { in.least = 0 }

// Read implements io.Reader. It returns data up to a ">".
func (in *feed) Read(p []byte) (n int, err error) {
	if len(in.rest) == 0 {
		return 0, io.EOF
	}
	end := min(in.least, len(in.rest))
	if i := bytes.IndexByte(in.rest[end:], '>'); i >= 0 {
		end += i + 1
	} else {
		end = len(in.rest)
	}
	in.least = max(2*in.least, minRead)
	n = copy(p, in.rest[:end])
	in.rest = in.rest[n:]
	return n, nil
}

// readPlain reads text and plain tags until a token needs the tokenizer, which must have nothing
// buffered and not be in raw text. A tag is plain if it is written as nearly all tags are: in
// lower case, with quoted values.
func (s *scanner) readPlain() {
	for {
		start := bytes.IndexByte(s.in.rest, '<')
		if start < 0 {
			start = len(s.in.rest)
		}
		s.addPlain(s.in.rest[:start])
		s.in.rest = s.in.rest[start:]
		if len(s.in.rest) == 0 {
			s.in.rest = nil
			return
		}
		isEnd, name, rest := splitTag(s.in.rest)
		size := 0
		switch {
		case len(name) == 0:
		case isEnd:
			if len(rest) > 0 && rest[0] == '>' {
				size = 1
				s.leave(elementOf(name))
			}
		default:
			size = s.startPlain(name, rest)
		}
		if size == 0 {
			return
		}
		s.in.rest = rest[size:]
	}
}

// addPlain adds text outside of raw text to the text of the page.
func (s *scanner) addPlain(text []byte) {
	v := s.c.builder
	if v == nil || len(text) == 0 || s.templateDepth > 0 {
		return
	}
	if bytes.IndexByte(text, '&') >= 0 {
		text = []byte(html.UnescapeString(string(text)))
	}
	v.add(text)
}

// startPlain handles a start tag if it is plain. It returns the length of the tag behind its name,
// or 0.
func (s *scanner) startPlain(name, rest []byte) (size int) {
	e := elementOf(name)
	if rulesOf[e].raw || e == svg || e == math { // the tokenizer knows whether they end at once
		return 0
	}
	want := (*s.wanted)[e]
	if size = s.attr.readPlain(rest, want); size == 0 {
		return 0
	}
	s.textOf, s.hidden = other, false
	if s.c.builder != nil {
		s.c.builder.begin(e)
	}
	s.enter(e, false)
	if want != 0 {
		s.handleElement(e, name)
	}
	return size
}

// splitTag returns the name of the tag that begins with tag, and what follows it. The name is empty
// unless it is plain.
func splitTag(tag []byte) (isEnd bool, name, rest []byte) {
	rest = tag[1:]
	if len(rest) > 0 && rest[0] == '/' {
		isEnd, rest = true, rest[1:]
	}
	n := plainName(rest)
	return isEnd, rest[:n], rest[n:]
}

// plainName returns the length of the name that s begins with: a lower-case letter, and then any
// lower-case letters and digits.
func plainName(s []byte) int {
	n := 0
	for n < len(s) && (isLower(s[n]) || n > 0 && isDigit(s[n])) {
		n++
	}
	return n
}

func isLower(b byte) bool { return 'a' <= b && b <= 'z' }

func isDigit(b byte) bool { return '0' <= b && b <= '9' }

// readPlain sets a to the wanted attributes of a plain tag, and returns the length of the tag; tag
// begins behind its name. It returns 0 for any other tag, and for values with characters that the
// tokenizer replaces.
func (a *attributes) readPlain(tag []byte, want uint16) int {
	a.has = 0
	for i := 0; ; {
		begin := i
		for i < len(tag) && isSpace(tag[i]) {
			i++
		}
		switch {
		case bytes.HasPrefix(tag[i:], []byte(">")):
			return i + 1
		case bytes.HasPrefix(tag[i:], []byte("/>")):
			return i + 2
		case i == begin:
			return 0
		}
		key, val, size := plainAttribute(tag[i:])
		if size == 0 || want != 0 && !a.addPlain(key, val, want) {
			return 0
		}
		i += size
	}
}

// addPlain sets an attribute if it is wanted and the first of its name. It returns false if the
// tokenizer would change the value.
func (a *attributes) addPlain(key, val []byte, want uint16) bool {
	k := attributeOf(key)
	if want&(1<<k)&^a.has == 0 {
		return true
	}
	for _, b := range val {
		if b == '&' || b == '\r' || b == 0 {
			return false
		}
	}
	a.set(k, val)
	return true
}

// plainAttribute returns the attribute that s begins with, and its length; 0 unless it is plain.
func plainAttribute(s []byte) (key, val []byte, size int) {
	n := plainKey(s)
	if n == 0 || len(s) < n+2 || s[n] != '=' || s[n+1] != '"' && s[n+1] != '\'' {
		return nil, nil, 0
	}
	val = s[n+2:]
	end := bytes.IndexByte(val, s[n+1])
	if end < 0 {
		return nil, nil, 0
	}
	return s[:n], val[:end], n + 2 + end + 1
}

// plainKey returns the length of the name of an attribute that s begins with.
func plainKey(s []byte) int {
	n := 0
	for n < len(s) &&
		(isLower(s[n]) || isDigit(s[n]) || s[n] == '-' || s[n] == ':' || s[n] == '_') {
		n++
	}
	return n
}
