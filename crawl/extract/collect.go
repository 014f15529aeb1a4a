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
	// maxTitle bounds a title, in bytes.
	maxTitle = 512
	// maxReference bounds a reference, in bytes, before it is looked at: what
	// is longer canon refuses anyway.
	maxReference = 8 << 10
	// maxRel bounds how much of a rel attribute is kept, in bytes.
	maxRel = 256
	// maxScratch bounds what a collector keeps for the next page, in entries
	// and bytes.
	maxScratch = 64 << 10
)

// collector gathers what headers and elements contribute.
type collector struct {
	o    Options
	page canon.Base
	doc  Document

	refs    []reference
	text    []byte // that the references stand in
	headers int    // how many references come from headers
	rel     string // of the last reference, to share

	base               string // of the first <base href>
	hasBase, hasTitle  bool
	canonical          string // of the first rel=canonical
	hasCanonical       bool
	canonicalInHeaders bool
	visible            *visible // nil if no text is wanted
}

// reference is a link that waits for the base to be known.
type reference struct {
	start, end              int // in the collector's text
	element, attribute, rel string
}

var collectors = sync.Pool{New: func() any { return new(collector) }}

func newCollector(page store.URL, o Options) *collector {
	c := collectors.Get().(*collector)
	*c = collector{o: o, page: canon.BaseOf(page), refs: c.refs[:0], text: c.text[:0]}
	c.doc.Base = page
	if o.Text > 0 {
		c.visible = newVisible(o.Text)
	}
	return c
}

// free hands the scratch memory on; c must not be used again.
func (c *collector) free() {
	if cap(c.refs) > maxScratch || cap(c.text) > maxScratch*16 {
		return
	}
	clear(c.refs) // lets go of the strings
	*c = collector{refs: c.refs[:0], text: c.text[:0]}
	collectors.Put(c)
}

// mark is the state after the headers; reset goes back to it.
func (c *collector) mark() collector { return *c }

func (c *collector) reset(to collector) {
	refs, text := c.refs[:len(to.refs)], c.text[:len(to.text)]
	*c = to
	c.refs, c.text = refs, text
	if c.visible != nil {
		c.visible = newVisible(c.o.Text)
	}
}

// see takes the elements in document order. It keeps no value of a.
func (c *collector) see(e element, elementName string, a *attributes) {
	switch e {
	case svgAnchor:
		if !c.refer(a, href, elementName) {
			c.refer(a, xlinkHref, elementName)
		}
	case anchor, area:
		c.refer(a, href, elementName)
	case link:
		c.seeLink(a)
	case iframe, frame, audio, track, embed:
		c.refer(a, src, elementName)
	case object:
		c.refer(a, data, elementName)
	case meta:
		c.seeMeta(a)
	case base:
		if v := a.get(href); v != nil && !c.hasBase {
			c.base, c.hasBase = string(trim(v[:min(len(v), maxReference)])), true
		}
	case img, source, video:
		c.refer(a, src, elementName)
		c.refer(a, poster, elementName)
		for ref := range candidates(a.get(srcset)) {
			c.add(ref, elementName, "srcset", "")
		}
	case input:
		if equalFold(trim(a.get(typ)), "image") {
			c.refer(a, src, elementName)
		}
	case form:
		if m := trim(a.get(method)); !equalFold(m, "post") && !equalFold(m, "dialog") && len(trim(a.get(action))) > 0 {
			c.refer(a, action, elementName)
		}
	case graphic:
		c.seeGraphic(a, elementName)
	}
	if css := a.get(styleAttr); css != nil {
		c.seeCSS(css, elementName, "style")
	}
}

// attributeNames are those that hold one reference.
var attributeNames = [unknown]string{
	href: "href", xlinkHref: "xlink:href", src: "src", data: "data", action: "action", poster: "poster",
}

// refer adds the reference of an attribute, if there is one.
func (c *collector) refer(a *attributes, k attribute, elementName string) bool {
	v := a.get(k)
	if v == nil {
		return false
	}
	c.add(v, elementName, attributeNames[k], c.share(a.get(rel)))
	return true
}

// seeGraphic leaves out the parts of the own page.
func (c *collector) seeGraphic(a *attributes, elementName string) {
	k := href
	if a.get(k) == nil {
		k = xlinkHref
	}
	if v := trim(a.get(k)); len(v) > 0 && v[0] != '#' {
		c.refer(a, k, elementName)
	}
}

func (c *collector) seeLink(a *attributes) {
	v := a.get(href)
	if v == nil {
		return
	}
	rel := c.share(a.get(rel))
	if hasToken(rel, "canonical") && !c.hasCanonical {
		c.canonical, c.hasCanonical = string(trim(v[:min(len(v), maxReference)])), true
	}
	if kindOf(rel)&c.o.Kinds != 0 {
		c.add(v, names[link], attributeNames[href], rel)
	}
}

func (c *collector) seeMeta(a *attributes) {
	value := a.get(content)
	if c.o.Kinds&Pages != 0 && equalFold(a.get(httpEquiv), "refresh") {
		if target, ok := refreshTarget(string(value)); ok {
			c.add([]byte(target), names[meta], "content", "")
		}
	}
	if n := trim(a.get(name)); len(n) > 0 && c.listens(string(n)) {
		c.doc.Robots.read(string(value), func(string) bool { return false })
	}
}

// seeCSS adds what a style sheet or declaration refers to.
func (c *collector) seeCSS(css []byte, elementName, attributeName string) {
	for ref := range cssReferences(css) {
		c.add(ref, elementName, attributeName, "")
	}
}

// seeTitle takes the text of a title element of HTML.
func (c *collector) seeTitle(text []byte) {
	if !c.hasTitle {
		v := newVisible(maxTitle)
		v.addLine(text)
		c.doc.Title, c.hasTitle = v.String(), true
	}
}

// share returns a rel attribute, the last one again if it is the same.
func (c *collector) share(rel []byte) string {
	rel = rel[:min(len(rel), maxRel)]
	if string(rel) != c.rel {
		c.rel = strings.ToValidUTF8(string(rel), "\ufffd")
	}
	return c.rel
}

func (c *collector) add(ref []byte, elementName, attributeName, rel string) {
	ref = trim(ref)
	if otherScheme(ref) {
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
	start := len(c.text)
	c.text = append(c.text, ref...)
	c.refs = append(c.refs, reference{start, len(c.text), elementName, attributeName, rel})
}

// document resolves the references. The first base with href holds for the
// whole page, the links before it included (HTML Standard, "document base
// URL"); those of headers are relative to the page itself (RFC 8288, section
// 3.2).
func (c *collector) document() Document {
	base := c.page
	if c.hasBase {
		base = base.Rebase(c.base)
		c.doc.Base, _ = base.Join("")
	}
	if c.hasCanonical {
		from := base
		if c.canonicalInHeaders {
			from = c.page
		}
		c.doc.Canonical, _ = from.Join(c.canonical)
	}
	if len(c.refs) > 0 {
		c.doc.Links = make([]Link, 0, len(c.refs))
	}
	text := string(c.text)
	c.resolve(c.page, text, c.refs[:c.headers])
	c.resolve(base, text, c.refs[c.headers:])
	if c.visible != nil {
		c.doc.Text = c.visible.String()
	}
	return c.doc
}

// resolve makes links of references.
func (c *collector) resolve(base canon.Base, text string, refs []reference) {
	for _, r := range refs {
		ref := text[r.start:r.end]
		u, err := base.Join(ref)
		switch {
		case err == nil:
			if strings.HasPrefix(ref, "http") { // may be part of text: let go of that
				u = store.URL(strings.Clone(string(u)))
			}
			c.doc.Links = append(c.doc.Links, Link{URL: u, Element: r.element, Attribute: r.attribute, Rel: r.rel})
		case !errors.Is(err, canon.ErrScheme):
			c.doc.Invalid++
		}
	}
}

// otherScheme says whether a reference begins with a scheme that is neither
// http nor https. The URL parser would find out too, but slowly.
func otherScheme(ref []byte) bool {
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

// trim drops the white space of HTML at both ends.
func trim(s []byte) []byte {
	for len(s) > 0 && isSpace(s[0]) {
		s = s[1:]
	}
	for len(s) > 0 && isSpace(s[len(s)-1]) {
		s = s[:len(s)-1]
	}
	return s
}

func isSpace(b byte) bool { return b == ' ' || b == '\n' || b == '\t' || b == '\r' || b == '\f' }

// whiteSpace is HTML's: ASCII only.
const whiteSpace = " \t\n\f\r"

// equalFold compares with a short word.
func equalFold(b []byte, word string) bool {
	return len(b) == len(word) && bytes.EqualFold(b, []byte(word))
}
