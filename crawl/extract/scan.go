package extract

import (
	"io"
	"strings"

	"golang.org/x/net/html"
)

// maxTag is the size of a tag in bytes beyond which the tokenizer is replaced. The tokenizer keeps
// the table of attribute names of the largest tag, and clears it for every tag with attributes.
const maxTag = 4 << 10

// scanMode is how a scanner proceeds where the tokens may not determine the links.
type scanMode uint8

const (
	modeStrict  scanMode = iota // stop, so that a tree is built
	modeLenient                 // continue with the tokens
	modeXML                     // continue; "/>" ends every element, and CDATA is text
)

// scanner reads a page token by token. It applies the rules of tree construction that affect the
// tokenizer, and stops where they are not sufficient; see docs/protocol/extract.md.
type scanner struct {
	z      *html.Tokenizer
	in     feed
	text   []byte
	c      *collector
	mode   scanMode
	wanted *wantedTable

	raw           bool         // the next token is raw text, or its end
	foreign       openElements // of SVG and MathML
	sawTemplate   bool
	sawTable      bool
	formOpen      bool
	textOf        element // element of the next text token: title, style or other
	hidden        bool    // the next text token is not visible
	templateDepth int     // number of open templates
	css           []byte  // of a style element of SVG, so far
	attr          attributes
}

func newScanner(text []byte, c *collector, mode scanMode) *scanner {
	s := &scanner{
		in: feed{rest: text}, text: text, c: c, mode: mode,
		wanted: &wantedTables[c.o.Kinds&(Pages|Media|Forms|Styles)],
	}
	s.z = html.NewTokenizer(&s.in)
	s.z.AllowCDATA(mode == modeXML)
	return s
}

// run reads the page. It returns false if it stopped early.
func (s *scanner) run() bool {
	for {
		if !s.prepare() {
			return false
		}
		switch s.z.Next() {
		case html.ErrorToken:
			s.endCSS() // of a style element that is not closed
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
			if s.textOf != other || s.c.builder != nil {
				s.handleText()
			}
		}
	}
}

// prepare reads plain tags, if there is nothing for the tokenizer to do before, and prepares it for
// its next token. It returns false if a tree is needed.
func (s *scanner) prepare() bool {
	s.in.begin()
	if s.raw {
		s.raw = false
		return true
	}
	buffered := len(s.z.Buffered())
	if buffered > maxTag { // the tokenizer has read far beyond the end of a large token
		s.replaceTokenizer("", false)
		buffered = 0
	}
	if buffered > 0 || s.foreign.depth() > 0 {
		return true
	}
	return s.readPlain()
}

// start handles a start tag.
func (s *scanner) start(selfClosing bool) bool {
	size := len(s.z.Raw())
	name, more := s.z.TagName()
	if s.foreign.depth() > 0 {
		return s.startForeign(name, more, selfClosing, size)
	}
	e := s.anchorOf(elementOf(name))
	s.raw = isRaw(name) && e != noscript && (s.mode != modeXML || !selfClosing)
	if !s.raw {
		s.z.NextIsNotRawText()
	}
	s.textOf, s.hidden = other, s.raw && isHidden(name)
	if s.c.builder != nil {
		s.c.builder.begin(name)
	}
	if !s.enter(e, name, selfClosing) {
		return false
	}
	if !s.raw { // an empty title or style of XML
		s.textOf = other
	}
	if want := (*s.wanted)[e]; want != 0 {
		if s.attributes(more, want); !s.handleElement(e, name) {
			return false
		}
	}
	if size > maxTag {
		s.replaceTokenizer(string(name), s.raw)
	}
	return true
}

// anchorOf returns e, or svgAnchor for an anchor that may be one of SVG.
func (s *scanner) anchorOf(e element) element {
	if e == anchor && s.mode != modeStrict {
		return svgAnchor
	}
	return e
}

// enter records the effect of an element on those that follow. It returns false if a tree is needed
// to determine it.
func (s *scanner) enter(e element, name []byte, selfClosing bool) bool {
	sure := true
	switch e {
	case frameset:
		sure = false
	case col:
		sure = !s.sawTemplate
	case template:
		s.sawTemplate = true
		s.templateDepth++
	case table:
		s.sawTable = true
	case title:
		sure = !s.c.hasTitle || !s.sawTable
		s.textOf = e
	case style:
		s.textOf = e
	case svg, math:
		if !selfClosing && s.mode == modeStrict {
			s.foreign.push(name)
			s.z.AllowCDATA(true)
		}
	}
	return sure || s.mode != modeStrict
}

// handleElement passes an element with its attributes to the collector. It returns false if a tree
// is needed.
func (s *scanner) handleElement(e element, name []byte) bool {
	if s.mode == modeStrict {
		switch e {
		case base:
			// Tree construction moves misplaced content of a table to before the table.
			if s.sawTable && s.c.hasBase && s.attr.get(href) != nil {
				return false
			}
		case link:
			if s.sawTable && s.c.hasCanonical && hasToken(string(s.attr.get(rel)), "canonical") {
				return false
			}
		case frame: // valid only in framesets
			return true
		case form:
			if s.sawTemplate {
				return false
			}
			if s.formOpen { // a form within a form is ignored
				return true
			}
			s.formOpen = s.c.o.Kinds&Forms != 0
		}
	}
	s.c.handleElement(e, elementName(e, name), &s.attr)
	return true
}

// attributes reads the wanted attributes of the tag.
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

// end handles an end tag.
func (s *scanner) end() bool {
	if s.textOf == title {
		s.c.setTitle(nil)
	}
	s.textOf, s.hidden = other, false
	foreign := s.foreign.depth() > 0
	if !foreign && s.c.builder == nil && !s.formOpen {
		return true
	}
	name, _ := s.z.TagName()
	if foreign {
		return s.endForeign(name)
	}
	s.endForm(name)
	s.endText(name)
	return true
}

// endText records that an element has ended, for the text of the page.
func (s *scanner) endText(name []byte) {
	if string(name) == "template" && s.templateDepth > 0 {
		s.templateDepth--
	}
	if s.c.builder != nil {
		s.c.builder.end(name)
	}
}

// endForm closes the open form at its end tag.
func (s *scanner) endForm(name []byte) {
	if string(name) == "form" {
		s.formOpen = false
	}
}

// handleText handles a text token.
func (s *scanner) handleText() {
	text := s.z.Text()
	switch {
	case s.textOf == title:
		s.c.setTitle(text)
	case s.textOf == style && s.foreign.depth() > 0:
		s.css = append(s.css, text...)
	case s.textOf == style && s.c.o.Kinds&Styles != 0:
		s.c.addCSS(text, elementNames[style], "")
	}
	if v := s.c.builder; v != nil && !s.hidden && s.templateDepth == 0 {
		v.add(text)
	}
}

// replaceTokenizer continues with a new tokenizer. With raw, it continues in the raw text of the
// element with that name.
func (s *scanner) replaceTokenizer(name string, raw bool) {
	s.in.rest = s.text[len(s.text)-len(s.in.rest)-len(s.z.Buffered()):]
	if raw {
		s.z = html.NewTokenizer(io.MultiReader(strings.NewReader("<"+name+">"), &s.in))
		s.z.Next()
	} else {
		s.z = html.NewTokenizer(&s.in)
	}
	s.z.AllowCDATA(s.foreign.depth() > 0 || s.mode == modeXML)
}

// isRaw reports whether the tokenizer treats the content of an element as text.
func isRaw(name []byte) bool {
	switch string(name) {
	case "iframe", "noembed", "noframes", "noscript", "plaintext", "script", "style", "textarea",
		"title", "xmp":
		return true
	}
	return false
}

// elementName returns the name of an element in links.
func elementName(e element, name []byte) string {
	if int(e) < len(elementNames) && elementNames[e] != "" {
		return elementNames[e]
	}
	return string(name)
}
