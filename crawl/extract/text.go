package extract

import (
	"bytes"
	"unicode/utf8"
)

// textBuilder builds text: white space is collapsed to one space, or to one newline where a block
// begins or ends.
type textBuilder struct {
	buf   []byte
	limit int
	gap   byte // separator before the next word: 0, ' ' or '\n'
	full  bool

	heading  int      // start of the open heading in buf; -1: none is open
	headings [][2]int // start and end in buf of those that have ended

	anchor  anchorText   // the open anchor; ref is -1 if none is open
	anchors []anchorText // those that have ended
}

// anchorText is the place of the text of an anchor in textBuilder.buf.
type anchorText struct{ ref, start, end int }

// maxHeadings is the number of headings that are kept of a page.
const maxHeadings = 256

func newTextBuilder(limit int) *textBuilder {
	v := new(textBuilder)
	v.reset(limit)
	return v
}

// reset prepares v for another text. It keeps the memory.
func (v *textBuilder) reset(limit int) {
	*v = textBuilder{buf: v.buf[:0], limit: limit, heading: -1, headings: v.headings[:0],
		anchor: anchorText{ref: -1}, anchors: v.anchors[:0]}
}

// begin handles the start of an element.
func (v *textBuilder) begin(e element) {
	v.separate(rulesOf[e].gap)
	if e == heading {
		v.endHeading()
		v.heading = len(v.buf)
	}
}

// end handles the end of an element.
func (v *textBuilder) end(e element) {
	v.separate(rulesOf[e].gap)
	switch e {
	case anchor:
		v.endAnchor()
	case heading:
		v.endHeading()
	}
}

// beginAnchor handles an anchor, by the number of its reference. It ends the open one: anchors do
// not contain others.
func (v *textBuilder) beginAnchor(ref int) {
	v.endAnchor()
	v.anchor = anchorText{ref: ref, start: len(v.buf)}
}

func (v *textBuilder) endAnchor() {
	if a := v.anchor; a.ref >= 0 && len(v.buf) > a.start {
		a.end = len(v.buf)
		v.anchors = append(v.anchors, a)
	}
	v.anchor.ref = -1
}

func (v *textBuilder) endHeading() {
	if v.heading >= 0 && len(v.headings) < maxHeadings {
		v.headings = append(v.headings, [2]int{v.heading, len(v.buf)})
	}
	v.heading = -1
}

// Headings returns the headings, one a line, in at most maxHeadingBytes.
func (v *textBuilder) Headings() string {
	all := newTextBuilder(maxHeadingBytes)
	for _, h := range v.headings {
		all.addLine(v.buf[h[0]:h[1]])
	}
	return all.String()
}

// maxHeadingBytes is the length of all headings of a page together.
const maxHeadingBytes = 8 << 10

// add appends text.
func (v *textBuilder) add(text []byte) { v.addWords(text, ' ') }

// addLine appends text as a separate line.
func (v *textBuilder) addLine(text []byte) {
	v.separate('\n')
	v.addWords(text, ' ')
	v.separate('\n')
}

// addWords appends text; newline replaces white space that contains a newline.
func (v *textBuilder) addWords(text []byte, newline byte) {
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
		n = plainWords(text)
		v.addWord(text[:n])
		text = text[n:]
	}
}

// plainWords returns the length of the words that text begins with and that have single spaces
// between them.
func plainWords(text []byte) int {
	for n, b := range text {
		if isSpace(b) && (b != ' ' || n+1 == len(text) || isSpace(text[n+1])) {
			return n
		}
	}
	return len(text)
}

// separate adds a separator before the next word; a newline has precedence over a space.
func (v *textBuilder) separate(gap byte) {
	if len(v.buf) > 0 && v.gap != '\n' && gap != 0 {
		v.gap = gap
	}
}

// addWord appends a word, or several with single spaces between them.
func (v *textBuilder) addWord(w []byte) {
	if v.gap != 0 {
		v.buf = append(v.buf, v.gap)
		v.gap = 0
	}
	// An invalid byte grows to three bytes.
	v.buf = append(v.buf, w[:min(len(w), v.limit+utf8.UTFMax)]...)
	v.full = len(v.buf) > v.limit
}

// String returns the text in UTF-8, cut at the limit between two characters.
func (v *textBuilder) String() string {
	return cutText(v.buf, v.limit)
}

// cutText returns text in UTF-8, without white space at its ends, cut at the limit between two
// characters.
func cutText(text []byte, limit int) string {
	if !utf8.Valid(text) {
		text = bytes.ToValidUTF8(text, []byte("\ufffd")) // a copy
	}
	s := bytes.TrimLeft(text, whiteSpace)
	if len(s) > limit {
		cut := limit
		for cut > 0 && !utf8.RuneStart(s[cut]) {
			cut--
		}
		s = s[:cut]
	}
	return string(bytes.TrimRight(s, whiteSpace))
}

// Text returns the text of a text/plain body and the name of its encoding. White space is collapsed
// as in Document.Text, except that line ends are kept. The text has at most limit bytes.
func Text(body []byte, contentType string, limit int) (text, charset string) {
	decoded, charset := decode(body, contentType, false)
	v := newTextBuilder(limit)
	v.addWords(decoded, '\n')
	return v.String(), charset
}
