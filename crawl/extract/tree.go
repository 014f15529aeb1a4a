package extract

import (
	"bytes"
	"strings"

	"golang.org/x/net/html"
)

const (
	// maxTree is the maximum size in bytes of a page that is parsed into a tree.
	maxTree = 1 << 20
	// smallTree is the size in bytes up to which the cost of any tree is acceptable.
	smallTree = 8 << 10
	// maxReopened is the maximum number of formatting elements that tree construction may reopen
	// ("reconstruct the active formatting elements").
	maxReopened = 1 << 18
	// maxRoots is the maximum number of html and body tags: the attributes of each are compared
	// with those of all tags before.
	maxRoots = 16
)

// readTree reads a page from the tree that browsers build with scripting disabled. It returns false
// if the parser rejects the page.
func (c *collector) readTree(text []byte) bool {
	root, err := html.ParseWithOptions(bytes.NewReader(text),
		html.ParseOptionEnableScripting(false))
	if err != nil { // nested too deeply
		return false
	}
	w := walker{c: c, wanted: &wantedTables[c.o.Kinds&(Pages|Media|Forms|Styles)]}
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

// walker traverses a tree in document order.
type walker struct {
	c           *collector
	wanted      *wantedTable
	hiddenDepth int // number of open elements with hidden text
	attr        attributes
}

// enter handles a node before its children.
func (w *walker) enter(n *html.Node) {
	switch n.Type {
	case html.TextNode:
		if w.c.builder != nil && w.hiddenDepth == 0 {
			w.c.builder.add([]byte(n.Data))
		}
	case html.ElementNode:
		w.handleElement(n)
		if w.c.builder != nil && n.Namespace == "" {
			w.c.builder.begin([]byte(n.Data))
		}
		if isHidden([]byte(n.Data)) {
			w.hiddenDepth++
		}
	}
}

// leave handles a node after its children.
func (w *walker) leave(n *html.Node) {
	if n.Type == html.ElementNode {
		if w.c.builder != nil && n.Namespace == "" {
			w.c.builder.end([]byte(n.Data))
		}
		if isHidden([]byte(n.Data)) {
			w.hiddenDepth--
		}
	}
}

func (w *walker) handleElement(n *html.Node) {
	name := []byte(strings.ToLower(n.Data))
	e := other
	switch n.Namespace {
	case "":
		e = elementOf(name)
	case "svg":
		e = elementOfSVG(name)
	}
	if want := (*w.wanted)[e]; want != 0 {
		w.attributes(n, want)
		w.c.handleElement(e, elementName(e, name), &w.attr)
	}
	switch {
	case e == title:
		w.c.setTitle(ownText(n))
	case e == style && w.c.o.Kinds&Styles != 0:
		w.c.addCSS(ownText(n), elementNames[style], "")
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

// ownText returns the text of the children of a node.
func ownText(n *html.Node) (text []byte) {
	for child := range n.ChildNodes() {
		if child.Type == html.TextNode {
			text = append(text, child.Data...)
		}
	}
	return text
}

// isSafeForTree reports whether the time and memory of tree construction are linear in the size of
// the page. A few bytes can cause it to reopen hundreds of formatting elements thousands of times.
func isSafeForTree(text []byte) bool {
	if len(text) <= smallTree {
		return true
	}
	if len(text) > maxTree {
		return false
	}
	var f formatting
	roots := 0
	foreign := false // after SVG or MathML, raw text elements may have children
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

// formatting computes an upper bound of the number of formatting elements that are reopened. An
// element that ends before any element of another kind begins or ends cannot be reopened.
type formatting struct {
	run      []weightedElement // opened since the last other element
	open     int               // weight of all elements that may be open
	reopened int               // sum of open over all tokens
}

type weightedElement struct {
	name   string
	weight int
}

func (f *formatting) start(name []byte, size int) {
	switch {
	case isFormatting(name):
		e := weightedElement{string(name), 1 + size/32}
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
	case "a", "b", "big", "code", "em", "font", "i", "nobr", "s", "small", "strike", "strong", "tt",
		"u":
		return true
	}
	return false
}

// isPlain reports whether an element has no special rule in tree construction, or is empty.
func isPlain(name []byte) bool {
	switch string(name) {
	case "abbr", "br", "cite", "img", "kbd", "q", "samp", "span", "sub", "sup", "var":
		return true
	}
	return false
}
