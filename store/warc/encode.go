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

// timeLayout is the format of WARC-Date: W3C-DTF with a fraction (WARC 1.1, section 5.4).
const timeLayout = "2006-01-02T15:04:05.000000Z"

// fromField names the peer that fetched an exchange that was copied.
const fromField = "Peerd-Collected-From"

// record implements what the marshaler of gowarc needs of a record: version, header and
// block. The embedded interface is nil. The marshaler formats the header and frames the
// record. Other parts of gowarc are not used: its record builder copies and parses each
// block (see BenchmarkEncode), and its file writer leaves incomplete records behind if a
// write fails.
type record struct {
	gowarc.WarcRecord
	header gowarc.WarcFields
	block  block
}

func (r *record) Version() *gowarc.WarcVersion   { return gowarc.V1_1 }
func (r *record) WarcHeader() *gowarc.WarcFields { return &r.header }
func (r *record) Block() gowarc.Block            { return &r.block }

// add appends a field and keeps the spelling of its name; gowarc would change names that
// it does not know, for example to Warc-Protocol.
func (r *record) add(name, value string) {
	r.header.Add(name, value)
	r.header[len(r.header)-1].Name = name
}

// block is a header and a body, written without copying.
type block struct {
	gowarc.Block
	head, body []byte
}

func (b *block) RawBytes() (io.Reader, error) { return b, nil }

// Read is not used: io.Copy calls WriteTo.
func (b *block) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

func (b *block) WriteTo(w io.Writer) (int64, error) {
	n, err := w.Write(b.head)
	if err != nil || len(b.body) == 0 {
		return int64(n), err
	}
	m, err := w.Write(b.body)
	return int64(n + m), err
}

// encoder encodes records as gzip members. It can be reused, but not concurrently.
type encoder struct {
	gz      *gzip.Writer
	buf     bytes.Buffer
	marshal gowarc.Marshaler

	payload, response, request digest // of the present exchange
	meta                       []byte
	records                    int
	first                      int // length of the first gzip member
}

type digest [sha1.Size]byte

func (d digest) String() string { return "sha1:" + base32.StdEncoding.EncodeToString(d[:]) }

func newEncoder() *encoder {
	gz, _ := gzip.NewWriterLevel(nil, gzip.BestSpeed) // the level is valid
	return &encoder{gz: gz, marshal: gowarc.NewMarshaler()}
}

// prepare computes what is the same for every file.
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

// digest returns the payload digest for the index.
func (e *encoder) digest(x *Exchange) string {
	switch {
	case len(x.Response) == 0:
		return ""
	case x.Revisit != nil:
		return x.Revisit.Digest
	}
	return e.payload.String()
}

// encode writes the gzip members of an exchange to e.buf. info is the ID of the warcinfo
// record of the file.
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
		if x.From != "" {
			r.add(fromField, x.From)
		}
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
	if v.Profile == IdenticalPayload { // the payload is left out (WARC 1.1, section 6.7.2)
		r.add(gowarc.WarcTruncated, "length")
	}
	r.add(gowarc.ContentType, "application/http;msgtype=response")
	r.block.head = x.Response
	return r
}

// addNetwork adds the fields about the connection.
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

// encodeInfo writes the warcinfo record of a file to e.buf.
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

// write appends r to e.buf as one gzip member.
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

// lineBreaks replaces characters that a field value must not contain.
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

// newID returns a record ID, a random UUID (RFC 9562, section 5.4). It is not one of google/uuid,
// of which gowarc changes a setting without a lock whenever it makes options.
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
