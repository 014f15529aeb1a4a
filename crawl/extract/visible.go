package extract

import (
	"bytes"
	"unicode/utf8"
)

// visible builds text: white space collapsed to one blank, or to one newline
// where a block begins or ends.
type visible struct {
	buf  []byte
	most int
	gap  byte // what stands before the next word: 0, ' ' or '\n'
	full bool
}

func newVisible(most int) *visible { return &visible{most: most} }

// add appends running text.
func (v *visible) add(text []byte) { v.words(text, ' ') }

// addLine appends running text, white space at its ends dropped.
func (v *visible) addLine(text []byte) {
	v.separate('\n')
	v.words(text, ' ')
	v.separate('\n')
}

// words appends text; newline is what a gap with a line end becomes.
func (v *visible) words(text []byte, newline byte) {
	for !v.full && len(text) > 0 {
		n := 0
		for n < len(text) && isSpace(text[n]) {
			n++
		}
		if n > 0 {
			v.separate(' ')
			if newline != ' ' && bytes.IndexByte(text[:n], '\n') >= 0 {
				v.separate(newline)
			}
			text = text[n:]
			continue
		}
		for n < len(text) && !isSpace(text[n]) {
			n++
		}
		v.word(text[:n])
		text = text[n:]
	}
}

// separate parts what was added from what will be; a newline is stronger.
func (v *visible) separate(gap byte) {
	if len(v.buf) > 0 && v.gap != '\n' && gap != 0 {
		v.gap = gap
	}
}

func (v *visible) word(w []byte) {
	if v.gap != 0 {
		v.buf = append(v.buf, v.gap)
		v.gap = 0
	}
	// A byte that is no UTF-8 grows to three.
	v.buf = append(v.buf, w[:min(len(w), v.most+utf8.UTFMax)]...)
	v.full = len(v.buf) > v.most
}

// String returns the text in UTF-8, cut to its limit between characters.
func (v *visible) String() string {
	s := bytes.ToValidUTF8(v.buf, []byte("\ufffd"))
	if len(s) > v.most {
		cut := v.most
		for cut > 0 && !utf8.RuneStart(s[cut]) {
			cut--
		}
		s = s[:cut]
	}
	return string(bytes.TrimRight(s, whiteSpace))
}

// Text returns the text of a text/plain body and the name of its encoding:
// white space collapsed like that of Document.Text, line ends kept, at most
// most bytes.
func Text(body []byte, contentType string, most int) (text, charset string) {
	decoded, charset := decodePlain(body, contentType)
	v := newVisible(most)
	v.words(decoded, '\n')
	return v.String(), charset
}

// breakOf is what an element separates the text around it by: 0 for nothing.
func breakOf(element []byte) byte {
	switch string(element) {
	case "address", "article", "aside", "blockquote", "body", "br", "caption", "center", "dd", "details", "dialog", "dir", "div", "dl", "dt",
		"fieldset", "figcaption", "figure", "footer", "form", "h1", "h2", "h3", "h4", "h5", "h6", "head", "header", "hgroup", "hr", "html",
		"legend", "li", "listing", "main", "menu", "nav", "ol", "optgroup", "option", "p", "plaintext", "pre", "search", "section",
		"select", "summary", "table", "tbody", "textarea", "tfoot", "thead", "title", "tr", "ul", "xmp":
		return '\n'
	case "button", "img", "image", "input", "td", "th":
		return ' '
	}
	return 0
}

// isHidden says whether the text of an element is none of the page.
func isHidden(element []byte) bool {
	switch string(element) {
	case "script", "style", "template", "iframe", "noembed", "noframes":
		return true
	}
	return false
}
