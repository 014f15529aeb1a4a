package extract

import (
	"errors"
	"net/http"
	"strings"
	"time"

	"peerd/store"
)

// ErrNotHTML is returned for a Content-Type that is not HTML's.
var ErrNotHTML = errors.New("extract: not HTML")

// DefaultMaxLinks bounds the references of one page. Indexes of thousands of
// links exist, hundreds of thousands are traps.
const DefaultMaxLinks = 10_000

// Kinds is a set of kinds of references.
type Kinds uint8

// The kinds. What an object or embed shows is more often a film or a font than
// a page, so both are Media.
const (
	// Pages are a, area and link with href (link not if its rel names what is
	// no page), iframe and frame with src, meta refresh, a in SVG, and the Link
	// and Refresh headers.
	Pages Kinds = 1 << iota
	// Media are img, source, video, audio, track, embed, object, input of type
	// image, the image, use and feImage of SVG, and icons.
	Media
	// Forms are the actions of forms that are sent with GET.
	Forms
	// Styles are style sheets, and what CSS in style elements and attributes
	// refers to with url() and @import.
	Styles
)

// Options of HTML and Page. The zero value is what the crawler needs.
type Options struct {
	// MaxLinks bounds the references that are resolved; 0 is DefaultMaxLinks.
	MaxLinks int
	// Kinds are the references wanted; 0 is Pages.
	Kinds Kinds
	// Agent is the own product token, in any case: robots directives for this
	// agent hold as those for all do. "" is nobody's.
	Agent string
	// Text is how much text Document.Text may hold, in bytes; 0 is none.
	Text int
}

func (o Options) withDefaults() Options {
	if o.MaxLinks <= 0 {
		o.MaxLinks = DefaultMaxLinks
	}
	if o.Kinds == 0 {
		o.Kinds = Pages
	}
	return o
}

// Link is a reference to another resource.
type Link struct {
	URL store.URL
	// Element and Attribute say where the reference stood, in lower case: "a"
	// and "href"; a refresh is "meta" and "content"; the content of a style
	// element is "style" and ""; the headers are "http" and "link" or
	// "refresh".
	Element, Attribute string
	Rel                string // the rel attribute as it is written
}

// HasRel says whether rel has that token, in any case.
func (l Link) HasRel(token string) bool { return hasToken(l.Rel, token) }

// NoFollow says whether rel asks crawlers not to follow. HasRel tells of the
// weaker "ugc" and "sponsored".
func (l Link) NoFollow() bool { return l.HasRel("nofollow") }

// Robots is what a page asks of crawlers, by <meta name="robots"> and the
// X-Robots-Tag header: the sum of all that is said to all and to the own
// agent. Directives of other names are ignored.
type Robots struct {
	NoIndex, NoFollow, NoArchive bool
	// UnavailableAfter is when the page should leave the index, the earliest
	// if there are several; zero is never.
	UnavailableAfter time.Time
}

// Document is what a page holds and says about itself.
type Document struct {
	// Links are the references in document order, as often as they occur,
	// those of the headers first.
	Links []Link
	// Title is the text of <title>, white space collapsed, at most 512 bytes.
	Title string
	// Text is the visible text; see Options.Text.
	Text string
	// Base is what references resolve against, "" if that is no http URL.
	Base store.URL
	// Canonical is the target of the first rel=canonical, "" without one.
	Canonical store.URL
	Robots    Robots
	// Charset is the name of the encoding, as in the Encoding Standard and in
	// lower case.
	Charset string
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
	switch mediaType(contentType) {
	case "", "text/html", xhtml:
		return true
	}
	return false
}

const xhtml = "application/xhtml+xml"

func mediaType(contentType string) string {
	if i := strings.IndexAny(contentType, ";,"); i >= 0 {
		contentType = contentType[:i]
	}
	return strings.ToLower(strings.TrimSpace(contentType))
}

// HTML is Page for a page of which only the Content-Type is known.
func HTML(body []byte, contentType string, page store.URL, o Options) (Document, error) {
	if !IsHTML(contentType) {
		return Document{}, ErrNotHTML
	}
	c := newCollector(page, o.withDefaults())
	defer c.free()
	c.read(body, contentType)
	return c.document(), nil
}

// Page reads an answer: its body, and of its header Content-Type, Link,
// Refresh and X-Robots-Tag. The body may be cut off anywhere and is not
// changed. The only error is ErrNotHTML: every body has a meaning. The
// Document then has what the headers say.
func Page(body []byte, header http.Header, page store.URL, o Options) (Document, error) {
	c := newCollector(page, o.withDefaults())
	defer c.free()
	c.seeHeader(header)
	contentType := header.Get("Content-Type")
	if !IsHTML(contentType) {
		return c.document(), ErrNotHTML
	}
	c.read(body, contentType)
	return c.document(), nil
}

// read goes through the body.
func (c *collector) read(body []byte, contentType string) {
	text, charset := decode(body, contentType)
	c.doc.Charset = charset
	if mediaType(contentType) == xhtml {
		newScanner(text, c, asXML).run()
		return
	}
	mark := c.mark()
	if newScanner(text, c, wary).run() {
		return
	}
	c.reset(mark)
	if fitsTree(text) && c.readTree(text) {
		return
	}
	c.reset(mark)
	newScanner(text, c, firm).run()
}
