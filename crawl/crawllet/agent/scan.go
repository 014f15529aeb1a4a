package main

import (
	"bytes"
	"io"
	"strings"

	"golang.org/x/net/html"
)

// In WebAssembly a call for each byte costs more than everything else, and the tokenizer of
// x/net/html makes several. So scan reads a page in loops without calls, by the rules of the
// tokenizer, and leaves to it what is rare: values with character references, scripts that contain
// comments, and plaintext elements.

// Classes of bytes.
const (
	isSpace  = 1 << iota // white space of HTML
	isLetter             // ASCII
	endsName             // of an element: white space, "/" and ">"
	endsKey              // the same and "="
	isPlain              // unreserved in URLs, or "/"
)

var classes = func() (t [256]uint8) {
	for c := byte('a'); c <= 'z'; c++ {
		t[c], t[c-'a'+'A'] = isLetter|isPlain, isLetter|isPlain
	}
	for _, c := range "0123456789-._~/" {
		t[c] |= isPlain
	}
	for _, c := range " \n\r\t\f" {
		t[c] |= isSpace | endsName | endsKey
	}
	t['/'] |= endsName | endsKey
	t['>'] |= endsName | endsKey
	t['='] |= endsKey
	return t
}()

// scan reads a page.
func (r *reader) scan(b []byte) {
	from := 0 // of the text before the next token
	for i := 0; i < len(b) && !r.again; {
		if b[i] != '<' {
			i++
			continue
		}
		end := tokenAt(b[i:])
		cut := len(b) == i+2 && b[i+1] == '/' // a text of its own
		if end < 0 && !cut {                  // the page ends in a token, or this is none
			i++
			continue
		}
		if from < i && r.wantsText() {
			r.addText(text(b[from:i]))
		}
		if cut {
			from = i
			break
		}
		switch c := b[i+1]; {
		case classes[c]&isLetter != 0:
			end = r.startAt(b, i)
		case c == '/' && classes[b[i+2]]&isLetter != 0:
			end = r.endAt(b, i)
		default:
			end += i
		}
		if end < 0 { // the page ends in the tag, or was left to the tokenizer
			return
		}
		i, from = end, end
	}
	if from < len(b) && r.wantsText() {
		r.addText(text(b[from:]))
	}
}

// tokenAt returns the length of the token other than text that b begins with, 1 for a tag, which
// may be longer, and -1 if there is none.
func tokenAt(b []byte) int {
	if len(b) < 2 {
		return -1
	}
	switch c := b[1]; {
	case classes[c]&isLetter != 0:
		return 1
	case c == '/' && len(b) == 2:
		return -1
	case c == '/' && classes[b[2]]&isLetter != 0:
		return 1
	case c == '!' && len(b) >= 4 && b[2] == '-' && b[3] == '-':
		return 4 + commentLength(b[4:])
	case c == '!' || c == '?' || c == '/':
		if end := bytes.IndexByte(b[2:], '>'); end >= 0 {
			return 2 + end + 1
		}
		return len(b)
	}
	return -1
}

// commentLength returns the length of the rest of a comment, with its end.
func commentLength(b []byte) int {
	dashes, beginning := 0, true
	for i := 0; i < len(b); i++ {
		switch b[i] {
		case '-':
			dashes++
			continue
		case '>':
			if dashes >= 2 || beginning {
				return i + 1
			}
		case '!':
			if dashes < 2 || i+1 == len(b) {
				break
			}
			if b[i+1] == '>' {
				return i + 2
			}
			if b[i+1] == '-' {
				dashes, beginning = 1, false
				i++
				continue
			}
		}
		dashes, beginning = 0, false
	}
	return len(b)
}

// nameEnd returns the end of the name of an element that begins at i.
func nameEnd(b []byte, i int) int {
	for i < len(b) && classes[b[i]]&endsName == 0 {
		i++
	}
	return i
}

// startAt handles the start tag at i, and returns its end, or that of its raw text; -1 if there is
// nothing left to do.
func (r *reader) startAt(b []byte, i int) int {
	name := i + 1
	nameTo := nameEnd(b, name)
	e := elementOf(b[name:nameTo])
	end := r.attributesAt(b, nameTo, e != other)
	if end < 0 {
		return -1
	}
	if e == other {
		return end
	}
	if r.attr.odd {
		r.attr.readTag(b[i:end])
	}
	r.start(e)
	if !e.isRaw() {
		return end
	}
	rest := rawEnd(b[end:], b[name:nameTo])
	raw := b[end : end+rest]
	if e == plaintext || bytes.Contains(raw, []byte("<!--")) && e == script ||
		e == title && bytes.IndexByte(raw, 0) >= 0 {
		r.tokens(io.MultiReader(strings.NewReader("<"+string(b[name:nameTo])+">"),
			bytes.NewReader(b[end:])))
		return -1
	}
	if e == title && r.wantsText() {
		r.addText(text(raw))
	}
	return end + rest
}

// endAt handles the end tag at i, and returns its end, -1 if the page ends before.
func (r *reader) endAt(b []byte, i int) int {
	end := nameEnd(b, i+2)
	if r.skip != other || r.svg > 0 {
		r.end(elementOf(b[i+2 : end]))
	}
	return r.attributesAt(b, end, false)
}

// attributesAt reads the attributes at i, and keeps those of interest if want is set. It returns
// the end of the tag, -1 if the page ends before.
func (r *reader) attributesAt(b []byte, i int, want bool) int {
	if want {
		r.attr = attributes{}
	}
	for {
		for i < len(b) && classes[b[i]]&isSpace != 0 {
			i++
		}
		if i == len(b) {
			return -1
		}
		if b[i] == '>' {
			return i + 1
		}
		key := i
		if b[i] == '=' { // part of the name
			i++
		}
		for i < len(b) && classes[b[i]]&endsKey == 0 {
			i++
		}
		keyEnd := i
		for i < len(b) && classes[b[i]]&isSpace != 0 {
			i++
		}
		if i == len(b) {
			return -1
		}
		value, valueEnd := i, i
		switch b[i] {
		case '/':
			i++
		case '=':
			value, valueEnd, i = valueAt(b, i+1)
			if i < 0 {
				return -1
			}
		}
		if want && key < keyEnd {
			r.attr.set(b[key:keyEnd], b[value:valueEnd])
		}
	}
}

// valueAt returns the start and the end of the value at i, and where the tag continues, -1 if the
// page ends before.
func valueAt(b []byte, i int) (start, end, next int) {
	for i < len(b) && classes[b[i]]&isSpace != 0 {
		i++
	}
	if i == len(b) {
		return i, i, -1
	}
	start = i
	switch quote := b[i]; quote {
	case '>':
		return i, i, i
	case '"', '\'':
		start++
		for i++; i < len(b) && b[i] != quote; i++ {
		}
		end, next = i, i+1
	default:
		for i++; i < len(b) && b[i] != '>' && classes[b[i]]&isSpace == 0; i++ {
		}
		end, next = i, i
	}
	if i == len(b) {
		return start, end, -1
	}
	return start, end, next
}

// rawEnd returns where the raw text of an element ends at which b begins.
func rawEnd(b, name []byte) int {
	for i := 0; ; i += 2 {
		next := bytes.Index(b[i:], []byte("</"))
		if next < 0 {
			return len(b)
		}
		i += next
		tag := b[i+2:]
		if len(tag) > len(name) && classes[tag[len(name)]]&endsName != 0 &&
			bytes.EqualFold(tag[:len(name)], name) {
			return i
		}
	}
}

// text returns text without character references.
func text(b []byte) []byte {
	if bytes.IndexByte(b, '&') < 0 {
		return b
	}
	return []byte(html.UnescapeString(string(b)))
}

// tokens reads the rest of a page with the tokenizer.
func (r *reader) tokens(rest io.Reader) {
	z := html.NewTokenizer(rest)
	for !r.again {
		switch z.Next() {
		case html.ErrorToken:
			return
		case html.TextToken:
			if r.wantsText() {
				r.addText(z.Text())
			}
		case html.StartTagToken, html.SelfClosingTagToken:
			name, more := z.TagName()
			e := elementOf(name)
			if !e.isRaw() {
				z.NextIsNotRawText()
			}
			if e == other {
				continue
			}
			r.attr = attributes{}
			r.attr.readAll(z, more)
			r.start(e)
		case html.EndTagToken:
			name, _ := z.TagName()
			r.end(elementOf(name))
		}
	}
}
