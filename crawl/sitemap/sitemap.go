package sitemap

import (
	"errors"
	"time"

	"peerd/crawl/canon"
	"peerd/store"
)

// Kind is the kind of a document.
type Kind uint8

// The kinds of documents.
const (
	None   Kind = iota
	URLSet      // a sitemap
	Index       // a list of sitemaps
	List        // URLs, one per line
	RSS         // any version, including RDF
	Atom        // 0.3 or 1.0
)

// Entry is one URL of a document.
type Entry struct {
	URL     store.URL
	LastMod time.Time // UTC; zero if unspecified. A date without a time means midnight.
}

// Doc is the content of a document. Entries are in the order of the document, and a URL can occur
// more than once.
type Doc struct {
	Kind     Kind
	Sitemaps []Entry // further documents, of an index
	Pages    []Entry
	Invalid  int // entries without a usable URL
	Dropped  int // entries beyond Options.MaxEntries or maxURLBytes
	// Truncated means that the document ended early, had an error, or exceeded a limit on bytes
	// or nesting. The other fields describe the part before.
	Truncated bool
}

// Options are the limits of Parse. Zero fields mean the default.
type Options struct {
	MaxEntries int   // per document; default 50,000, the limit of the protocol
	MaxBytes   int64 // of a document, inflated; default 50 MiB, the limit of the protocol
	MaxRatio   int64 // of inflated to compressed bytes, beyond the first MiB; default 200
}

func (o Options) withDefaults() Options {
	if o.MaxEntries <= 0 {
		o.MaxEntries = 50_000
	}
	if o.MaxBytes <= 0 {
		o.MaxBytes = 50 << 20
	}
	if o.MaxRatio <= 0 {
		o.MaxRatio = 200
	}
	return o
}

// ErrFormat means that a document is in none of the formats that Parse reads.
var ErrFormat = errors.New("sitemap: neither sitemap, list nor feed")

// Parse parses the document at a URL. The content type may be empty; only its charset is used, if
// the document declares none. The error is ErrFormat or nil: all other errors are counted in the
// Doc. Parse does not check which pages the document may list; see Allowed.
func Parse(body []byte, contentType string, at store.URL, o Options) (Doc, error) {
	o = o.withDefaults()
	p := &parser{o: o, base: canon.BaseOf(at)}
	src := newSource(utf8Reader(inflate(body, o), contentType))
	p.src = src
	if isList(src.head()) {
		p.parseList()
	} else {
		p.parseXML()
	}
	if p.doc.Kind == None {
		return Doc{}, ErrFormat
	}
	return p.doc, nil
}
