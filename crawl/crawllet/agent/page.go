package main

import (
	"bytes"
	"net/url"
	"strings"
	"unicode/utf8"

	"peerd/crawl/crawllet/record"
)

// maxSummary is the maximum length of the text of a summary in bytes.
const maxSummary = 320

// maxSeen is the number of links that are remembered between pages.
const maxSeen = 16384

// page is what a page contains. The slices are valid until the next page is read.
type page struct {
	links []string // without repetitions
	fresh []string // those of them that are not remembered from earlier pages
	title string
	text  string // its beginning
}

// reader reads pages, one after the other.
type reader struct {
	withText   bool // the text is wanted
	onlyTokens bool // pages are read by the tokenizer alone, for tests

	resolver
	hasBase  bool
	referred bool // a reference was resolved
	again    bool // a base was found behind a reference
	seen     map[string]*seenLink
	page     int // number of the page, or of reading it again
	links    []string
	fresh    []string
	title    []byte
	titled   bool // a title has ended
	text     []byte
	full     bool    // the next word does not fit in text
	skip     element // the element of which the text is not visible, or title
	svg      int     // number of open svg elements
	attr     attributes
}

// seenLink is a link of this or an earlier page.
type seenLink struct {
	url  string
	page int // of which it is a link, the last one
}

// parse reads a page.
func (r *reader) parse(u string, body []byte) page {
	base, err := url.Parse(u)
	if err != nil {
		return page{}
	}
	r.setBase(base)
	r.hasBase = false
	for {
		r.reset(u)
		if r.onlyTokens {
			r.tokens(bytes.NewReader(body))
		} else {
			r.scan(body)
		}
		if !r.again {
			return page{
				links: r.links, fresh: r.fresh, title: string(r.title), text: string(r.text),
			}
		}
		r.seen = nil // it has links that do not exist
	}
}

// reset prepares for reading a page from its beginning.
func (r *reader) reset(u string) {
	if r.seen == nil || len(r.seen) > maxSeen {
		r.seen = map[string]*seenLink{}
	}
	r.page++
	r.seen[u] = &seenLink{u, r.page} // no link to itself
	r.links, r.fresh = r.links[:0], r.fresh[:0]
	r.title, r.text = r.title[:0], r.text[:0]
	r.referred, r.again, r.titled, r.full = false, false, false, false
	r.skip, r.svg = other, 0
}

// wantsText reports whether the next text may be of use.
func (r *reader) wantsText() bool {
	if r.skip == title {
		return !r.titled
	}
	return r.skip == other && r.withText && !r.full
}

// addText adds to the title or to the visible text, if wantsText.
func (r *reader) addText(text []byte) {
	to, limit, full := &r.text, maxSummary, &r.full
	if r.skip == title {
		to, limit, full = &r.title, record.MaxText/8, &r.titled
	}
	add := func(word []byte) bool {
		if len(*to)+1+len(word) > limit {
			*full = true
			return false
		}
		if len(*to) > 0 {
			*to = append(*to, ' ')
		}
		*to = append(*to, word...)
		return true
	}
	for i := 0; i < len(text); i++ {
		from := i
		for i < len(text) && classes[text[i]]&isWord != 0 {
			i++
		}
		if i < len(text) && text[i] >= utf8.RuneSelf {
			for word := range bytes.FieldsSeq(text[from:]) {
				if !add(bytes.ToValidUTF8(word, []byte("\uFFFD"))) {
					return
				}
			}
			return
		}
		if from < i && !add(text[from:i]) {
			return
		}
	}
}

// start handles a start tag, with the attributes in r.attr.
func (r *reader) start(e element) {
	a := &r.attr
	switch e {
	case anchor:
		if a.href == nil && r.svg > 0 {
			a.href = a.xlink
		}
		r.reference(a.href)
	case area:
		r.reference(a.href)
	case base:
		r.rebase(a.href)
	case link:
		if a.href != nil && isPage(a.rel) {
			r.reference(a.href)
		}
	case meta:
		if bytes.EqualFold(a.httpEquiv, []byte("refresh")) {
			r.reference(refreshTarget(a.content))
		}
	case frame, iframe:
		r.reference(a.src)
	case svg:
		r.svg++
	}
	if r.skip == other && (e.isRaw() || e == nav || e == header || e == footer) {
		r.skip = e
	}
}

// end handles an end tag.
func (r *reader) end(e element) {
	switch {
	case e == other:
	case e == r.skip:
		r.titled = r.titled || e == title
		r.skip = other
	case e == svg && r.svg > 0:
		r.svg--
	}
}

// rebase handles the first base with a reference, which applies to the whole page.
func (r *reader) rebase(ref []byte) {
	if ref == nil || r.hasBase {
		return
	}
	r.hasBase = true
	if u, err := r.parseRef(ref); err == nil {
		r.setBase(u)
		r.again = r.referred
	}
}

// reference adds a link, unless ref is nil.
func (r *reader) reference(ref []byte) {
	if ref == nil || len(r.links) == record.MaxLinks {
		return
	}
	r.referred = true
	u := r.resolve(ref)
	if len(u) == 0 || len(u) > record.MaxURL {
		return
	}
	l := r.seen[string(u)]
	if l == nil {
		// Queries in other encodings than UTF-8 are not valid.
		if !utf8.Valid(u) {
			return
		}
		l = &seenLink{url: string(u)}
		r.seen[l.url] = l
		r.fresh = append(r.fresh, l.url)
	}
	if l.page < r.page {
		l.page = r.page
		r.links = append(r.links, l.url)
	}
}

// resources are the relations of link elements to something other than pages, in lower case.
var resources = map[string]bool{
	"stylesheet": true, "icon": true, "mask-icon": true, "fluid-icon": true,
	"apple-touch-icon": true, "apple-touch-icon-precomposed": true,
	"apple-touch-startup-image": true, "manifest": true, "pingback": true, "preload": true,
	"modulepreload": true, "prefetch": true, "dns-prefetch": true, "preconnect": true,
}

// isPage reports whether a link element with a rel attribute refers to a page.
func isPage(rel []byte) bool {
	for token := range strings.FieldsSeq(string(rel)) {
		if resources[strings.ToLower(token)] {
			return false
		}
	}
	return true
}

// refreshTarget returns the reference in the content of a meta refresh, such as "5; url=next.html"
// (HTML Standard, shared declarative refresh steps), nil if the page refreshes itself.
func refreshTarget(content []byte) []byte {
	const space = " \t\n\f\r"
	s := bytes.TrimLeft(content, space)
	rest := bytes.TrimLeft(s, "0123456789.")
	if len(rest) == len(s) || len(rest) == 0 ||
		!strings.ContainsRune(";,"+space, rune(rest[0])) {
		return nil
	}
	rest = bytes.TrimLeft(rest, space)
	if len(rest) > 0 && (rest[0] == ';' || rest[0] == ',') {
		rest = bytes.TrimLeft(rest[1:], space)
	}
	if len(rest) >= 3 && bytes.EqualFold(rest[:3], []byte("url")) {
		if v, ok := bytes.CutPrefix(bytes.TrimLeft(rest[3:], space), []byte("=")); ok {
			rest = bytes.TrimLeft(v, space)
		}
	}
	if len(rest) == 0 {
		return nil
	}
	if quote := rest[:1]; quote[0] == '"' || quote[0] == '\'' {
		rest, _, _ = bytes.Cut(rest[1:], quote)
	}
	return rest
}
