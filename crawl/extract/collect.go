package extract

import (
	"errors"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/html"

	"peerd/crawl/canon"
)

// maxTitle bounds a title, in bytes.
const maxTitle = 512

// collector gathers what the elements of one page contribute.
type collector struct {
	page     canon.Base
	most     int
	refs     []reference
	base     string // of the first <base href>
	hasBase  bool
	hasTitle bool
	doc      Document
}

// reference is a link that waits for the base to be known.
type reference struct {
	text string
	link Link
}

// see takes the elements in document order.
func (c *collector) see(n *html.Node) {
	switch n.Data {
	case "a", "area":
		c.refer(n, "href")
	case "link":
		if rel, _ := attribute(n, "rel"); followed(rel) {
			c.refer(n, "href")
		}
	case "iframe", "frame":
		c.refer(n, "src")
	case "meta":
		c.seeMeta(n)
	case "base":
		if href, ok := attribute(n, "href"); ok && !c.hasBase {
			c.base, c.hasBase = href, true
		}
	case "title":
		if n.Namespace == "" && !c.hasTitle { // SVG has titles too
			c.doc.Title, c.hasTitle = titleText(n), true
		}
	}
}

func (c *collector) seeMeta(n *html.Node) {
	content, _ := attribute(n, "content")
	if equiv, _ := attribute(n, "http-equiv"); strings.EqualFold(equiv, "refresh") {
		if target, ok := refreshTarget(content); ok {
			c.add(target, Link{Element: "meta", Attribute: "content"})
		}
	}
	if name, _ := attribute(n, "name"); strings.EqualFold(trim(name), "robots") {
		content = strings.ReplaceAll(content, ",", " ")
		none := hasToken(content, "none")
		c.doc.NoFollow = c.doc.NoFollow || none || hasToken(content, "nofollow")
		c.doc.NoIndex = c.doc.NoIndex || none || hasToken(content, "noindex")
	}
}

func (c *collector) refer(n *html.Node, attr string) {
	if text, ok := attribute(n, attr); ok {
		rel, _ := attribute(n, "rel")
		c.add(text, Link{Element: n.Data, Attribute: attr, Rel: rel})
	}
}

func (c *collector) add(text string, l Link) {
	if len(c.refs) == c.most {
		c.doc.Dropped++
		return
	}
	c.refs = append(c.refs, reference{trim(text), l})
}

// document resolves the references. The first base with href holds for the
// whole page, the links before it included (HTML Standard, "document base
// URL").
func (c *collector) document() Document {
	base := c.page
	if c.hasBase {
		base = base.Rebase(trim(c.base))
	}
	for _, r := range c.refs {
		u, err := base.Join(r.text)
		switch {
		case err == nil:
			r.link.URL = u
			c.doc.Links = append(c.doc.Links, r.link)
		case !errors.Is(err, canon.ErrScheme):
			c.doc.Invalid++
		}
	}
	return c.doc
}

// attribute returns the first attribute of that name, of any name space: SVG
// writes links as xlink:href.
func attribute(n *html.Node, key string) (string, bool) {
	for _, a := range n.Attr {
		if a.Key == key {
			return a.Val, true
		}
	}
	return "", false
}

// trim drops the white space of HTML at both ends.
func trim(s string) string { return strings.Trim(s, whiteSpace) }

// whiteSpace is HTML's: ASCII only.
const whiteSpace = " \t\n\f\r"

func titleText(n *html.Node) string {
	var text strings.Builder
	for child := range n.ChildNodes() {
		if child.Type == html.TextNode {
			text.WriteString(child.Data)
		}
	}
	s := strings.Join(strings.Fields(strings.ToValidUTF8(text.String(), "\ufffd")), " ")
	if len(s) > maxTitle {
		cut := maxTitle
		for !utf8.RuneStart(s[cut]) {
			cut--
		}
		s = s[:cut]
	}
	return s
}
