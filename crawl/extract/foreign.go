package extract

import "bytes"

// openElements is a stack of the names of open elements.
type openElements struct {
	names  []byte
	starts []int
}

// maxForeign is the maximum depth of SVG and MathML elements. Parsers stop at 512 elements.
const maxForeign = 256

func (o *openElements) depth() int { return len(o.starts) }

func (o *openElements) push(name []byte) {
	o.starts = append(o.starts, len(o.names))
	o.names = append(o.names, name...)
}

func (o *openElements) top() []byte { return o.names[o.starts[len(o.starts)-1]:] }

func (o *openElements) pop() {
	last := len(o.starts) - 1
	o.names = o.names[:o.starts[last]]
	o.starts = o.starts[:last]
}

// startForeign handles a start tag in SVG or MathML (HTML Standard, section 13.2.6.5). Every
// element is kept there, and none has raw text.
func (s *scanner) startForeign(name []byte, more, selfClosing bool, size int) bool {
	if s.foreign.depth() == maxForeign || breaksOut(name) || isIntegrationPoint(s.foreign.top()) ||
		string(s.foreign.top()) == "style" {
		return false
	}
	s.z.NextIsNotRawText()
	s.textOf, s.hidden = other, isHidden(name)
	mathML := bytes.Equal(s.foreign.names[:s.foreign.end(0)], []byte("math"))
	e := other
	if !mathML {
		e = elementOfSVG(name)
	}
	if !selfClosing {
		s.foreign.push(name)
		if e == style && s.c.o.Kinds&Styles != 0 {
			s.textOf = style
		}
	}
	if want := (*s.wanted)[e]; want != 0 {
		s.attributes(more, want)
		s.c.handleElement(e, elementName(e, name), &s.attr)
	}
	if size > maxTag {
		s.replaceTokenizer("", false)
	}
	return true
}

// end returns the index of the end of the name of an open element.
func (o *openElements) end(i int) int {
	if i+1 < len(o.starts) {
		return o.starts[i+1]
	}
	return len(o.names)
}

// endForeign handles an end tag in SVG or MathML. It returns false unless it ends the innermost
// element.
func (s *scanner) endForeign(name []byte) bool {
	if !bytes.Equal(name, s.foreign.top()) {
		return false
	}
	if string(name) == "style" {
		s.endCSS()
	}
	s.foreign.pop()
	if s.foreign.depth() == 0 {
		s.z.AllowCDATA(false)
	}
	return true
}

// endCSS handles the content of a style element of SVG, if there is any.
func (s *scanner) endCSS() {
	if len(s.css) > 0 {
		s.c.addCSS(s.css, elementNames[style], "")
		s.css = s.css[:0]
	}
}

// isIntegrationPoint reports whether the elements within this one may be HTML.
func isIntegrationPoint(name []byte) bool {
	switch string(name) {
	case "title", "desc", "foreignobject", "mi", "mo", "mn", "ms", "mtext", "annotation-xml":
		return true
	}
	return false
}

// breaksOut reports whether a start tag may end all SVG and MathML around it. The font element does
// so only with certain attributes.
func breaksOut(name []byte) bool {
	switch string(name) {
	case "b", "big", "blockquote", "body", "br", "center", "code", "dd", "div", "dl", "dt", "em",
		"embed", "font", "h1", "h2", "h3", "h4", "h5", "h6", "head", "hr", "i", "img", "li",
		"listing", "menu", "meta", "nobr", "ol", "p", "pre", "ruby", "s", "small", "span",
		"strong", "strike", "sub", "sup", "table", "tt", "u", "ul", "var":
		return true
	}
	return false
}
