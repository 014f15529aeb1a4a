package fetch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/klauspost/compress/gzip"
)

// ratioFree is how much a body may hold before the ratio of its gzip counts:
// small pages of nothing but spaces are no attack.
const ratioFree = 256 << 10

// keptBuffer is the largest buffer that is kept for the next body.
const keptBuffer = 1 << 20

// buffers holds what bodies are read into; a Result gets a copy of its size.
var buffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

func putBuffer(b *bytes.Buffer) {
	if b.Cap() <= keptBuffer {
		b.Reset()
		buffers.Put(b)
	}
}

// hugeBody keeps sums with a limit from overflowing.
const hugeBody = 1 << 40

// errGzip wraps what the decoder says of bad data.
var errGzip = errors.New("bad gzip")

// body is what was read of one.
type body struct {
	data []byte
	wire int64 // bytes as they came, before decoding
	cut  bool  // there was more than the limit
}

// readBody reads and decodes a body of at most limit bytes, on the wire and
// decoded; beyond that it is cut. The caller closes the body. An error of the
// connection is returned as it is, one of the gzip wrapped.
func (f *Fetcher) readBody(resp *http.Response, limit int64) (body, error) {
	limit = min(limit, hugeBody)
	wire := &meter{r: resp.Body, left: limit}
	var src io.Reader = wire
	switch coding := strings.ToLower(strings.Join(resp.Header["Content-Encoding"], ",")); strings.TrimSpace(coding) {
	case "", "identity":
	case "gzip", "x-gzip":
		zr := gzipReaders.Get().(*gzip.Reader)
		defer gzipReaders.Put(zr)
		src = &unzipper{zr: zr, wire: wire, ratio: f.cfg.MaxRatio}
	default:
		return body{}, fmt.Errorf("%w: %.40q", ErrEncoding, coding)
	}
	buf := buffers.Get().(*bytes.Buffer)
	defer putBuffer(buf)
	_, err := buf.ReadFrom(io.LimitReader(src, limit+1))
	cut := int64(buf.Len()) > limit || errors.Is(err, errMeter)
	if err != nil && !cut {
		return body{wire: wire.n}, err
	}
	data := buf.Bytes()
	return body{data: bytes.Clone(data[:min(int64(len(data)), limit)]), wire: wire.n, cut: cut}, nil
}

// errMeter ends a body that is longer than its limit on the wire.
var errMeter = errors.New("body too long")

// meter counts what comes in, and ends it with errMeter after left bytes.
type meter struct {
	r    io.Reader
	n    int64
	left int64
	err  error // what ended it, except io.EOF
}

// Read reads, counts and remembers an error.
func (m *meter) Read(p []byte) (int, error) {
	if m.left < 0 {
		return 0, m.err
	}
	if int64(len(p)) > m.left+1 { // one more tells "too long" from "just fits"
		p = p[:m.left+1]
	}
	n, err := m.r.Read(p)
	m.n += int64(n)
	if m.left -= int64(n); m.left < 0 {
		n, err = n-1, errMeter
	}
	if err != nil && err != io.EOF {
		m.err = err
	}
	return n, err
}

// gzipReaders holds decoders between uses: each has 40 KiB of tables.
var gzipReaders = sync.Pool{New: func() any { return new(gzip.Reader) }}

// unzipper decodes gzip and watches the ratio. It begins with the first Read,
// since an empty body is no gzip and yet no error.
type unzipper struct {
	zr    *gzip.Reader
	wire  *meter
	ratio int64
	begun bool
	n     int64
}

// Read decodes. Errors of the connection come as they are, others as errGzip.
func (u *unzipper) Read(p []byte) (int, error) {
	if !u.begun {
		u.begun = true
		if err := u.zr.Reset(u.wire); err != nil {
			if err == io.EOF && u.wire.n == 0 {
				return 0, io.EOF
			}
			return 0, u.blame(err)
		}
	}
	n, err := u.zr.Read(p)
	u.n += int64(n)
	if u.n > ratioFree && u.n > u.ratio*u.wire.n {
		return n, fmt.Errorf("%w: %d bytes from %d", ErrBomb, u.n, u.wire.n)
	}
	if err != nil && err != io.EOF {
		err = u.blame(err)
	}
	return n, err
}

// blame tells whether err is the connection's fault or the data's.
func (u *unzipper) blame(err error) error {
	if u.wire.err != nil {
		return u.wire.err
	}
	return fmt.Errorf("%w: %v", errGzip, err)
}

// drain reads away a body that is not taken if it is small, for the sake of
// its connection, and returns how much came. How it ends does not matter: if
// not at the end of the body, the connection is closed.
func (f *Fetcher) drain(cancel context.CancelFunc, resp *http.Response) int64 {
	if resp.ContentLength > drainLimit {
		return 0
	}
	defer time.AfterFunc(f.cfg.DrainTimeout, cancel).Stop()
	n, _ := io.Copy(io.Discard, io.LimitReader(resp.Body, drainLimit+1))
	return n
}
