package sitemap

import (
	"encoding/xml"
	"strings"

	"peerd/crawl/canon"
)

// field is one of the texts of an entry.
type field uint8

const (
	noField field = iota
	locField
	guidField
	modField  // last modified
	dateField // published, used if modField is missing
)

// rawEntry holds the texts of an entry as they stand.
type rawEntry struct {
	prefix    string // of the name of the element
	base      canon.Base
	loc, guid string
	mod, date string
}

func newRawEntry(t xml.StartElement, base canon.Base) rawEntry {
	return rawEntry{prefix: t.Name.Space, base: rebase(base, t), guid: attr(t, "rdf", "about")}
}

// rebase applies xml:base.
func rebase(base canon.Base, t xml.StartElement) canon.Base {
	if s := attr(t, "xml", "base"); s != "" {
		return base.Rebase(s)
	}
	return base
}

// attr returns the attribute with a prefix, as written, and a name.
func attr(t xml.StartElement, prefix, name string) string {
	for _, a := range t.Attr {
		if a.Name.Space == prefix && strings.EqualFold(a.Name.Local, name) {
			return a.Value
		}
	}
	return ""
}

// fieldOf returns the field that a child of an entry contains. The links of Atom have their URL in
// an attribute, which is stored at once.
func (e *rawEntry) fieldOf(k Kind, t xml.StartElement, name string) field {
	if k == RSS && name == "date" && t.Name.Space == "dc" {
		return dateField
	}
	if t.Name.Space != e.prefix && t.Name.Space != "" {
		return noField
	}
	switch k {
	case RSS:
		return rssField(t, name)
	case Atom:
		if name == "link" && e.loc == "" {
			e.loc = atomLink(t)
		}
		return atomFields[name]
	default:
		return sitemapFields[name]
	}
}

var sitemapFields = map[string]field{"loc": locField, "lastmod": modField}

// atomFields are those of RFC 4287 and, for 0.3, modified and issued.
var atomFields = map[string]field{
	"updated": modField, "modified": modField, "published": dateField, "issued": dateField,
}

func rssField(t xml.StartElement, name string) field {
	switch name {
	case "link":
		return locField
	case "guid":
		if !strings.EqualFold(attr(t, "", "isPermaLink"), "false") {
			return guidField
		}
	case "pubdate":
		return dateField
	}
	return noField
}

// atomLink returns the page to which a link refers, "" for other relations (RFC 4287, section
// 4.2.7.2).
func atomLink(t xml.StartElement) string {
	if rel := attr(t, "", "rel"); rel != "" && !strings.EqualFold(rel, "alternate") {
		return ""
	}
	return strings.TrimSpace(attr(t, "", "href"))
}

// set stores the text of a field. The first text of a field is used.
func (e *rawEntry) set(f field, s string) {
	var into *string
	switch f {
	case locField:
		into = &e.loc
	case guidField:
		into = &e.guid
	case modField:
		into = &e.mod
	default:
		into = &e.date
	}
	if *into == "" {
		*into = s
	}
}

// url returns the reference to the page: its link, or an identifier that is a URL.
func (e *rawEntry) url() string {
	if e.loc == "" && isAbsolute(e.guid) {
		return e.guid
	}
	return e.loc
}

// add appends an entry to the document, or counts it as invalid or dropped.
func (p *parser) add(e rawEntry, toMap bool) {
	ref := e.url()
	if ref == "" {
		p.doc.Invalid++
		return
	}
	if len(p.doc.Pages)+len(p.doc.Sitemaps) >= p.o.MaxEntries || p.urlBytes > maxURLBytes {
		p.doc.Dropped++
		return
	}
	u, err := e.base.Join(ref)
	if err != nil {
		p.doc.Invalid++
		return
	}
	p.urlBytes += len(u)
	entry := Entry{URL: u}
	entry.LastMod, _ = parseDate(e.mod)
	if entry.LastMod.IsZero() {
		entry.LastMod, _ = parseDate(e.date)
	}
	if toMap {
		p.doc.Sitemaps = append(p.doc.Sitemaps, entry)
	} else {
		p.doc.Pages = append(p.doc.Pages, entry)
	}
}
