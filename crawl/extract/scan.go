package extract

import (
	"bytes"
	"io"
	"strings"

	"golang.org/x/net/html"
)

// maxTag is how long a tag may be before the tokenizer is replaced, in bytes.
// The tokenizer keeps the table of attribute names of the largest tag, and
// clears it for every tag that has attributes.
const maxTag = 4 << 10

// caution is what a scanner does where tree construction might find other
// links than the tokens show.
type caution uint8

const (
	wary  caution = iota // stop
	firm                 // go on: take the tokens as they are
	asXML                // go on; "/>" ends every element, and CDATA is text
)

// scanner reads a page token by token. It follows what tree construction does
// to the tokenizer, and gives up where it cannot: see doc.go.
type scanner struct {
	z       *html.Tokenizer
	input   *bytes.Reader
	text    []byte
	c       *collector
	caution caution
	wants   *wantedBy

	foreign  openElements // of SVG and MathML
	template bool         // there was one
	table    bool         // there was one
	formOpen bool
	awaited  element // what the next text token is of: title, style or other
	hidden   bool    // the next text token is not shown
	inert    int     // depth of templates
	css      []byte  // of a style element of SVG, so far
	attr     attributes
}

func newScanner(text []byte, c *collector, how caution) *scanner {
	in := bytes.NewReader(text)
	s := &scanner{z: html.NewTokenizer(in), input: in, text: text, c: c, caution: how, wants: &wants[c.o.Kinds&(Pages|Media|Forms|Styles)]}
	s.z.AllowCDATA(how == asXML)
	return s
}

// run reads all. It returns false when it has given up.
func (s *scanner) run() bool {
	for {
		switch s.z.Next() {
		case html.ErrorToken:
			s.endCSS() // of a style element that is cut off
			return true
		case html.StartTagToken:
			if !s.start(false) {
				return false
			}
		case html.SelfClosingTagToken:
			if !s.start(true) {
				return false
			}
		case html.EndTagToken:
			if !s.end() {
				return false
			}
		case html.TextToken:
			if s.awaited != other || s.c.visible != nil {
				s.seeText()
			}
		}
	}
}

// start takes a start tag.
func (s *scanner) start(selfClosing bool) bool {
	tag := s.z.Raw()
	size := len(tag)
	name, more := s.z.TagName()
	if s.foreign.depth() > 0 {
		return s.startForeign(name, more, selfClosing, size)
	}
	e := elementOf(name)
	if e == anchor && s.caution != wary { // perhaps of SVG
		e = svgAnchor
	}
	raw := isRaw(name) && e != noscript && !(s.caution == asXML && selfClosing)
	if !raw {
		s.z.NextIsNotRawText()
	}
	s.awaited, s.hidden = other, raw && isHidden(name)
	if s.c.visible != nil {
		s.c.visible.separate(breakOf(name))
	}
	if e != other && !s.enter(e, name, selfClosing) {
		return false
	}
	if want := (*s.wants)[e]; want != 0 {
		if e == anchor && !mentionsRel(tag) { // spares reading what follows href
			want &^= 1 << rel
		}
		if s.attributes(more, want); !s.see(e, name) {
			return false
		}
	}
	if size > maxTag {
		s.renew(string(name), raw)
	}
	return true
}

// enter does what an element changes for those that follow. It returns false
// where only a tree tells what they are.
func (s *scanner) enter(e element, name []byte, selfClosing bool) bool {
	sure := true
	switch e {
	case frameset:
		sure = false
	case col:
		sure = !s.template
	case template:
		s.template = true
		s.inert++
	case table:
		s.table = true
	case title:
		sure = !s.c.hasTitle || !s.table
		s.awaited = e
	case style:
		s.awaited = e
	case svg, math:
		if !selfClosing && s.caution == wary {
			s.foreign.push(name)
			s.z.AllowCDATA(true)
		}
	}
	return sure || s.caution != wary
}

// see hands an element over whose attributes are known.
func (s *scanner) see(e element, name []byte) bool {
	if s.caution == wary {
		switch e {
		case base:
			// Content of tables that belongs before them may come first.
			if s.table && s.c.hasBase && s.attr.get(href) != nil {
				return false
			}
		case link:
			if s.table && s.c.hasCanonical && hasToken(string(s.attr.get(rel)), "canonical") {
				return false
			}
		case frame: // counts in framesets only
			return true
		case form:
			if s.template {
				return false
			}
			if s.formOpen { // forms do not nest: the inner one is ignored
				return true
			}
			s.formOpen = s.c.o.Kinds&Forms != 0
		}
	}
	s.c.see(e, elementName(e, name), &s.attr)
	return true
}

// attributes reads those of the tag that are wanted.
func (s *scanner) attributes(more bool, want uint16) {
	s.attr.has = 0
	var key, val []byte
	for left := want; more && left != 0; {
		key, val, more = s.z.TagAttr()
		if k := attributeOf(key); left&(1<<k) != 0 {
			s.attr.set(k, val)
			left &^= 1 << k
		}
	}
}

// end takes an end tag.
func (s *scanner) end() bool {
	if s.awaited == title {
		s.c.seeTitle(nil)
	}
	s.awaited, s.hidden = other, false
	foreign := s.foreign.depth() > 0
	if !foreign && s.c.visible == nil && !s.formOpen {
		return true
	}
	name, _ := s.z.TagName()
	switch {
	case foreign:
		return s.endForeign(name)
	case string(name) == "form":
		s.formOpen = false
	case string(name) == "template" && s.inert > 0:
		s.inert--
	}
	if s.c.visible != nil {
		s.c.visible.separate(breakOf(name))
	}
	return true
}

// seeText takes a text token.
func (s *scanner) seeText() {
	text := s.z.Text()
	switch {
	case s.awaited == title:
		s.c.seeTitle(text)
	case s.awaited == style && s.foreign.depth() > 0:
		s.css = append(s.css, text...)
	case s.awaited == style && s.c.o.Kinds&Styles != 0:
		s.c.seeCSS(text, names[style], "")
	}
	if v := s.c.visible; v != nil && !s.hidden && s.inert == 0 {
		v.add(text)
	}
}

// renew goes on with a new tokenizer. raw says that it is in the raw text of
// the element of that name.
func (s *scanner) renew(name string, raw bool) {
	rest := s.text[len(s.text)-s.input.Len()-len(s.z.Buffered()):]
	s.input = bytes.NewReader(rest)
	if raw {
		s.z = html.NewTokenizer(io.MultiReader(strings.NewReader("<"+name+">"), s.input))
		s.z.Next()
	} else {
		s.z = html.NewTokenizer(s.input)
	}
	s.z.AllowCDATA(s.foreign.depth() > 0 || s.caution == asXML)
}

// mentionsRel says whether a tag may have an attribute rel. It looks for the
// last letter first, and moves on by as much as the letter found allows.
func mentionsRel(tag []byte) bool {
	for i := 2; i < len(tag); {
		switch tag[i] | 0x20 {
		case 'l':
			if tag[i-1]|0x20 == 'e' && tag[i-2]|0x20 == 'r' {
				return true
			}
			i += 3
		case 'e':
			i++
		case 'r':
			i += 2
		default:
			i += 3
		}
	}
	return false
}

// isRaw says whether the tokenizer takes what follows as text.
func isRaw(name []byte) bool {
	switch string(name) {
	case "iframe", "noembed", "noframes", "noscript", "plaintext", "script", "style", "textarea", "title", "xmp":
		return true
	}
	return false
}

// elementName is the name in links.
func elementName(e element, name []byte) string {
	if int(e) < len(names) && names[e] != "" {
		return names[e]
	}
	return string(name)
}
