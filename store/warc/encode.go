package warc

import (
	"bytes"
	"crypto/rand"
	"crypto/sha1"
	"encoding/base32"
	"encoding/hex"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/nlnwa/gowarc"
)

// timeLayout is that of WARC-Date: W3C-DTF with a fraction (WARC 1.1, 5.4).
const timeLayout = "2006-01-02T15:04:05.000000Z"

// record is what the library's marshaler asks a record for: version, header,
// block. The embedded interface is nil. Form of the header and framing are the
// library's; the rest is not: its record builder copies and parses each block
// (BenchmarkEncode: half as much again as the digests), and its file writer
// compresses into the file, so that a write that fails half way stays there.
type record struct {
	gowarc.WarcRecord
	header gowarc.WarcFields
	block  block
}

func (r *record) Version() *gowarc.WarcVersion   { return gowarc.V1_1 }
func (r *record) WarcHeader() *gowarc.WarcFields { return &r.header }
func (r *record) Block() gowarc.Block            { return &r.block }

// add appends a field whose name is written as it is; the library would turn
// names it does not know into Warc-Protocol and the like.
func (r *record) add(name, value string) {
	r.header.Add(name, value)
	r.header[len(r.header)-1].Name = name
}

// block is a head and a body, written without a copy.
type block struct {
	gowarc.Block
	head, body []byte
}

func (b *block) RawBytes() (io.Reader, error) { return b, nil }
func (b *block) Read([]byte) (int, error)     { return 0, io.ErrUnexpectedEOF } // io.Copy uses WriteTo
func (b *block) WriteTo(w io.Writer) (int64, error) {
	n, err := w.Write(b.head)
	if err != nil || len(b.body) == 0 {
		return int64(n), err
	}
	m, err := w.Write(b.body)
	return int64(n + m), err
}

// encoder makes gzip members of records. It is reused, never shared.
type encoder struct {
	gz      *gzip.Writer
	buf     bytes.Buffer
	marshal gowarc.Marshaler

	payload, response, request digest // of the exchange at hand
	meta                       []byte
	records                    int
	first                      int // length of the first member
}

type digest [sha1.Size]byte

func (d digest) String() string { return "sha1:" + base32.StdEncoding.EncodeToString(d[:]) }

func newEncoder(level int) (*encoder, error) {
	gz, err := gzip.NewWriterLevel(nil, level)
	if err != nil {
		return nil, fmt.Errorf("warc: %w", err)
	}
	return &encoder{gz: gz, marshal: gowarc.NewMarshaler()}, nil
}

// prepare computes what does not depend on the file.
func (e *encoder) prepare(x *Exchange) {
	if x.Revisit == nil {
		e.payload = sha1.Sum(x.Body)
	}
	h := sha1.New()
	h.Write(x.Response)
	if x.Revisit == nil {
		h.Write(x.Body)
	}
	h.Sum(e.response[:0])
	e.request = sha1.Sum(x.Request)
	e.meta = appendFields(e.meta[:0], x.Metadata)
}

// digest is the payload digest that the index shows.
func (e *encoder) digest(x *Exchange) string {
	switch {
	case len(x.Response) == 0:
		return ""
	case x.Revisit != nil:
		return x.Revisit.Digest
	}
	return e.payload.String()
}

// encode fills e.buf with the members of an exchange, in a file whose
// warcinfo record has the ID info.
func (e *encoder) encode(x *Exchange, info string) error {
	e.buf.Reset()
	e.records, e.first = 0, 0
	var concurrent string
	base := func(kind string, d digest) *record {
		r, id := &record{header: make(gowarc.WarcFields, 0, 16)}, newID()
		r.add(gowarc.WarcType, kind)
		r.add(gowarc.WarcRecordID, id)
		r.add(gowarc.WarcDate, x.Time.UTC().Format(timeLayout))
		r.add(gowarc.WarcTargetURI, x.URL)
		if info != "" {
			r.add(gowarc.WarcWarcinfoID, info)
		}
		if concurrent != "" {
			r.add(gowarc.WarcConcurrentTo, concurrent)
		} else {
			concurrent = id
		}
		r.add(gowarc.WarcBlockDigest, d.String())
		return r
	}
	if len(x.Response) > 0 {
		if err := e.write(e.responseRecord(x, base)); err != nil {
			return err
		}
	}
	if len(x.Request) > 0 {
		r := base("request", e.request)
		x.addNetwork(r)
		r.add(gowarc.ContentType, "application/http;msgtype=request")
		r.block.head = x.Request
		if err := e.write(r); err != nil {
			return err
		}
	}
	if len(x.Metadata) > 0 {
		r := base("metadata", sha1.Sum(e.meta))
		r.add(gowarc.ContentType, gowarc.ApplicationWarcFields)
		r.block.head = e.meta
		return e.write(r)
	}
	return nil
}

func (e *encoder) responseRecord(x *Exchange, base func(string, digest) *record) *record {
	if x.Revisit == nil {
		r := base("response", e.response)
		r.add(gowarc.WarcPayloadDigest, e.payload.String())
		x.addNetwork(r)
		if x.Truncated != "" {
			r.add(gowarc.WarcTruncated, x.Truncated)
		}
		r.add(gowarc.ContentType, "application/http;msgtype=response")
		r.block.head, r.block.body = x.Response, x.Body
		return r
	}
	r := base("revisit", e.response)
	x.addNetwork(r)
	v := x.Revisit
	r.add(gowarc.WarcProfile, v.Profile)
	if v.Digest != "" {
		r.add(gowarc.WarcPayloadDigest, v.Digest)
	}
	if v.URL != "" {
		r.add(gowarc.WarcRefersToTargetURI, v.URL)
	}
	if !v.Time.IsZero() {
		r.add(gowarc.WarcRefersToDate, v.Time.UTC().Format(timeLayout))
	}
	if v.Profile == IdenticalPayload { // there was a payload; it is left out (WARC 1.1, 6.7.2)
		r.add(gowarc.WarcTruncated, "length")
	}
	r.add(gowarc.ContentType, "application/http;msgtype=response")
	r.block.head = x.Response
	return r
}

// addNetwork adds what is known of the connection.
func (x *Exchange) addNetwork(r *record) {
	if x.Addr.IsValid() {
		r.add(gowarc.WarcIPAddress, x.Addr.Unmap().WithZone("").String())
	}
	for _, p := range x.Protocols {
		r.add("WARC-Protocol", p)
	}
	if x.CipherSuite != "" {
		r.add("WARC-Cipher-Suite", x.CipherSuite)
	}
}

// encodeInfo fills e.buf with the warcinfo record of a file.
func (e *encoder) encodeInfo(name string, at time.Time, info []Field) (id string, err error) {
	e.buf.Reset()
	e.records, e.first = 0, 0
	e.meta = appendFields(e.meta[:0], info)
	r := &record{}
	id = newID()
	r.add(gowarc.WarcType, "warcinfo")
	r.add(gowarc.WarcRecordID, id)
	r.add(gowarc.WarcDate, at.UTC().Format(timeLayout))
	r.add(gowarc.WarcFilename, name)
	r.add(gowarc.WarcBlockDigest, digest(sha1.Sum(e.meta)).String())
	r.add(gowarc.ContentType, gowarc.ApplicationWarcFields)
	r.block.head = e.meta
	return id, e.write(r)
}

// write appends r as one gzip member to e.buf.
func (e *encoder) write(r *record) error {
	r.add(gowarc.ContentLength, strconv.Itoa(len(r.block.head)+len(r.block.body)))
	e.gz.Reset(&e.buf)
	if _, _, err := e.marshal.Marshal(e.gz, r, 0); err != nil {
		return fmt.Errorf("warc: %w", err)
	}
	if err := e.gz.Close(); err != nil {
		return fmt.Errorf("warc: %w", err)
	}
	if e.records++; e.records == 1 {
		e.first = e.buf.Len()
	}
	return nil
}

// lineBreaks are what must not stand in a value.
var lineBreaks = strings.NewReplacer("\r\n", " ", "\r", " ", "\n", " ", "\x00", " ")

func appendFields(b []byte, fields []Field) []byte {
	for _, f := range fields {
		b = append(b, f.Name...)
		b = append(b, ": "...)
		b = append(b, strings.ToValidUTF8(lineBreaks.Replace(f.Value), "\uFFFD")...)
		b = append(b, "\r\n"...)
	}
	return b
}

// newID returns a random UUID (RFC 9562, 5.4) as record ID.
func newID() string {
	var u [16]byte
	rand.Read(u[:])
	u[6], u[8] = u[6]&0x0f|0x40, u[8]&0x3f|0x80
	b := append(make([]byte, 0, 47), "<urn:uuid:"...)
	for i, n := range []int{4, 2, 2, 2, 6} {
		if i > 0 {
			b = append(b, '-')
		}
		b = hex.AppendEncode(b, u[:n])
		copy(u[:], u[n:])
	}
	return string(append(b, '>'))
}
