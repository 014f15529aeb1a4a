package extract

import (
	"io"
	"strings"

	"golang.org/x/net/html"
)

// maxTag is the size of a tag in bytes beyond which the tokenizer is replaced. The tokenizer keeps
// the table of attribute names of the largest tag, and clears it for every tag with attributes.
const maxTag = 4 << 10

// scanner reads a page token by token, with the rules of tree construction that decide which tags
// are elements and which text is raw; see docs/protocol/extract.md.
type scanner struct {
	z      *html.Tokenizer
	in     feed
	text   []byte
	c      *collector
	xml    bool // "/>" ends every element, and CDATA sections are text
	wanted *wantedTable

	raw           bool    // the next token is raw text, or its end
	foreign       int     // number of open svg and math elements
	formOpen      bool    // a form within a form is ignored
	textOf        element // element of the next text token: title, style or other
	hidden        bool    // the next text token is not visible
	templateDepth int     // number of open templates
	attr          attributes
}

func newScanner(text []byte, c *collector, xml bool) *scanner {
	s := &scanner{
		in: feed{rest: text}, text: text, c: c, xml: xml,
		wanted: &wantedTables[c.o.Kinds&(Pages|Media|Forms|Styles)],
	}
	s.z = html.NewTokenizer(&s.in)
	s.z.AllowCDATA(xml)
	return s
}

// run reads the page.
func (s *scanner) run() {
	for {
		s.prepare()
		if !s.token() {
			return
		}
	}
}

// token handles the next token. It returns false at the end.
func (s *scanner) token() bool {
	switch s.z.Next() {
	case html.ErrorToken:
		return false
	case html.StartTagToken:
		s.start(false)
	case html.SelfClosingTagToken:
		s.start(true)
	case html.EndTagToken:
		s.end()
	case html.TextToken:
		if s.textOf != other || s.c.builder != nil {
			s.handleText()
		}
	}
	return true
}

// prepare reads plain tags, if there is nothing for the tokenizer to do before, and prepares it for
// its next token.
func (s *scanner) prepare() {
	s.in.begin()
	if s.raw {
		s.raw = false
		return
	}
	buffered := len(s.z.Buffered())
	if buffered > maxTag { // the tokenizer has read far beyond the end of a large token
		s.replaceTokenizer("")
		buffered = 0
	}
	if buffered == 0 {
		s.readPlain()
	}
}

// start handles a start tag.
func (s *scanner) start(selfClosing bool) {
	size := len(s.z.Raw())
	name, more := s.z.TagName()
	e := elementOf(name)
	s.raw = rulesOf[e].raw && e != noscript && (!selfClosing || !s.xml && s.foreign == 0)
	if !s.raw {
		s.z.NextIsNotRawText()
	}
	s.textOf, s.hidden = other, s.raw && rulesOf[e].hidden
	if s.c.builder != nil {
		s.c.builder.begin(e)
	}
	s.enter(e, selfClosing)
	if !s.raw { // an empty title or style
		s.textOf = other
	}
	if want := (*s.wanted)[e]; want != 0 {
		s.attributes(more, want)
		s.handleElement(e, name)
	}
	switch {
	case size <= maxTag:
	case s.raw:
		s.replaceTokenizer(string(name))
	default:
		s.replaceTokenizer("")
	}
}

// enter records the effect of an element on those that follow.
func (s *scanner) enter(e element, selfClosing bool) {
	switch e {
	case template:
		s.templateDepth++
	case title:
		if s.foreign == 0 {
			s.textOf = e
		}
	case style:
		s.textOf = e
	case svg, math:
		if !selfClosing {
			s.setForeign(s.foreign + 1)
		}
	}
}

// setForeign sets the number of open svg and math elements, which have CDATA sections.
func (s *scanner) setForeign(n int) {
	s.foreign = max(n, 0)
	s.z.AllowCDATA(s.xml || s.foreign > 0)
}

// handleElement passes an element with its attributes to the collector.
func (s *scanner) handleElement(e element, name []byte) {
	switch {
	case e == anchor && s.foreign == 0:
		s.attr.has &^= 1 << xlinkHref
	case e == form && s.formOpen:
		return
	case e == form:
		s.formOpen = s.c.o.Kinds&Forms != 0
	}
	s.c.handleElement(e, elementName(e, name), &s.attr)
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
func (s *scanner) end() {
	if s.textOf == title {
		s.c.setTitle(nil)
	}
	s.textOf, s.hidden = other, false
	name, _ := s.z.TagName()
	s.leave(elementOf(name))
}

// leave records that an element has ended.
func (s *scanner) leave(e element) {
	switch e {
	case form:
		s.formOpen = false
	case template:
		s.templateDepth = max(0, s.templateDepth-1)
	case svg, math:
		s.setForeign(s.foreign - 1)
	}
	if s.c.builder != nil {
		s.c.builder.end(e)
	}
}

// handleText handles a text token.
func (s *scanner) handleText() {
	text := s.z.Text()
	switch {
	case s.textOf == title:
		s.c.setTitle(text)
	case s.textOf == style && s.c.o.Kinds&Styles != 0:
		s.c.addCSS(text, elementNames[style], "")
	}
	if v := s.c.builder; v != nil && !s.hidden && s.templateDepth == 0 {
		v.add(text)
	}
}

// replaceTokenizer continues with a new tokenizer, in the raw text of the element with that name;
// "": in none.
func (s *scanner) replaceTokenizer(name string) {
	s.in.rest = s.text[len(s.text)-len(s.in.rest)-len(s.z.Buffered()):]
	s.z = html.NewTokenizer(&s.in)
	if name != "" {
		s.z = html.NewTokenizer(io.MultiReader(strings.NewReader("<"+name+">"), &s.in))
		s.z.Next()
	}
	s.setForeign(s.foreign)
}

// elementName returns the name of an element in links.
func elementName(e element, name []byte) string {
	if int(e) < len(elementNames) && elementNames[e] != "" {
		return elementNames[e]
	}
	return string(name)
}
