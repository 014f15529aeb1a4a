package extract

import (
	"bytes"
	"errors"
	"strings"
	"sync"

	"peerd/crawl/canon"
	"peerd/store"
)

const (
	// maxTitle is the maximum length of a title in bytes.
	maxTitle = 512
	// maxReference is the maximum length of a reference in bytes; canon rejects longer ones anyway.
	maxReference = 8 << 10
	// maxReferences is the maximum length of all references together in bytes: it takes up to a
	// microsecond for each to make URLs of them, if they are not plain.
	maxReferences = 2 << 20
	// maxRel is the maximum length of a stored rel attribute in bytes.
	maxRel = 256
	// maxScratch is the maximum size of the memory that a collector keeps for the next page, in
	// entries; the limit for text is 16 times as many bytes.
	maxScratch = 64 << 10
)

// collector collects what the headers and elements of a page contribute.
type collector struct {
	o    Options
	page canon.Base
	host string // of the page
	doc  Document
	// query encodes queries; nil for UTF-8.
	query *queryEncoder

	refs       []reference
	text       []byte // contains the references
	headerRefs int    // number of references from headers
	linkBytes  int    // length of the URLs of doc.Links
	rel        string // of the last reference, to be shared

	base                string // of the first <base href>
	hasBase, hasTitle   bool
	canonical           string // of the first rel=canonical
	hasCanonical        bool
	canonicalFromHeader bool
	builder             *textBuilder // nil if no text is requested
	spare               *textBuilder // builder, or that of another page
}

// reference is a link that is resolved when the base is known.
type reference struct {
	start, end              int // in collector.text
	element, attribute, rel string
	textStart, textEnd      int // of an anchor, in textBuilder.buf
}

// inCSS reports whether the reference is in a style element or attribute.
func (r reference) inCSS() bool {
	return r.attribute == "style" || r.element == elementNames[style]
}

var collectors = sync.Pool{New: func() any { return new(collector) }}

func newCollector(page store.URL, o Options) *collector {
	c := collectors.Get().(*collector)
	*c = collector{o: o, page: canon.BaseOf(page), host: page.Host(), refs: c.refs[:0],
		text: c.text[:0], spare: c.spare}
	c.doc.Base = page
	if o.Text > 0 {
		if c.spare == nil {
			c.spare = new(textBuilder)
		}
		c.builder = c.spare
		c.builder.reset(o.Text)
	}
	return c
}

// release returns the memory of c for reuse; c must not be used afterwards.
func (c *collector) release() {
	if cap(c.refs) > maxScratch || cap(c.text) > maxScratch*16 {
		return
	}
	if c.spare != nil && cap(c.spare.buf) > maxScratch*16 {
		c.spare = nil
	}
	clear(c.refs) // releases the strings
	*c = collector{refs: c.refs[:0], text: c.text[:0], spare: c.spare}
	collectors.Put(c)
}

// handleElement handles the elements in document order. It keeps no value of a.
func (c *collector) handleElement(e element, elementName string, a *attributes) {
	switch e {
	case anchor, area:
		c.handleAnchor(e, elementName, a)
	case link:
		c.handleLink(a)
	case iframe, frame, audio, track, embed:
		c.addAttribute(a, src, elementName)
	case object:
		c.addAttribute(a, data, elementName)
	case meta:
		c.handleMeta(a)
	case base:
		if v := a.get(href); v != nil && !c.hasBase {
			c.base, c.hasBase = string(trim(v[:min(len(v), maxReference)])), true
		}
	case img, source, video:
		c.addAttribute(a, src, elementName)
		c.addAttribute(a, poster, elementName)
		for ref := range srcsetURLs(a.get(srcset)) {
			c.add(ref, elementName, "srcset", "")
		}
	case input:
		if equalFold(trim(a.get(typ)), "image") {
			c.addAttribute(a, src, elementName)
		}
	case form:
		c.handleForm(a, elementName)
	case image, graphic:
		c.handleGraphic(a, elementName)
	}
	if css := a.get(styleAttr); css != nil {
		c.addCSS(css, elementName, "style")
	}
}

// handleAnchor handles an anchor or area. The text of an anchor begins here.
func (c *collector) handleAnchor(e element, elementName string, a *attributes) {
	known := len(c.refs)
	if !c.addAttribute(a, href, elementName) {
		c.addAttribute(a, xlinkHref, elementName) // of SVG
	}
	if e == anchor && c.builder != nil && len(c.refs) > known {
		c.builder.beginAnchor(known)
	}
}

// attributeNames are the names of the attributes that contain one reference.
var attributeNames = [unknown]string{
	href: "href", xlinkHref: "xlink:href", src: "src", data: "data", action: "action",
	poster: "poster",
}

// addAttribute adds the reference of an attribute, if there is one.
func (c *collector) addAttribute(a *attributes, k attribute, elementName string) bool {
	v := a.get(k)
	if v == nil {
		return false
	}
	c.add(v, elementName, attributeNames[k], c.internRel(a.get(rel)))
	return true
}

// handleGraphic handles an element of SVG that may refer to parts of the page itself, which are not
// added, or an image of HTML, which browsers take for img.
func (c *collector) handleGraphic(a *attributes, elementName string) {
	c.addAttribute(a, src, elementName)
	k := href
	if a.get(k) == nil {
		k = xlinkHref
	}
	if v := trim(a.get(k)); len(v) > 0 && v[0] != '#' {
		c.addAttribute(a, k, elementName)
	}
}

// handleForm adds the action of a form with method GET.
func (c *collector) handleForm(a *attributes, elementName string) {
	m := trim(a.get(method))
	if !equalFold(m, "post") && !equalFold(m, "dialog") && len(trim(a.get(action))) > 0 {
		c.addAttribute(a, action, elementName)
	}
}

func (c *collector) handleLink(a *attributes) {
	v := a.get(href)
	if v == nil {
		return
	}
	rel := c.internRel(a.get(rel))
	if hasToken(rel, "canonical") && !c.hasCanonical {
		c.canonical, c.hasCanonical = string(trim(v[:min(len(v), maxReference)])), true
	}
	if kindOf(rel)&c.o.Kinds != 0 {
		c.add(v, elementNames[link], attributeNames[href], rel)
	}
}

func (c *collector) handleMeta(a *attributes) {
	value := a.get(content)
	if c.o.Kinds&Pages != 0 && equalFold(a.get(httpEquiv), "refresh") {
		if target, ok := refreshTarget(string(value)); ok {
			c.add([]byte(target), elementNames[meta], "content", "")
		}
	}
	if n := trim(a.get(name)); len(n) > 0 && c.appliesTo(string(n)) {
		c.doc.Robots.parse(string(value), func(string) bool { return false })
	}
}

// addCSS adds the references of a style sheet or of declarations.
func (c *collector) addCSS(css []byte, elementName, attributeName string) {
	for ref := range cssReferences(css) {
		c.add(ref, elementName, attributeName, "")
	}
}

// setTitle sets the title to the text of the first title element of HTML.
func (c *collector) setTitle(text []byte) {
	if !c.hasTitle {
		v := newTextBuilder(maxTitle)
		v.addLine(text)
		c.doc.Title, c.hasTitle = v.String(), true
	}
}

// internRel returns a rel attribute as a string, which it shares with the last one if they are
// equal.
func (c *collector) internRel(rel []byte) string {
	rel = rel[:min(len(rel), maxRel)]
	if string(rel) != c.rel {
		c.rel = strings.ToValidUTF8(string(rel), "\ufffd")
	}
	return c.rel
}

func (c *collector) add(ref []byte, elementName, attributeName, rel string) {
	ref = trim(ref)
	if hasOtherScheme(ref) {
		return
	}
	if len(c.refs) == c.o.MaxLinks {
		c.doc.Dropped++
		return
	}
	if len(ref) > maxReference {
		c.doc.Invalid++
		return
	}
	if len(c.text)+len(ref) > maxReferences {
		c.doc.Dropped++
		return
	}
	start := len(c.text)
	c.text = append(c.text, ref...)
	c.refs = append(c.refs, reference{start: start, end: len(c.text),
		element: elementName, attribute: attributeName, rel: rel})
}

// document resolves the references. The first base with href applies to the whole page, including
// the links before it (HTML Standard, "document base URL"). References in headers are relative to
// the page itself (RFC 8288, section 3.2). The encoding of the page applies neither to them nor to
// references in CSS.
func (c *collector) document() Document {
	base := c.page
	if c.hasBase {
		base = base.Rebase(c.query.encode(c.base))
		c.doc.Base, _ = base.Join("")
	}
	if c.hasCanonical {
		from, ref := base, c.query.encode(c.canonical)
		if c.canonicalFromHeader {
			from, ref = c.page, c.canonical
		}
		c.doc.Canonical, _ = from.Join(ref)
	}
	if len(c.refs) > 0 {
		c.doc.Links = make([]Link, 0, len(c.refs))
	}
	if c.builder != nil {
		for _, l := range c.builder.anchors {
			c.refs[l.ref].textStart, c.refs[l.ref].textEnd = l.start, l.end
		}
	}
	text := string(c.text)
	c.resolve(c.page, nil, text, c.refs[:c.headerRefs])
	c.resolve(base, c.query, text, c.refs[c.headerRefs:])
	if c.builder != nil {
		c.doc.Text, c.doc.Headings = c.builder.String(), c.builder.Headings()
	}
	return c.doc
}

// resolve appends the links of refs.
func (c *collector) resolve(
	base canon.Base, query *queryEncoder, text string, refs []reference,
) {
	for i, r := range refs {
		if c.linkBytes > MaxLinkBytes-canon.MaxLength { // the next might not fit
			c.doc.Dropped += len(refs) - i
			return
		}
		ref := text[r.start:r.end]
		if !r.inCSS() {
			ref = query.encode(ref)
		}
		u, err := base.Join(ref)
		switch {
		case err == nil:
			if strings.HasPrefix(ref, "http") { // u may share memory with text
				u = store.URL(strings.Clone(string(u)))
			}
			l := Link{URL: u, Element: r.element, Attribute: r.attribute, Rel: r.rel}
			if r.textEnd > r.textStart && u.Host() != c.host {
				l.Text = cutText(c.builder.buf[r.textStart:r.textEnd], MaxLinkText)
			}
			c.doc.Links = append(c.doc.Links, l)
			c.linkBytes += len(u)
		case !errors.Is(err, canon.ErrScheme):
			c.doc.Invalid++
		}
	}
}

// hasOtherScheme reports whether a reference begins with a scheme other than http and https. The
// URL parser would detect that as well, but slowly.
func hasOtherScheme(ref []byte) bool {
	for i, b := range ref {
		switch {
		case 'a' <= b|0x20 && b|0x20 <= 'z':
		case i > 0 && ('0' <= b && b <= '9' || b == '+' || b == '-' || b == '.'):
		case i > 0 && b == ':':
			return !equalFold(ref[:i], "http") && !equalFold(ref[:i], "https")
		default:
			return false
		}
	}
	return false
}

// trim removes HTML white space at both ends.
func trim(s []byte) []byte { return bytes.Trim(s, whiteSpace) }

func isSpace(b byte) bool {
	return b <= ' ' && (b == ' ' || b == '\n' || b == '\t' || b == '\r' || b == '\f')
}

// whiteSpace is the ASCII white space of HTML.
const whiteSpace = " \t\n\f\r"

// equalFold reports whether b is word in any letter case.
func equalFold(b []byte, word string) bool {
	return len(b) == len(word) && bytes.EqualFold(b, []byte(word))
}
