package extract

import (
	"errors"
	"net/http"
	"strings"
	"time"

	"peerd/store"
)

// ErrNotHTML means that the Content-Type is not that of HTML.
var ErrNotHTML = errors.New("extract: not HTML")

// DefaultMaxLinks is the default of Options.MaxLinks. Indexes with thousands of links exist; pages
// with hundreds of thousands are crawler traps.
const DefaultMaxLinks = 10_000

// MaxLinkBytes is the maximum length of all URLs of Document.Links together. Pages have at most a
// few megabytes, so only one with a very long base URL can exceed it: each link repeats that.
const MaxLinkBytes = 12 << 20

// Kinds is a set of kinds of references.
type Kinds uint8

// The kinds of references. An object or embed element is Media, because most of them refer to
// videos or fonts rather than pages.
const (
	// Pages are a, area and link with href (link unless its rel names something other than a page),
	// iframe and frame with src, meta refresh, a in SVG, and the Link and Refresh headers.
	Pages Kinds = 1 << iota
	// Media are img, source, video, audio, track, embed, object, input of type image, the elements
	// image, use and feImage of SVG, and icons.
	Media
	// Forms are the actions of forms with method GET.
	Forms
	// Styles are style sheets, and the targets of url() and @import in style elements and
	// attributes.
	Styles
)

// Options are the options of HTML and Page. The zero value suits the crawler.
type Options struct {
	// MaxLinks is the maximum number of references that are resolved; 0 means DefaultMaxLinks.
	MaxLinks int
	// Kinds are the references to return; 0 means Pages.
	Kinds Kinds
	// Agent is the product token of the crawler, in any letter case: robots directives for this
	// agent apply in addition to those for all agents. "" matches no agent.
	Agent string
	// Text is the maximum length of Document.Text in bytes; 0 disables it, the headings and the
	// texts of links.
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
	// Element and Attribute are the place of the reference, in lower case: for example "a" and
	// "href". A refresh is "meta" and "content", the content of a style element is "style" and "",
	// and the headers are "http" and "link" or "refresh".
	Element, Attribute string
	Rel                string // the rel attribute, unchanged
	// Text is the visible text between the tags of an anchor that refers to another host, cut to
	// MaxLinkText bytes; see Options.Text.
	Text string
}

// MaxLinkText is the maximum length of Link.Text in bytes.
const MaxLinkText = 80

// HasRel reports whether rel contains a token, in any letter case.
func (l Link) HasRel(token string) bool { return hasToken(l.Rel, token) }

// NoFollow reports whether rel asks crawlers not to follow the link. The weaker "ugc" and
// "sponsored" are available with HasRel.
func (l Link) NoFollow() bool { return l.HasRel("nofollow") }

// Robots are the directives of a page for crawlers in <meta name="robots"> and the X-Robots-Tag
// header: the union of the directives for all agents and for Options.Agent. Unknown directives are
// ignored.
type Robots struct {
	NoIndex, NoFollow, NoArchive bool
	// UnavailableAfter is the earliest time after which the page should not be in an index; zero if
	// there is none.
	UnavailableAfter time.Time
}

// MayIndex reports whether the page may be in an index at a time.
func (r Robots) MayIndex(at time.Time) bool {
	return !r.NoIndex && (r.UnavailableAfter.IsZero() || at.Before(r.UnavailableAfter))
}

// Document is the content of a page and its statements about itself.
type Document struct {
	// Links are the references in document order, with repetitions. Those of the headers come
	// first.
	Links []Link
	// Title is the text of <title>, with white space collapsed, at most 512 bytes.
	Title string
	// Text is the visible text; see Options.Text.
	Text string
	// Headings are the texts of h1 to h6, one a line, at most 8 KiB; see Options.Text.
	Headings string
	// Base is the URL against which references are resolved, "" if it is not an http URL.
	Base store.URL
	// Canonical is the target of the first rel=canonical, "" if there is none.
	Canonical store.URL
	Robots    Robots
	// Charset is the name of the encoding, as in the Encoding Standard, in lower case.
	Charset string
	// Invalid is the number of references that are not valid URLs for the crawler: those with
	// syntax errors, too long, or with credentials. References with other schemes than http and
	// https are not counted.
	Invalid int
	// Dropped is the number of references beyond MaxLinks or MaxLinkBytes, or beyond 2 MiB of text.
	Dropped int
}

// IsHTML reports whether Page accepts a Content-Type. It accepts an absent one, because servers
// that send none mostly send HTML.
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

// Page extracts the links of a response: its body, and the fields Content-Type, Link, Refresh and
// X-Robots-Tag of its header. The body may be truncated anywhere, and is not modified. The only
// error is ErrNotHTML; the Document then has only what the header contains.
func Page(body []byte, header http.Header, page store.URL, o Options) (Document, error) {
	c := newCollector(page, o.withDefaults())
	defer c.release()
	c.handleHeader(header)
	contentType := header.Get("Content-Type")
	if !IsHTML(contentType) {
		return c.document(), ErrNotHTML
	}
	c.read(body, contentType)
	return c.document(), nil
}

// read extracts the links of the body.
func (c *collector) read(body []byte, contentType string) {
	text, charset := decode(body, contentType, declaresCharset(body))
	c.doc.Charset, c.query = charset, newQueryEncoder(charset)
	newScanner(text, c, mediaType(contentType) == xhtml).run()
}
