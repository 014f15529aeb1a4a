package extract

import (
	"bytes"
	"strings"

	"golang.org/x/net/html"
)

const (
	// maxTree bounds the pages that are parsed into a tree, in bytes.
	maxTree = 1 << 20
	// smallTree is how small a page must be to be harmless whatever it holds,
	// in bytes.
	smallTree = 8 << 10
	// maxReopened bounds the formatting elements that tree construction may
	// open again ("reconstruct the active formatting elements").
	maxReopened = 1 << 18
	// maxRoots bounds the html and body tags: the attributes of each are
	// compared with those of all before.
	maxRoots = 16
)

// readTree collects from the tree that browsers build with scripting off. It
// returns false for what the parser does not take.
func (c *collector) readTree(text []byte) bool {
	root, err := html.ParseWithOptions(bytes.NewReader(text), html.ParseOptionEnableScripting(false))
	if err != nil { // nested too deeply
		return false
	}
	w := walker{c: c, wants: &wants[c.o.Kinds&(Pages|Media|Forms|Styles)]}
	for n := root; ; {
		w.enter(n)
		if n.FirstChild != nil {
			n = n.FirstChild
			continue
		}
		for n != root && n.NextSibling == nil {
			w.leave(n)
			n = n.Parent
		}
		w.leave(n)
		if n == root {
			return true
		}
		n = n.NextSibling
	}
}

// walker goes through a tree in document order.
type walker struct {
	c     *collector
	wants *wantedBy
	mute  int // depth of elements whose text is hidden
	attr  attributes
}

// enter takes a node before its children.
func (w *walker) enter(n *html.Node) {
	switch n.Type {
	case html.TextNode:
		if w.c.visible != nil && w.mute == 0 {
			w.c.visible.add([]byte(n.Data))
		}
	case html.ElementNode:
		w.element(n)
		w.space(n)
		if isHidden([]byte(n.Data)) {
			w.mute++
		}
	}
}

// leave takes a node after its children.
func (w *walker) leave(n *html.Node) {
	if n.Type == html.ElementNode {
		w.space(n)
		if isHidden([]byte(n.Data)) {
			w.mute--
		}
	}
}

func (w *walker) space(n *html.Node) {
	if w.c.visible != nil && n.Namespace == "" {
		w.c.visible.separate(breakOf([]byte(n.Data)))
	}
}

func (w *walker) element(n *html.Node) {
	name := []byte(strings.ToLower(n.Data))
	e := other
	switch n.Namespace {
	case "":
		e = elementOf(name)
	case "svg":
		e = elementOfSVG(name)
	}
	if want := (*w.wants)[e]; want != 0 {
		w.attributes(n, want)
		w.c.see(e, elementName(e, name), &w.attr)
	}
	switch {
	case e == title:
		w.c.seeTitle(ownText(n))
	case e == style && w.c.o.Kinds&Styles != 0:
		w.c.seeCSS(ownText(n), names[style], "")
	}
}

func (w *walker) attributes(n *html.Node, want uint16) {
	w.attr.has = 0
	for _, a := range n.Attr {
		key := a.Key
		if a.Namespace != "" {
			key = a.Namespace + ":" + key
		}
		if k := attributeOf([]byte(key)); want&(1<<k) != 0 && w.attr.has&(1<<k) == 0 {
			w.attr.set(k, []byte(a.Val))
		}
	}
}

// ownText is the text of a node's children.
func ownText(n *html.Node) (text []byte) {
	for child := range n.ChildNodes() {
		if child.Type == html.TextNode {
			text = append(text, child.Data...)
		}
	}
	return text
}

// fitsTree says whether tree construction is sure to be linear in time and
// memory. A dozen bytes can make it open hundreds of formatting elements
// again, a thousand times over.
func fitsTree(text []byte) bool {
	if len(text) <= smallTree {
		return true
	}
	if len(text) > maxTree {
		return false
	}
	var f formatting
	roots := 0
	foreign := false // there was SVG or MathML: raw text may be none
	raw := false
	z := html.NewTokenizer(bytes.NewReader(text))
	for {
		tt := z.Next()
		size := len(z.Raw())
		after := raw
		raw = false
		switch tt {
		case html.ErrorToken:
			return true
		case html.TextToken:
			if foreign && after && bytes.IndexByte(z.Raw(), '<') >= 0 {
				return false
			}
		case html.CommentToken:
			if foreign && bytes.HasPrefix(z.Raw(), []byte("<![CDATA[")) {
				return false
			}
		case html.StartTagToken, html.SelfClosingTagToken:
			name, _ := z.TagName()
			switch string(name) {
			case "html", "body":
				roots++
			case "svg", "math":
				foreign = true
			case "noscript":
				z.NextIsNotRawText()
			default:
				raw = isRaw(name)
			}
			if size > maxTag {
				return false
			}
			f.start(name, size)
		case html.EndTagToken:
			name, _ := z.TagName()
			f.end(name)
		}
		f.reopened += f.open
		if roots > maxRoots || f.reopened > maxReopened {
			return false
		}
	}
}

// formatting estimates from above how many formatting elements are open again
// and again. One that ends before any other kind of element begins or ends is
// surely gone.
type formatting struct {
	run      []weighed // those that began since the last other element
	open     int       // weight of all that may be open
	reopened int       // sum of open over the tokens
}

type weighed struct {
	name   string
	weight int
}

func (f *formatting) start(name []byte, size int) {
	switch {
	case isFormatting(name):
		e := weighed{string(name), 1 + size/32}
		f.run = append(f.run, e)
		f.open += e.weight
	case !isPlain(name):
		f.run = f.run[:0]
	}
}

func (f *formatting) end(name []byte) {
	if !isFormatting(name) {
		if !isPlain(name) {
			f.run = f.run[:0]
		}
		return
	}
	last := len(f.run) - 1
	if last < 0 || f.run[last].name != string(name) {
		f.run = f.run[:0]
		return
	}
	f.open -= f.run[last].weight
	f.run = f.run[:last]
}

func isFormatting(name []byte) bool {
	switch string(name) {
	case "a", "b", "big", "code", "em", "font", "i", "nobr", "s", "small", "strike", "strong", "tt", "u":
		return true
	}
	return false
}

// isPlain says whether an element has no rule of its own in tree construction,
// or is empty.
func isPlain(name []byte) bool {
	switch string(name) {
	case "abbr", "br", "cite", "img", "kbd", "q", "samp", "span", "sub", "sup", "var":
		return true
	}
	return false
}
