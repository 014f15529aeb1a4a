package fetch

import (
	"bufio"
	"bytes"
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

// acceptEncoding lists the codings that are accepted: those of browsers, so that servers send the
// same responses as to browsers.
const acceptEncoding = "gzip, deflate, br, zstd"

// maxCodings is the maximum number of codings of a body.
const maxCodings = 2

// maxWindow is the largest zstd window (RFC 9659, section 3). The window of brotli is at most 16
// MiB by its format (RFC 7932, section 9.1), that of the others 32 KiB.
const maxWindow = 8 << 20

const (
	// shortBody is the number of encoded bytes that are received before a decoder with a large
	// window gets its memory.
	shortBody = 64 << 10
	// zstdMemory is the memory of a decoder for zstd.
	zstdMemory = maxWindow + 1<<20
	// brotliTables is the memory of a decoder for brotli without its window, and reusedWindow the
	// largest window with which one is reused.
	brotliTables, reusedWindow = 4 << 20, 4 << 20
)

// decoderMemory returns the memory that the decoders with large windows need for a body that begins
// with first; 0 if there are none.
func decoderMemory(codings []coding, first []byte) (n int64) {
	for i, c := range codings {
		switch c {
		case codingZstd:
			n += zstdMemory
		case codingBrotli:
			window := int64(16 << 20)
			if i == len(codings)-1 { // its data is known
				window = max(brotliWindow(first), reusedWindow)
			}
			n += window + brotliTables
		}
	}
	return n
}

// brotliWindow returns the size of the window of brotli data (RFC 7932, section 9.1), at least 64
// KiB.
func brotliWindow(first []byte) int64 {
	if len(first) == 0 || first[0]&1 == 0 {
		return 1 << 16
	}
	return 1 << (17 + first[0]>>1&7)
}

// coding is a content coding of the IANA HTTP Content Coding Registry.
type coding uint8

const (
	codingGzip    coding = iota // RFC 9110, section 8.4.1.3
	codingDeflate               // section 8.4.1.2: zlib, or in practice raw deflate data
	codingBrotli                // RFC 7932
	codingZstd                  // RFC 8878
	codingCount
)

// codingsOf parses the Content-Encoding fields of h (RFC 9110, section 8.4) and returns the codings
// in the order in which they were applied. Names that mean no coding are skipped, including "none"
// and "utf-8", which some servers send. Errors match ErrEncoding.
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

// decodeStage is one step of the decoding of a body.
type decodeStage interface {
	io.Reader
	readErr() error // that ended it, except io.EOF
}

// decoder decodes one coding. start is called before the first Read. After io.EOF, nextPart reports
// whether the data continues with another part, which the next Read returns.
type decoder interface {
	io.Reader
	start(src *bufio.Reader) error
	nextPart(src *bufio.Reader) (bool, error)
	release()
}

// layer is one coding of a body, with limits on the decoded data. It starts with the first Read,
// because an empty body is valid in every coding.
type layer struct {
	below   decodeStage
	wire    *countingReader
	src     *bufio.Reader
	dec     decoder
	left    int64 // maximum number of decoded bytes
	n       int64 // decoded bytes
	started bool
	done    bool
	err     error
}

func (l *layer) readErr() error { return l.err }

// Read decodes into p, which is not empty. Errors of the stage below are returned unchanged, those
// of the data as errBrokenCoding or ErrBomb.
func (l *layer) Read(p []byte) (int, error) {
	if l.err != nil {
		return 0, l.err
	}
	if l.done {
		return 0, io.EOF
	}
	if !l.started {
		l.started = true
		if _, err := l.src.Peek(1); err == io.EOF {
			l.done = true
			return 0, io.EOF
		}
		if err := l.dec.start(l.src); err != nil {
			return 0, l.wrapError(err)
		}
	}
	for { // until a part is not empty
		n, err := l.dec.Read(p)
		l.n += int64(n)
		if err == io.EOF { //nolint:errorlint // Read returns io.EOF itself
			err = l.finish()
		} else if err != nil {
			err = l.wrapError(err)
		}
		if err = l.checkLimits(err); n > 0 || err != nil {
			return n, err
		}
	}
}

// checkLimits returns err, or an error if a limit is exceeded.
func (l *layer) checkLimits(err error) error {
	switch {
	case err != nil && err != io.EOF: //nolint:errorlint // Read returns io.EOF itself
	case l.n > ratioExempt && l.n/maxRatio > l.wire.n.Load():
		l.err = fmt.Errorf("%w: %d bytes from %d", ErrBomb, l.n, l.wire.n.Load())
		return l.err
	case l.n > l.left:
		l.err = errTooLong
		return l.err
	}
	return err
}

// finish starts the next part of the data. After the last part it discards what follows: padding
// and other data are ignored there, as in browsers.
func (l *layer) finish() error {
	more, err := l.dec.nextPart(l.src)
	if err != nil {
		return l.wrapError(err)
	}
	if more {
		return nil
	}
	l.done = true
	if _, err := io.Copy(io.Discard, l.src); err != nil {
		return l.wrapError(err)
	}
	return io.EOF
}

// wrapError returns the error of the stage below, if there is one; otherwise the data is invalid.
func (l *layer) wrapError(err error) error {
	if l.err = l.below.readErr(); l.err == nil {
		l.err = fmt.Errorf("%w: %v", errBrokenCoding, err) //nolint:errorlint // of a library
	}
	return l.err
}

// errBrokenCoding wraps the errors of decoders.
var errBrokenCoding = errors.New("broken content coding")

// sources, shortBodies and decoders hold readers that are expensive to create. The memory of a
// decoder is limited by its window, and the garbage collector empties the pools.
var (
	sources     = sync.Pool{New: func() any { return bufio.NewReaderSize(nil, 8<<10) }}
	shortBodies = sync.Pool{New: func() any { return bufio.NewReaderSize(nil, shortBody) }}
	decoders    = [codingCount]sync.Pool{
		codingGzip:    {New: func() any { return new(gzipDecoder) }},
		codingDeflate: {New: func() any { return new(deflateDecoder) }},
		codingBrotli:  {New: func() any { return new(brotliDecoder) }},
		codingZstd:    {New: func() any { return newZstdDecoder() }},
	}
)

// awaitBody waits for the beginning of a body, and then for the memory of its decoders with large
// windows: in the sum of all bodies while the rest is being received, or, if that was all, in a sum
// of their own, which nothing occupies that waits for a server. The function returned releases it.
func (o *bodyOptions) awaitBody(wire *bufio.Reader, codings []coding) (func(), error) {
	first, err := wire.Peek(shortBody)
	hold := o.hold
	if err != nil {
		hold = &reservation{memory: o.decoders, ctx: hold.ctx, wait: hold.wait}
	}
	hold.size += decoderMemory(codings, first)
	if err = hold.acquire(); hold == o.hold {
		return func() {}, err
	}
	return hold.release, err
}

// decode returns a reader that decodes a body, and a function that releases its parts after the
// last read. Each layer returns at most limit bytes, plus one. Data of wire is in first, if it is
// not nil.
func decode(
	wire *countingReader, first *bufio.Reader, codings []coding, limit int64,
) (src decodeStage, free func()) {
	src = wire
	if len(codings) == 0 {
		return src, func() {}
	}
	layers := make([]*layer, len(codings))
	for i := range codings {
		c := codings[len(codings)-1-i] // the last coding applied is decoded first
		l := &layer{below: src, wire: wire, left: limit}
		l.dec = decoders[c].Get().(decoder)
		if l.src = first; i > 0 || first == nil {
			l.src = sources.Get().(*bufio.Reader)
			l.src.Reset(src)
		}
		layers[i], src = l, l
	}
	return src, func() {
		for i, l := range layers {
			l.dec.release()
			if l.src != first {
				l.src.Reset(nil)
				sources.Put(l.src)
			}
			decoders[codings[len(codings)-1-i]].Put(l.dec)
		}
	}
}

// gzipDecoder decodes one member after the other, so that other data may follow the last one.
type gzipDecoder struct{ gzip.Reader }

func (d *gzipDecoder) start(src *bufio.Reader) error {
	err := d.Reset(src)
	d.Multistream(false)
	return err
}

func (d *gzipDecoder) nextPart(src *bufio.Reader) (bool, error) {
	magic, _ := src.Peek(2)
	if string(magic) != "\x1f\x8b" {
		return false, nil
	}
	return true, d.start(src)
}

func (d *gzipDecoder) release() {}

// deflateDecoder recognizes zlib (RFC 1950, section 2.2) by its first two bytes. Raw deflate data
// never begins with them: it would be a stored block with nonzero padding bits.
type deflateDecoder struct {
	io.Reader
	zlib, bare io.ReadCloser
}

func (d *deflateDecoder) start(src *bufio.Reader) (err error) {
	head, _ := src.Peek(2)
	if len(head) == 2 && head[0]&0x0f == 8 && head[0]>>4 <= 7 &&
		(int(head[0])<<8|int(head[1]))%31 == 0 {
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

func (d *deflateDecoder) nextPart(*bufio.Reader) (bool, error) { return false, nil }
func (d *deflateDecoder) release()                             {}

// brotliDecoder accepts no padding: its library reports it as an error.
type brotliDecoder struct {
	brotli.Reader
	wide bool // its window is larger than reusedWindow
}

func (d *brotliDecoder) start(src *bufio.Reader) error {
	first, _ := src.Peek(1)
	d.wide = brotliWindow(first) > reusedWindow
	return d.Reset(src)
}

func (d *brotliDecoder) nextPart(*bufio.Reader) (bool, error) { return false, nil }

func (d *brotliDecoder) release() {
	if d.wide {
		*d = brotliDecoder{}
	}
	_ = d.Reset(nil)
}

// zstdDecoder accepts any number of frames, and no padding.
type zstdDecoder struct{ *zstd.Decoder }

func newZstdDecoder() *zstdDecoder {
	d, err := zstd.NewReader(nil,
		zstd.WithDecoderConcurrency(1), // no goroutines
		zstd.WithDecoderLowmem(true),
		zstd.WithDecoderMaxWindow(maxWindow))
	if err != nil {
		panic(err) // the options are incompatible
	}
	return &zstdDecoder{d}
}

func (d *zstdDecoder) start(src *bufio.Reader) error        { return d.Reset(src) }
func (d *zstdDecoder) nextPart(*bufio.Reader) (bool, error) { return false, nil }
func (d *zstdDecoder) release()                             { _ = d.Reset(nil) }

// Decode decodes a stored body according to the Content-Encoding of h. The result is cut at limit
// bytes, and at an error in the data. It returns an error if a coding is unknown or the data is
// invalid from its beginning.
func Decode(raw []byte, h http.Header, limit int64) ([]byte, error) {
	codings, err := codingsOf(h)
	if err != nil {
		return nil, err
	}
	if len(codings) == 0 {
		return raw[:min(int64(len(raw)), limit)], nil
	}
	stored := &countingReader{r: bytes.NewReader(raw), left: int64(len(raw))}
	src, free := decode(stored, nil, codings, limit)
	defer free()
	body, err := io.ReadAll(io.LimitReader(src, limit))
	if len(body) > 0 {
		err = nil
	}
	return body, err
}
