package extract

import (
	"bytes"
	"errors"
	"strings"

	"golang.org/x/net/html"

	"peerd/crawl/canon"
	"peerd/store"
)

// ErrNotHTML is returned for a Content-Type that is not HTML's.
var ErrNotHTML = errors.New("extract: not HTML")

// DefaultMaxLinks bounds the references of one page. Indexes of thousands of
// links exist, hundreds of thousands are traps.
const DefaultMaxLinks = 10_000

// Options of HTML.
type Options struct {
	// MaxLinks bounds the references that are resolved; 0 is DefaultMaxLinks.
	MaxLinks int
}

// Link is a reference to another page.
type Link struct {
	URL store.URL
	// Element and Attribute say where the reference stood, in lower case:
	// "a" and "href"; a refresh is "meta" and "content".
	Element, Attribute string
	Rel                string // the rel attribute as it is written
}

// NoFollow says whether rel asks crawlers not to follow.
func (l Link) NoFollow() bool { return hasToken(l.Rel, "nofollow") }

// Document is what HTML found.
type Document struct {
	// Links are the references in document order, as often as they occur.
	Links []Link
	// Title is the text of <title>, white space collapsed, at most 512 bytes.
	Title string
	// NoFollow and NoIndex are what <meta name="robots"> asks for.
	NoFollow, NoIndex bool
	// Invalid counts references that cannot be a URL of this crawler: no
	// syntax, too long, with credentials. Other schemes than http and https
	// are not counted.
	Invalid int
	// Dropped counts the references beyond MaxLinks.
	Dropped int
}

// IsHTML says whether a Content-Type is one that HTML reads. An absent one is:
// servers that send none mostly send HTML.
func IsHTML(contentType string) bool {
	media := contentType
	if i := strings.IndexAny(media, ";,"); i >= 0 {
		media = media[:i]
	}
	switch strings.ToLower(strings.TrimSpace(media)) {
	case "", "text/html", "application/xhtml+xml":
		return true
	}
	return false
}

// HTML finds the links of a page. The body may be cut off anywhere. The only
// error is ErrNotHTML: every body has a meaning.
func HTML(body []byte, contentType string, page store.URL, o Options) (Document, error) {
	if !IsHTML(contentType) {
		return Document{}, ErrNotHTML
	}
	if o.MaxLinks <= 0 {
		o.MaxLinks = DefaultMaxLinks
	}
	c := collector{page: canon.BaseOf(page), most: o.MaxLinks}
	text := decode(body, contentType)
	root, err := html.ParseWithOptions(bytes.NewReader(text), html.ParseOptionEnableScripting(false))
	if err != nil { // nested too deeply
		scan(text, c.see)
	} else {
		for n := range root.Descendants() {
			if n.Type == html.ElementNode {
				c.see(n)
			}
		}
	}
	return c.document(), nil
}

// scan hands over start tags one by one as nodes without a tree.
func scan(text []byte, see func(*html.Node)) {
	z := html.NewTokenizer(bytes.NewReader(text))
	for {
		switch z.Next() {
		case html.ErrorToken:
			return
		case html.StartTagToken, html.SelfClosingTagToken:
			t := z.Token()
			if t.Data == "noscript" {
				z.NextIsNotRawText()
			}
			see(&html.Node{Type: html.ElementNode, Data: t.Data, DataAtom: t.DataAtom, Attr: t.Attr})
		}
	}
}
