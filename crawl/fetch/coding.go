package fetch

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zlib"
	"github.com/klauspost/compress/zstd"
)

// acceptEncoding is what is asked for: what the browsers decode, too, so that
// servers send what they send to everybody.
const acceptEncoding = "gzip, deflate, br, zstd"

// maxCodings is how many codings a body may have on top of each other.
const maxCodings = 2

// maxWindow is the largest zstd window: RFC 9659, section 3. Brotli's is at
// most 16 MiB by its format (RFC 7932, section 9.1), that of the others 32 KiB.
const maxWindow = 8 << 20

// coding is one content coding of IANA's HTTP Content Coding Registry.
type coding uint8

const (
	codingGzip    coding = iota // RFC 9110, section 8.4.1.3
	codingDeflate               // section 8.4.1.2: zlib by the letter, bare deflate by habit
	codingBrotli                // RFC 7932
	codingZstd                  // RFC 8878
	codingCount
)

// codingsOf reads the Content-Encoding fields of h (RFC 9110, section 8.4): the
// codings in the order in which they were applied. Names that say nothing are
// skipped; "none" and "utf-8" are what servers say that mean nothing. The error
// matches ErrEncoding.
func codingsOf(h http.Header) ([]coding, error) {
	fields := h["Content-Encoding"]
	if len(fields) == 0 {
		return nil, nil
	}
	var out []coding
	for name := range strings.SplitSeq(strings.Join(fields, ","), ",") {
		var c coding
		switch strings.ToLower(strings.Trim(name, " \t")) {
		case "", "identity", "none", "utf-8":
			continue
		case "gzip", "x-gzip":
			c = codingGzip
		case "deflate":
			c = codingDeflate
		case "br":
			c = codingBrotli
		case "zstd":
			c = codingZstd
		default:
			return nil, fmt.Errorf("%w: %.40q", ErrEncoding, name)
		}
		if len(out) == maxCodings {
			return nil, fmt.Errorf("%w: more than %d of them", ErrEncoding, maxCodings)
		}
		out = append(out, c)
	}
	return out, nil
}

// step is one from the wire to the body.
type step interface {
	io.Reader
	failed() error // what ended it, unless that was its proper end
}

// decoder undoes one coding. begin comes before the first Read; ended says
// whether an io.EOF of Read is the end of the data, or begins the next part.
type decoder interface {
	io.Reader
	begin(src *bufio.Reader) error
	more(src *bufio.Reader) (bool, error)
	end()
}

// layer is one coding of a body, with the limits on what comes out of it. It
// begins with the first Read, since an empty body is in no coding and yet no
// error.
type layer struct {
	below step
	wire  *meter
	src   *bufio.Reader
	dec   decoder
	ratio int64
	left  int64 // bytes that may come out, and one more
	n     int64 // bytes that came out
	begun bool
	done  bool
	err   error
}

func (l *layer) failed() error { return l.err }

// Read decodes; p is not empty. Errors from below come as they are, those of the data as
// errCoding or ErrBomb.
func (l *layer) Read(p []byte) (int, error) {
	if l.err != nil {
		return 0, l.err
	}
	if l.done {
		return 0, io.EOF
	}
	if !l.begun {
		l.begun = true
		if _, err := l.src.Peek(1); err == io.EOF {
			l.done = true
			return 0, io.EOF
		}
		if err := l.dec.begin(l.src); err != nil {
			return 0, l.blame(err)
		}
	}
	for { // a part may be empty
		n, err := l.dec.Read(p)
		l.n += int64(n)
		if err == io.EOF {
			err = l.finish()
		} else if err != nil {
			err = l.blame(err)
		}
		if err = l.limit(err); n > 0 || err != nil {
			return n, err
		}
	}
}

// limit returns err, or what forbids to go on.
func (l *layer) limit(err error) error {
	switch {
	case err != nil && err != io.EOF:
	case l.n > ratioFree && l.n/l.ratio > l.wire.n.Load():
		l.err = fmt.Errorf("%w: %d bytes from %d", ErrBomb, l.n, l.wire.n.Load())
		return l.err
	case l.n > l.left:
		l.err = errMeter
		return l.err
	}
	return err
}

// finish goes on to the next part of the data, or reads away what follows the
// last one: padding and rubbish there are ignored, as browsers do.
func (l *layer) finish() error {
	more, err := l.dec.more(l.src)
	if err != nil {
		return l.blame(err)
	}
	if more {
		return nil
	}
	l.done = true
	if _, err := io.Copy(io.Discard, l.src); err != nil {
		return l.blame(err)
	}
	return io.EOF
}

// blame tells whether err is the fault of what is below or of the data.
func (l *layer) blame(err error) error {
	if l.err = l.below.failed(); l.err == nil {
		l.err = fmt.Errorf("%w: %v", errCoding, err)
	}
	return l.err
}

// errCoding wraps what a decoder says of bad data.
var errCoding = errors.New("broken content coding")

// sources and decoders hold what is expensive to make between uses. What a
// decoder keeps is bounded by its window; the collector empties the pools.
var (
	sources  = sync.Pool{New: func() any { return bufio.NewReaderSize(nil, 8<<10) }}
	decoders = [codingCount]sync.Pool{
		codingGzip:    {New: func() any { return new(gzipDecoder) }},
		codingDeflate: {New: func() any { return new(deflateDecoder) }},
		codingBrotli:  {New: func() any { return new(brotliDecoder) }},
		codingZstd:    {New: func() any { return newZstdDecoder() }},
	}
)

// decode returns what undoes the codings of a body, and what gives back its
// parts once nothing is read any more. Each layer gives at most limit bytes and
// one more.
func decode(wire *meter, codings []coding, limit, ratio int64) (src step, free func()) {
	src = wire
	if len(codings) == 0 {
		return src, func() {}
	}
	layers := make([]*layer, len(codings))
	for i := range codings {
		c := codings[len(codings)-1-i] // the last one applied comes off first
		l := &layer{below: src, wire: wire, ratio: ratio, left: limit, dec: decoders[c].Get().(decoder)}
		l.src = sources.Get().(*bufio.Reader)
		l.src.Reset(src)
		layers[i], src = l, l
	}
	return src, func() {
		for i, l := range layers {
			l.dec.end()
			l.src.Reset(nil)
			sources.Put(l.src)
			decoders[codings[len(codings)-1-i]].Put(l.dec)
		}
	}
}

// gzipDecoder takes one member after the other, so that what follows the last
// one need not be one.
type gzipDecoder struct{ gzip.Reader }

func (d *gzipDecoder) begin(src *bufio.Reader) error {
	err := d.Reset(src)
	d.Multistream(false)
	return err
}

func (d *gzipDecoder) more(src *bufio.Reader) (bool, error) {
	magic, _ := src.Peek(2)
	if string(magic) != "\x1f\x8b" {
		return false, nil
	}
	return true, d.begin(src)
}

func (d *gzipDecoder) end() {}

// deflateDecoder tells zlib (RFC 1950, section 2.2) by its first two bytes. No
// bare deflate begins like that: it would be a stored block with bits set where
// there is padding.
type deflateDecoder struct {
	io.Reader
	zlib, bare io.ReadCloser
}

func (d *deflateDecoder) begin(src *bufio.Reader) (err error) {
	head, _ := src.Peek(2)
	if len(head) == 2 && head[0]&0x0f == 8 && head[0]>>4 <= 7 && (int(head[0])<<8|int(head[1]))%31 == 0 {
		if d.zlib == nil {
			d.zlib, err = zlib.NewReader(src)
		} else {
			err = d.zlib.(zlib.Resetter).Reset(src, nil)
		}
		d.Reader = d.zlib
		return err
	}
	if d.bare == nil {
		d.bare = flate.NewReader(src)
	} else {
		err = d.bare.(flate.Resetter).Reset(src, nil)
	}
	d.Reader = d.bare
	return err
}

func (d *deflateDecoder) more(*bufio.Reader) (bool, error) { return false, nil }
func (d *deflateDecoder) end()                             {}

// brotliDecoder takes no padding: its library reports any as an error.
type brotliDecoder struct{ brotli.Reader }

func (d *brotliDecoder) begin(src *bufio.Reader) error    { return d.Reset(src) }
func (d *brotliDecoder) more(*bufio.Reader) (bool, error) { return false, nil }
func (d *brotliDecoder) end()                             { _ = d.Reset(nil) }

// zstdDecoder takes any number of frames, and no padding.
type zstdDecoder struct{ *zstd.Decoder }

func newZstdDecoder() *zstdDecoder {
	d, err := zstd.NewReader(nil,
		zstd.WithDecoderConcurrency(1), // no goroutines
		zstd.WithDecoderLowmem(true),
		zstd.WithDecoderMaxWindow(maxWindow))
	if err != nil {
		panic(err) // only for options that exclude each other
	}
	return &zstdDecoder{d}
}

func (d *zstdDecoder) begin(src *bufio.Reader) error    { return d.Reset(src) }
func (d *zstdDecoder) more(*bufio.Reader) (bool, error) { return false, nil }
func (d *zstdDecoder) end()                             { _ = d.Reset(nil) }
