package sitemap

import (
	"encoding/xml"
	"io"
	"strings"

	"peerd/crawl/canon"
)

const (
	// maxDepth is the maximum depth of elements.
	maxDepth = 64
	// maxStray is the maximum number of elements before the root, such as warnings of a broken
	// generator.
	maxStray = 8
	// maxText is the maximum length of a text in bytes: canon accepts no longer URL.
	maxText = 6 << 10
	// maxURLBytes is the length of the URLs of a document, together, after which no more are taken:
	// references with a long base take more memory than the document.
	maxURLBytes = 24 << 20
)

// parser parses one document.
type parser struct {
	o    Options
	base canon.Base
	src  *source
	doc  Doc
	buf  []byte

	urlBytes int // length of the URLs in doc

	open  []xml.Name // names of the open elements, in lower case
	stray int        // elements before the root
	done  bool

	rootDepth  int    // depth of the root, 0 before it
	rootPrefix string // of its name

	entryDepth int // depth of the open entry, 0 outside
	entry      rawEntry

	text      field // that is being read
	textDepth int   // depth of its element
}

// parseXML handles the elements until the root is closed. It keeps its own stack of open elements,
// because in the decoder one stray end tag closes all of them.
func (p *parser) parseXML() {
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

// start handles a start tag.
func (p *parser) start(t xml.StartElement) {
	name := lower(t.Name)
	// The previous entry was not closed.
	if p.entryDepth > 0 && len(p.open) == p.entryDepth && name == p.open[p.entryDepth-1] {
		p.pop(p.entryDepth)
	}
	if len(p.open) == maxDepth {
		p.doc.Truncated, p.done = true, true
		return
	}
	p.open = append(p.open, name)
	t.Name.Space = name.Space
	switch depth := len(p.open); {
	case p.rootDepth == 0:
		p.findRoot(t, name.Local)
	case p.entryDepth == 0 && p.opensEntry(t, name.Local):
		p.entryDepth, p.entry = depth, newRawEntry(t, p.base)
	case p.entryDepth > 0 && depth == p.entryDepth+1:
		p.text, p.textDepth = p.entry.fieldOf(p.doc.Kind, t, name.Local), depth
		p.buf = p.buf[:0]
	}
}

// end handles an end tag: it closes the innermost element of its name with all elements in it. It
// does nothing if there is no such element.
func (p *parser) end(name xml.Name) {
	for i := len(p.open); i > 0; i-- {
		if p.open[i-1] == name {
			p.pop(i)
			return
		}
	}
}

// pop closes the open elements at depth and below.
func (p *parser) pop(depth int) {
	if p.text != noField && depth <= p.textDepth {
		p.entry.set(p.text, strings.TrimSpace(string(p.buf)))
		p.text = noField
	}
	if depth <= p.entryDepth {
		p.flush()
	}
	p.open = p.open[:depth-1]
	p.done = p.rootDepth != 0 && depth <= p.rootDepth
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
	p.rootDepth, p.rootPrefix = len(p.open), t.Name.Space
	p.base = rebase(p.base, t)
}

// opensEntry reports whether an element is an entry: a child of the root, or of the channel of a
// feed. Entries of sitemaps and of Atom have the prefix of the root, or none: which namespaces the
// prefixes stand for is not looked at.
func (p *parser) opensEntry(t xml.StartElement, name string) bool {
	level := len(p.open) - p.rootDepth
	own := t.Name.Space == p.rootPrefix || t.Name.Space == ""
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
	if p.entryDepth == 0 {
		return
	}
	// An entry that was cut before its URL may be valid.
	if p.entry.url() != "" || !p.doc.Truncated {
		p.add(p.entry, p.open[p.entryDepth-1].Local == "sitemap")
	}
	p.entryDepth, p.text = 0, noField
}
