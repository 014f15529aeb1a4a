package index

import (
	"crypto/sha256"
	"net/netip"
	"strings"
	"time"

	bleve "github.com/blevesearch/bleve_index_api"
	"github.com/fxamacker/cbor/v2"

	"peerd/store"
)

// Document is a page to be indexed.
type Document struct {
	URL       store.URL
	Title     string
	Headings  string
	Text      string // with the title and the headings
	Type      string // "html" or "text"
	FetchedAt time.Time
	// UnavailableAfter is the time from which on the page asks not to be found; zero: none.
	UnavailableAfter time.Time
	// Canonical is the URL that the page names as its canonical one, or "".
	Canonical store.URL
	// Archive is the place of the response in the archive.
	Archive store.Location
	Addr    netip.Addr // of the server; may be missing
	// Links are those to pages of other hosts, without repetitions, at most MaxLinks.
	Links []Link
}

// Digest identifies the text of a page: pages with equal digests are copies.
type Digest [16]byte

// Meta is what the index stores of a page.
type Meta struct {
	URL       store.URL      `cbor:"1,keyasint"`
	Title     string         `cbor:"2,keyasint,omitempty"`
	Type      string         `cbor:"3,keyasint,omitempty"`
	Language  string         `cbor:"4,keyasint,omitempty"` // ISO 639-1; "" if unknown
	FetchedAt time.Time      `cbor:"5,keyasint"`
	Digest    Digest         `cbor:"6,keyasint"`
	Archive   store.Location `cbor:"7,keyasint"`
	Canonical store.URL      `cbor:"8,keyasint,omitempty"` // "" if it is URL
}

// The fields of the index.
const (
	fieldID      = "_id" // the name is that of scorch
	fieldText    = "b"
	fieldTitle   = "t"
	fieldHeading = "h"
	fieldFilter  = "f" // terms such as "site:example.org"
	fieldMeta    = "m"
	fieldPairs   = "p" // a pairSet
	fieldAnchor  = "a" // see links.go
	fieldLinked  = "l" // see links.go
)

var encMode = func() cbor.EncMode {
	m, err := cbor.EncOptions{Sort: cbor.SortCoreDeterministic, Time: cbor.TimeUnix}.EncMode()
	if err != nil {
		panic(err) // the options are constants
	}
	return m
}()

// analyzed is a Document as scorch wants it.
type analyzed struct {
	id     string
	fields []*field
}

// analyze splits a page into terms. Each page has all fields, also empty ones: scorch merges
// segments with different fields more slowly.
func (a *analyzer) analyze(d Document) (*analyzed, error) {
	var s sample
	a.split(d.Text, &s)
	lang := s.language()
	mark := languageByCode(lang)
	text, pairs := a.field(fieldText, mark), newPairSet(a.hashes)
	a.split(d.Title, nil)
	title := a.field(fieldTitle, mark)
	a.split(d.Headings, nil)
	heading := a.field(fieldHeading, mark)
	a.letters = append(a.letters[:0], d.Text...)
	sum := sha256.Sum256(a.letters)
	if d.Canonical == d.URL {
		d.Canonical = ""
	}
	meta, err := encMode.Marshal(Meta{
		URL: d.URL, Title: d.Title, Type: d.Type, Language: lang,
		FetchedAt: d.FetchedAt.UTC().Truncate(time.Second), Digest: Digest(sum[:16]),
		Archive: d.Archive, Canonical: d.Canonical,
	})
	if err != nil {
		return nil, err
	}
	id := idOf(d.URL)
	linked, anchors := a.links(d, mark)
	return &analyzed{id: id, fields: []*field{
		{name: fieldID, value: []byte(id), length: 1, freqs: single(id),
			options: bleve.IndexField | bleve.StoreField},
		{name: fieldMeta, value: meta, options: bleve.StoreField},
		{name: fieldPairs, value: pairs, options: bleve.StoreField},
		text, title, heading, filters(d, lang), linked, anchors,
	}}, nil
}

// filters returns the field with the terms that the filters of a query look for.
func filters(d Document, lang string) *field {
	f := newTerms(fieldFilter)
	for host := d.URL.Host(); host != ""; {
		f.add(filterSite + host)
		_, host, _ = strings.Cut(host, ".")
	}
	f.add(filterType + d.Type)
	if lang != "" {
		f.add(filterLang + lang)
	}
	f.add(filterDay + d.FetchedAt.UTC().Format(dayForm))
	if t := d.UnavailableAfter; !t.IsZero() {
		f.add(filterLast + t.UTC().Add(-1).Format(dayForm))
	}
	return f
}

// newTerms returns a field of terms of which occurrences are not counted.
func newTerms(name string) *field {
	return &field{name: name, options: bleve.IndexField | bleve.SkipFreqNorm,
		freqs: bleve.TokenFrequencies{}}
}

func (f *field) add(term string) {
	if f.freqs[term] == nil {
		f.freqs[term] = occurs(1)
		f.length = len(f.freqs)
	}
}

// The filters begin with these words.
const (
	filterSite = "site:"
	filterType = "filetype:"
	filterLang = "lang:"
	filterDay  = "day:"
	filterLast = "last:" // on which the page may be found; no query names it
	dayForm    = "20060102"
)

func single(term string) bleve.TokenFrequencies {
	return bleve.TokenFrequencies{term: occurs(1)}
}

// frequencies are those of terms that occur rarely, by the number of occurrences.
var frequencies = func() (all [256]*bleve.TokenFreq) {
	for n := range all {
		all[n] = frequency(n)
	}
	return all
}()

// occurs returns the frequency of a term that occurs n times. Many terms share it: scorch reads
// terms from the keys only, and changes no frequency.
func occurs(n int) *bleve.TokenFreq {
	if n < len(frequencies) {
		return frequencies[n]
	}
	return frequency(n)
}

func frequency(n int) *bleve.TokenFreq {
	t := &bleve.TokenFreq{}
	t.SetFrequency(n)
	return t
}

// The methods of bleve.Document.

func (a *analyzed) ID() string { return a.id }
func (a *analyzed) Size() int  { return 0 }
func (a *analyzed) VisitFields(visit bleve.FieldVisitor) {
	for _, f := range a.fields {
		visit(f)
	}
}
func (a *analyzed) VisitComposite(bleve.CompositeFieldVisitor) {}
func (a *analyzed) HasComposite() bool                         { return false }
func (a *analyzed) NumPlainTextBytes() uint64                  { return 0 }
func (a *analyzed) AddIDField()                                {} // it has one
func (a *analyzed) StoredFieldsBytes() uint64                  { return 0 }
func (a *analyzed) Indexed() bool                              { return true }

// field is a field that was analyzed before it is added.
type field struct {
	name    string
	value   []byte
	length  int // of a field with words: its code
	freqs   bleve.TokenFrequencies
	options bleve.FieldIndexingOptions
}

// The methods of bleve.Field.

func (f *field) Name() string                                     { return f.name }
func (f *field) Value() []byte                                    { return f.value }
func (f *field) ArrayPositions() []uint64                         { return nil }
func (f *field) EncodedFieldType() byte                           { return 't' }
func (f *field) Analyze()                                         {}
func (f *field) Options() bleve.FieldIndexingOptions              { return f.options }
func (f *field) AnalyzedLength() int                              { return f.length }
func (f *field) AnalyzedTokenFrequencies() bleve.TokenFrequencies { return f.freqs }
func (f *field) NumPlainTextBytes() uint64                        { return 0 }
