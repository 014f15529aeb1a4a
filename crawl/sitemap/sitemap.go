package sitemap

import (
	"errors"
	"time"

	"peerd/crawl/canon"
	"peerd/store"
)

// Kind is what a document turned out to be.
type Kind uint8

// The kinds of documents.
const (
	None   Kind = iota
	URLSet      // a sitemap
	Index       // a list of sitemaps
	List        // URLs, one a line
	RSS         // of any version, RDF included
	Atom        // 0.3 or 1.0
)

// String returns the kind's name.
func (k Kind) String() string {
	switch k {
	case URLSet:
		return "sitemap"
	case Index:
		return "sitemap index"
	case List:
		return "list"
	case RSS:
		return "RSS"
	case Atom:
		return "Atom"
	}
	return "none"
}

// ChangeFreq is how often a page is said to change.
type ChangeFreq uint8

// The values of <changefreq>.
const (
	Unsaid ChangeFreq = iota
	Always
	Hourly
	Daily
	Weekly
	Monthly
	Yearly
	Never
)

// Period returns the time between changes that f means: a minute for Always, 0
// for Unsaid and Never.
func (f ChangeFreq) Period() time.Duration {
	const day = 24 * time.Hour
	return [...]time.Duration{0, time.Minute, time.Hour, day, 7 * day, 30 * day, 365 * day, 0}[min(f, Never)]
}

// Entry is one URL of a document.
type Entry struct {
	URL        store.URL
	LastMod    time.Time // UTC; zero if not said. A date without time is its first moment.
	ChangeFreq ChangeFreq
	Priority   float64 // 0 to 1 among the pages of the site; 0.5 if not said
}

// Doc is what a document says. Entries stand in its order; the same URL may
// come more than once.
type Doc struct {
	Kind     Kind
	Sitemaps []Entry // further documents, of an index
	Pages    []Entry
	Invalid  int // entries without a usable URL
	Dropped  int // entries beyond Options.MaxEntries
	// Truncated: the document ended early, could not be read on, or went beyond
	// a limit on bytes or nesting. The rest of the fields say what came before.
	Truncated bool
}

// Options are the limits of Parse. Zero fields mean the defaults.
type Options struct {
	MaxEntries int   // taken of one document; default 50,000, the protocol's limit
	MaxBytes   int64 // read of it after inflating; default 50 MiB, the protocol's limit
	MaxRatio   int64 // of inflated to compressed bytes, beyond the first MiB; default 200
}

func (o Options) orDefaults() Options {
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

// ErrKind says that a document is none of those that Parse reads.
var ErrKind = errors.New("sitemap: neither sitemap, list nor feed")

// Parse reads a document that was found at a URL. The content type may be
// empty; only its charset is used, and only if the document has none. The
// error is ErrKind or nil: everything else that may be wrong is in the Doc.
// Which of the pages the site may speak for is left to the caller; see Allowed.
func Parse(body []byte, contentType string, at store.URL, o Options) (Doc, error) {
	o = o.orDefaults()
	p := &parser{o: o, base: canon.BaseOf(at)}
	src := newSource(utf8Reader(inflate(body, o), contentType))
	p.src = src
	if isList(src.head()) {
		p.list()
	} else {
		p.xml()
	}
	if p.doc.Kind == None {
		return Doc{}, ErrKind
	}
	return p.doc, nil
}
