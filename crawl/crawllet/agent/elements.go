package main

import (
	"bytes"

	"golang.org/x/net/html"
)

// element is an element of interest.
type element uint8

const (
	other element = iota
	anchor
	area
	base
	link
	meta
	frame // and iframe
	header
	footer
	nav
	svg

	// The content of the following is text.
	title
	iframe
	script
	style
	noembed
	noframes
	plaintext
	textarea
	xmp
)

// isRaw reports whether the content of an element is text to the tokenizer.
func (e element) isRaw() bool { return e >= title }

// elements are the elements of interest by name.
var elements = map[string]element{
	"a": anchor, "area": area, "base": base, "link": link, "meta": meta, "frame": frame,
	"header": header, "footer": footer, "nav": nav, "svg": svg, "title": title, "iframe": iframe,
	"script": script, "style": style, "noembed": noembed, "noframes": noframes,
	"plaintext": plaintext, "textarea": textarea, "xmp": xmp,
}

// lengths has the lengths of the names in elements, as a set of bits, by their first letter in
// lower case. Most other names are excluded by it.
var lengths = func() (t [256]uint16) {
	for name := range elements {
		t[name[0]] |= 1 << len(name)
	}
	return t
}()

// elementOf returns the element with a name in any letter case.
func elementOf(name []byte) element {
	if len(name) == 0 || len(name) > len("plaintext") || lengths[name[0]|0x20]>>len(name)&1 == 0 {
		return other
	}
	if len(name) == 1 {
		return anchor
	}
	var lower [len("plaintext")]byte
	for i, c := range name {
		if 'A' <= c && c <= 'Z' {
			c |= 0x20
		}
		lower[i] = c
	}
	return elements[string(lower[:len(name)])]
}

// attributes are the attributes of interest of a tag, nil if there are none. The first of a name
// counts.
type attributes struct {
	href, src, rel, xlink, content, httpEquiv []byte
	odd                                       bool // the tokenizer changes a value
}

// set sets an attribute.
func (a *attributes) set(key, value []byte) {
	to := a.of(key)
	if to == nil || *to != nil {
		return
	}
	*to = value[:len(value):len(value)]
	for len(value) >= 8 {
		w := word(value, 0)
		if equal(w, '&')|equal(w, '\r')|zeros(w) != 0 {
			a.odd = true
		}
		value = value[8:]
	}
	for _, c := range value {
		if c == '&' || c == '\r' || c == 0 {
			a.odd = true
		}
	}
}

// of returns the place of an attribute with a name in any letter case, nil for those of no
// interest.
func (a *attributes) of(key []byte) *[]byte {
	var want string
	var to *[]byte
	switch len(key) {
	case 4:
		want, to = "href", &a.href
	case 3:
		if want, to = "src", &a.src; key[0]|0x20 == 'r' {
			want, to = "rel", &a.rel
		}
	case 7:
		want, to = "content", &a.content
	case 10:
		if want, to = "http-equiv", &a.httpEquiv; key[0]|0x20 == 'x' {
			want, to = "xlink:href", &a.xlink
		}
	default:
		return nil
	}
	if string(key) == want || bytes.EqualFold(key, []byte(want)) {
		return to
	}
	return nil
}

// readTag reads the attributes of a tag with the tokenizer.
func (a *attributes) readTag(tag []byte) {
	*a = attributes{}
	z := html.NewTokenizer(bytes.NewReader(tag))
	z.Next()
	_, more := z.TagName()
	a.readAll(z, more)
}

// readAll reads the attributes of the current tag of z.
func (a *attributes) readAll(z *html.Tokenizer, more bool) {
	for more {
		var key, value []byte
		key, value, more = z.TagAttr()
		if to := a.of(key); to != nil && *to == nil {
			*to = append([]byte{}, value...)
		}
	}
}
