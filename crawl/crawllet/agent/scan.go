package main

import (
	"bytes"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/net/html"
)

// In WebAssembly a call for each byte costs more than everything else, and the tokenizer of
// x/net/html makes several. So scan reads a page in words, by the rules of the tokenizer, and
// leaves to it what is rare: values with character references, scripts that contain comments, and
// plaintext elements.

// Classes of bytes.
const (
	isSpace  = 1 << iota // white space of HTML
	isLetter             // ASCII
	endsName             // of an element: white space, "/" and ">"
	endsKey              // the same and "="
	isPlain              // unreserved in URLs, or "/"
	isHost               // of a host in lower case
	isWord               // ASCII but for white space
)

var classes = func() (t [256]uint8) {
	for c := byte('a'); c <= 'z'; c++ {
		t[c], t[c-'a'+'A'] = isLetter|isPlain, isLetter|isPlain
	}
	for _, c := range "0123456789-._~/" {
		t[c] |= isPlain
	}
	for _, c := range "abcdefghijklmnopqrstuvwxyz0123456789-." {
		t[c] |= isHost
	}
	for c := range utf8.RuneSelf {
		if !unicode.IsSpace(rune(c)) {
			t[c] |= isWord
		}
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
	for i := 0; !r.again; {
		if !r.wantsText() {
			i = pass(b, i, r.skip != other || r.svg > 0)
			from = i
		}
		i = index(b, i, '<')
		if i+1 >= len(b) {
			break
		}
		name, end := i+1, 0
		if b[name] == '/' {
			name++
		}
		if name == len(b) { // "</" is a text of its own
			if from < i && r.wantsText() {
				r.addText(text(b[from:i]))
			}
			from = i
			break
		}
		isTag := classes[b[name]]&isLetter != 0
		if !isTag {
			if end = commentAt(b, i); end < 0 {
				i++
				continue
			}
		}
		if from < i && r.wantsText() {
			r.addText(text(b[from:i]))
		}
		switch {
		case !isTag:
		case name == i+1:
			end = r.startAt(b, name)
		default:
			end = r.endAt(b, name)
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

// pass returns where something of interest begins at i or behind it, if texts are not: an element,
// an end tag if ends is set, or what is rare or near the end of the page. It calls no functions.
func pass(b []byte, i int, ends bool) int {
	for i+8 <= len(b) {
		m := equal(word(b, i), '<')
		if m == 0 {
			i += 8
			continue
		}
		i += first(m)
		if i+9 > len(b) {
			return i
		}
		w := word(b, i+1)
		if byte(w) == '/' {
			m = equal(w, '>')
			if ends || m == 0 || equal(w, '=')&(m&-m-1) != 0 ||
				classes[byte(w>>8)]&isLetter == 0 {
				return i
			}
			i += 1 + first(m) + 1
			continue
		}
		m = spaces(w) | equal(w, '>')
		n := first(m) // 8 if there is none
		if classes[byte(w)]&isLetter == 0 || n == 8 || lengths[byte(w)|0x20]>>n&1 != 0 ||
			equal(w, '/')&(m&-m-1) != 0 {
			return i
		}
		end := i + 1 + n
		if b[end] != '>' {
			if end = passAttributes(b, end); end < 0 {
				return i
			}
		}
		i = end + 1
	}
	return i
}

// passAttributes returns where the tag ends, with a ">", of which the name ends at i; -1 if there
// are other attributes than those with a value in quotes, or the page is near its end.
func passAttributes(b []byte, i int) int {
	for i+8 <= len(b) {
		w := word(b, i)
		m := equal(w, '=') | equal(w, '>')
		if m == 0 {
			i += 8
			continue
		}
		i += first(m)
		if b[i] == '>' {
			return i
		}
		if i+1 >= len(b) || classes[b[i-1]]&isLetter == 0 {
			return -1
		}
		quote := b[i+1]
		if quote != '"' && quote != '\'' {
			return -1
		}
		i += 2
		for {
			if i+8 > len(b) {
				return -1
			}
			if m = equal(word(b, i), quote); m != 0 {
				break
			}
			i += 8
		}
		i += first(m) + 1
	}
	return -1
}

// commentAt returns the end of the comment or other markup at i that is not a tag, -1 if there is
// none.
func commentAt(b []byte, i int) int {
	switch c := b[i+1]; {
	case c == '!' && len(b) >= i+4 && b[i+2] == '-' && b[i+3] == '-':
		return i + 4 + commentLength(b[i+4:])
	case c == '!' || c == '?' || c == '/':
		return min(index(b, i+2, '>')+1, len(b))
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
	if i+8 <= len(b) {
		w := word(b, i)
		if m := spaces(w) | equal(w, '>') | equal(w, '/'); m != 0 {
			i += first(m)
		}
	}
	for i < len(b) && classes[b[i]]&endsName == 0 {
		i++
	}
	return i
}

// startAt handles the start tag with the name at i, and returns its end, or that of its raw text;
// -1 if there is nothing left to do.
func (r *reader) startAt(b []byte, i int) int {
	nameTo := nameEnd(b, i)
	if lengths[b[i]|0x20]>>(nameTo-i)&1 == 0 {
		return tagEnd(b, nameTo)
	}
	e := elementOf(b[i:nameTo])
	if e == other {
		return tagEnd(b, nameTo)
	}
	end := r.attributesAt(b, nameTo)
	if end < 0 {
		return -1
	}
	if r.attr.odd {
		r.attr.readTag(b[i-1 : end])
	}
	r.start(e)
	if !e.isRaw() {
		return end
	}
	rest := rawEnd(b[end:], b[i:nameTo])
	raw := b[end : end+rest]
	if e == plaintext || bytes.Contains(raw, []byte("<!--")) && e == script ||
		e == title && bytes.IndexByte(raw, 0) >= 0 {
		r.tokens(io.MultiReader(strings.NewReader("<"+string(b[i:nameTo])+">"),
			bytes.NewReader(b[end:])))
		return -1
	}
	if e == title && r.wantsText() {
		r.addText(text(raw))
	}
	return end + rest
}

// endAt handles the end tag with the name at i, and returns its end, -1 if the page ends before.
func (r *reader) endAt(b []byte, i int) int {
	if r.skip != other || r.svg > 0 {
		r.end(elementOf(b[i:nameEnd(b, i)]))
	}
	if i+8 <= len(b) { // most are short
		w := word(b, i)
		if m := equal(w, '>'); m != 0 && equal(w, '=')&(m&-m-1) == 0 {
			return i + first(m) + 1
		}
	}
	return tagEnd(b, nameEnd(b, i))
}

// tagEnd returns the end of the tag of which the name ends at i, -1 if the page ends before.
func tagEnd(b []byte, i int) int {
	for {
		for i < len(b) && classes[b[i]]&isSpace != 0 {
			i++
		}
		if i < len(b) && b[i] == '=' { // part of the name of an attribute
			i++
		}
		for i+8 <= len(b) {
			w := word(b, i)
			if m := equal(w, '=') | equal(w, '>'); m != 0 {
				i += first(m)
				break
			}
			i += 8
		}
		for i < len(b) && b[i] != '=' && b[i] != '>' {
			i++
		}
		if i == len(b) {
			return -1
		}
		if b[i] == '>' {
			return i + 1
		}
		before := i - 1
		for classes[b[before]]&isSpace != 0 {
			before--
		}
		if b[before] == '/' { // the name begins here
			continue
		}
		if _, _, i = valueAt(b, i+1); i < 0 {
			return -1
		}
	}
}

// attributesAt keeps the attributes of interest at i, the end of the name of an element. It returns
// the end of the tag, -1 if the page ends before.
func (r *reader) attributesAt(b []byte, i int) int {
	r.attr = attributes{}
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
		if key < keyEnd {
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
		i = index(b, start, quote)
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
