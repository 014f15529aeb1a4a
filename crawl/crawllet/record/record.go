// Package record is the format of what a crawllet writes: one record for each page, in the
// order of the crawl. The crawllet and the client of package crawllet import it; the host does
// not, because it passes the output on unread.
//
// A record is a length in bytes as an unsigned varint, and a CBOR map of that length (RFC 8949).
package record

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/fxamacker/cbor/v2"
)

const (
	// MaxBody is the maximum length of Record.Body in bytes.
	MaxBody = 8 << 20
	// MaxLinks is the maximum number of links of a record, and MaxURL the maximum length of a URL
	// in bytes.
	MaxLinks = 10_000
	MaxURL   = 2048
	// MaxText is the maximum length of Title and of Text in bytes.
	MaxText = 4096
	// maxSize is the maximum length of a record.
	maxSize = MaxBody + 8<<20
)

// ErrInvalid means that the bytes are not a record.
var ErrInvalid = errors.New("crawllet: invalid record")

// Record is what a crawllet reports of one URL.
type Record struct {
	URL string `cbor:"1,keyasint" json:"url"`
	// Status is what a web server would answer: 200; 301 if Location says where the page is; 304
	// if it has not changed since the time that the crawler named; 404.
	Status   int    `cbor:"2,keyasint" json:"status"`
	Type     string `cbor:"3,keyasint,omitempty" json:"type,omitempty"`     // media type
	Modified int64  `cbor:"4,keyasint,omitempty" json:"modified,omitempty"` // Unix time
	Location string `cbor:"5,keyasint,omitempty" json:"location,omitempty"` // of a 301
	Size     int64  `cbor:"6,keyasint,omitempty" json:"size,omitempty"`     // of the page
	Digest   []byte `cbor:"7,keyasint,omitempty" json:"digest,omitempty"`   // if no Body
	Title    string `cbor:"8,keyasint,omitempty" json:"title,omitempty"`
	Text     string `cbor:"9,keyasint,omitempty" json:"text,omitempty"` // its beginning
	// Links are the absolute URLs of references to other pages, in summaries.
	Links []string `cbor:"10,keyasint,omitempty" json:"links,omitempty"`
	Body  []byte   `cbor:"11,keyasint,omitempty" json:"body,omitempty"` // not in summaries
	Cut   bool     `cbor:"12,keyasint,omitempty" json:"cut,omitempty"`  // Body is a part
}

// check reports what is wrong with r.
func (r *Record) check() error {
	switch {
	case r.URL == "" || len(r.URL) > MaxURL || len(r.Location) > MaxURL:
		return fmt.Errorf("%w: the URL has %d bytes", ErrInvalid, len(r.URL))
	case r.Status < 100 || r.Status > 599:
		return fmt.Errorf("%w: status %d", ErrInvalid, r.Status)
	case len(r.Body) > MaxBody || r.Size < 0:
		return fmt.Errorf("%w: a page of %d bytes", ErrInvalid, len(r.Body))
	case len(r.Links) > MaxLinks:
		return fmt.Errorf("%w: %d links", ErrInvalid, len(r.Links))
	}
	return r.checkTexts()
}

// checkTexts reports which of the texts of r has a wrong length.
func (r *Record) checkTexts() error {
	if len(r.Type) > 256 || len(r.Title) > MaxText || len(r.Text) > MaxText {
		return fmt.Errorf("%w: a text is too long", ErrInvalid)
	}
	if len(r.Digest) != 0 && len(r.Digest) != 32 {
		return fmt.Errorf("%w: a digest of %d bytes", ErrInvalid, len(r.Digest))
	}
	for _, l := range r.Links {
		if len(l) > MaxURL {
			return fmt.Errorf("%w: a link of %d bytes", ErrInvalid, len(l))
		}
	}
	return nil
}

var decode = func() cbor.DecMode {
	m, err := cbor.DecOptions{
		DupMapKey: cbor.DupMapKeyEnforcedAPF, IndefLength: cbor.IndefLengthForbidden,
		TagsMd: cbor.TagsForbidden, MaxNestedLevels: 4, MaxArrayElements: MaxLinks,
		MaxMapPairs: 32,
	}.DecMode()
	if err != nil {
		panic(err) // the options are constants
	}
	return m
}()

// Write writes one record.
func Write(w io.Writer, r *Record) error {
	if err := r.check(); err != nil {
		return err
	}
	body, err := cbor.Marshal(*r)
	if err != nil {
		return fmt.Errorf("crawllet: encode record: %w", err)
	}
	if _, err := w.Write(binary.AppendUvarint(nil, uint64(len(body)))); err != nil {
		return err
	}
	_, err = w.Write(body)
	return err
}

// Reader reads records. It is not safe for concurrent use.
type Reader struct {
	in  *bufio.Reader
	buf []byte
}

// NewReader returns a reader of the records in r.
func NewReader(r io.Reader) *Reader { return &Reader{in: bufio.NewReaderSize(r, 64<<10)} }

// Read returns the next record. The error is io.EOF after the last one, io.ErrUnexpectedEOF if the
// input ends within a record, ErrInvalid, or that of the input.
func (r *Reader) Read() (Record, error) {
	n, err := binary.ReadUvarint(r.in)
	switch {
	case err != nil && (errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)):
		return Record{}, err
	case err != nil:
		return Record{}, fmt.Errorf("%w: length: %w", ErrInvalid, err)
	case n > maxSize:
		return Record{}, fmt.Errorf("%w: %d bytes", ErrInvalid, n)
	}
	if err := r.fill(int(n)); err != nil {
		return Record{}, err
	}
	var rec Record
	if err := decode.Unmarshal(r.buf, &rec); err != nil {
		return Record{}, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	if err := rec.check(); err != nil {
		return Record{}, err
	}
	return rec, nil
}

// fill reads n bytes into the buffer. The buffer grows with what arrives, not with what the length
// promises.
func (r *Reader) fill(n int) error {
	const step = 1 << 20
	r.buf = r.buf[:0]
	for len(r.buf) < n {
		from := len(r.buf)
		more := min(n-from, step)
		r.buf = append(r.buf, make([]byte, more)...)
		if _, err := io.ReadFull(r.in, r.buf[from:]); err != nil {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return err
		}
	}
	return nil
}
