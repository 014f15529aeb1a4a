package sitemap

import (
	"encoding/xml"
	"io"
	"strings"

	"peerd/crawl/canon"
)

const (
	// maxDepth bounds how deep elements may lie.
	maxDepth = 64
	// maxScopes bounds the namespaces that are declared at one place.
	maxScopes = 256
	// maxStray is how many elements may stand before the root, such as the
	// warnings of a broken generator.
	maxStray = 8
	// maxText bounds the texts that are read, in bytes: canon takes no longer
	// URL.
	maxText = 6 << 10
)

// parser walks over one document.
type parser struct {
	o    Options
	base canon.Base
	src  *source
	doc  Doc
	buf  []byte

	open   []xml.Name // raw names of the open elements, lower case
	scopes []scope
	stray  int // elements before the root
	done   bool

	root  int    // depth of the root, 0 before it
	space string // namespace of the root

	in    int // depth of the open entry, 0 outside
	entry raw

	text   field // whose text is being read
	textIn int   // depth of its element
}

// scope is a namespace declaration, in force below depth.
type scope struct {
	prefix, space string
	depth         int
}

// xml walks over the elements until the root is closed. It keeps the open
// elements itself: the decoder's own count lets one stray end tag close all.
func (p *parser) xml() {
	d := xml.NewDecoder(p.src)
	d.Strict = false
	d.CharsetReader = func(_ string, r io.Reader) (io.Reader, error) { return r, nil }
	for !p.done {
		p.src.left = maxToken
		token, err := d.RawToken()
		if err != nil {
			p.doc.Truncated = true
			break
		}
		switch t := token.(type) {
		case xml.StartElement:
			p.start(t)
		case xml.CharData:
			if p.text != noField {
				p.buf = append(p.buf, t[:min(len(t), maxText+1-len(p.buf))]...)
			}
		case xml.EndElement:
			p.end(lower(t.Name))
		}
	}
	p.flush()
}

func lower(n xml.Name) xml.Name {
	return xml.Name{Space: strings.ToLower(n.Space), Local: strings.ToLower(n.Local)}
}

// start takes a start tag.
func (p *parser) start(t xml.StartElement) {
	name := lower(t.Name)
	if p.in > 0 && len(p.open) == p.in && name == p.open[p.in-1] { // the last entry was left open
		p.pop(p.in)
	}
	if len(p.open) == maxDepth {
		p.doc.Truncated, p.done = true, true
		return
	}
	p.open = append(p.open, name)
	p.declare(t)
	t.Name.Space = p.resolve(t.Name.Space)
	switch depth := len(p.open); {
	case p.root == 0:
		p.findRoot(t, name.Local)
	case p.in == 0 && p.opensEntry(t, name.Local):
		p.in, p.entry = depth, newRaw(t, p.base)
	case p.in > 0 && depth == p.in+1:
		p.text, p.textIn = p.entry.fieldOf(p.doc.Kind, t, name.Local), depth
		p.buf = p.buf[:0]
	}
}

// end takes an end tag: it closes the innermost element of its name with all
// in it, and nothing if there is none.
func (p *parser) end(name xml.Name) {
	for i := len(p.open); i > 0; i-- {
		if p.open[i-1] == name {
			p.pop(i)
			return
		}
	}
}

// pop closes the open elements from a depth on.
func (p *parser) pop(depth int) {
	if p.text != noField && depth <= p.textIn {
		p.entry.set(p.text, strings.TrimSpace(string(p.buf)))
		p.text = noField
	}
	if depth <= p.in {
		p.flush()
	}
	p.open = p.open[:depth-1]
	for n := len(p.scopes); n > 0 && p.scopes[n-1].depth >= depth; n-- {
		p.scopes = p.scopes[:n-1]
	}
	p.done = p.root != 0 && depth <= p.root
}

// declare notes the namespaces that the tag of the innermost element declares.
func (p *parser) declare(t xml.StartElement) {
	for _, a := range t.Attr {
		prefix, is := "", a.Name.Space == "" && a.Name.Local == "xmlns"
		if a.Name.Space == "xmlns" {
			prefix, is = a.Name.Local, true
		}
		if is && len(p.scopes) < maxScopes {
			p.scopes = append(p.scopes, scope{prefix, a.Value, len(p.open)})
		}
	}
}

// resolve returns the namespace of a prefix, itself if it is not declared.
func (p *parser) resolve(prefix string) string {
	for i := len(p.scopes) - 1; i >= 0; i-- {
		if p.scopes[i].prefix == prefix {
			return p.scopes[i].space
		}
	}
	return prefix
}

func (p *parser) findRoot(t xml.StartElement, name string) {
	switch name {
	case "urlset":
		p.doc.Kind = URLSet
	case "sitemapindex":
		p.doc.Kind = Index
	case "rss", "rdf":
		p.doc.Kind = RSS
	case "feed":
		p.doc.Kind = Atom
	default:
		p.stray++
		p.done = name == "html" || p.stray > maxStray
		return
	}
	p.root, p.space = len(p.open), t.Name.Space
	p.base = rebase(p.base, t)
}

// opensEntry says whether an element is an entry: a child of the root, or of
// the channel of a feed. Entries of maps and of Atom are in the namespace of
// the root, or in none.
func (p *parser) opensEntry(t xml.StartElement, name string) bool {
	level := len(p.open) - p.root
	own := t.Name.Space == p.space || t.Name.Space == ""
	switch p.doc.Kind {
	case RSS:
		return level <= 2 && name == "item"
	case Atom:
		return level == 1 && name == "entry" && own
	default: // some tools mix pages and maps
		return level == 1 && (name == "url" || name == "sitemap") && own
	}
}

// flush ends the open entry.
func (p *parser) flush() {
	if p.in == 0 {
		return
	}
	// An entry that breaks off before its URL is not known to be invalid.
	if p.entry.url() != "" || !p.doc.Truncated {
		p.add(p.entry, p.open[p.in-1].Local == "sitemap")
	}
	p.in, p.text = 0, noField
}
