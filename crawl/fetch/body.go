package fetch

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"peerd/crawl/extract"
)

// maxRatio is the maximum number of decoded bytes per byte received, beyond the first ratioExempt
// bytes: pages of nothing but spaces are harmless.
const maxRatio, ratioExempt = 200, 1 << 20

const (
	// initialBuffer is the initial buffer size for a body of unknown length.
	initialBuffer = 32 << 10
	// maxPooledBuffer is the size of the largest buffer that is reused. Others are reserved.
	maxPooledBuffer = freeBody
	// maxBodyLimit prevents sums with a limit from overflowing.
	maxBodyLimit = 1 << 40
)

// buffers holds buffers of bodies that were returned by Result.Release.
var buffers sync.Pool // of *[]byte

// newBuffer returns an empty buffer with a capacity of at least size bytes.
func newBuffer(size int64) []byte {
	if b, ok := buffers.Get().(*[]byte); ok && int64(cap(*b)) >= size {
		return (*b)[:0]
	}
	return make([]byte, 0, size)
}

func putBuffer(b []byte) {
	if c := cap(b); c >= 4<<10 && c <= maxPooledBuffer {
		buffers.Put(&b)
	}
}

// pooledBuffers are the buffers that a Result borrows from the pool, and the memory reserved for
// them. Copies of the Result share them, so that only the first Release returns them.
type pooledBuffers struct {
	body, raw atomic.Pointer[[]byte]
	hold      *reservation
}

func (l *pooledBuffers) release() {
	for _, p := range []*atomic.Pointer[[]byte]{&l.body, &l.raw} {
		if b := p.Swap(nil); b != nil {
			putBuffer(*b)
		}
	}
	l.hold.release()
}

// body is the body of a response.
type body struct {
	data  []byte // decoded
	raw   []byte // as received; data itself if there is no coding, nil if not requested
	cut   bool   // the body is longer than the limit
	coded bool   // raw is not the same slice as data
}

// bodyOptions say how a body is read.
type bodyOptions struct {
	limit int64
	raw   bool   // keep the bytes as received as well
	start []byte // from an earlier response; the body received continues it
	html  bool   // only a body that begins like a page is wanted
	sent  string // the Content-Type field
	hold  *reservation
	// decoders limits the memory of decoders for short bodies.
	decoders *memory
}

// errUnwanted means that the first bytes of a body show that it is not wanted.
var errUnwanted = errors.New("body is not of the expected type")

// readBody reads and decodes a body. It is cut at the limit, both as received and decoded. The
// caller closes the body. Errors of the connection are returned unchanged, those of a coding are
// wrapped; in both cases data is what was received of a body without a coding. With errUnwanted,
// raw is what was received.
func readBody(resp *http.Response, wire *countingReader, o bodyOptions) (body, error) {
	o.limit = min(o.limit, maxBodyLimit)
	wire.left = o.limit - int64(len(o.start))
	wire.hold = o.hold
	codings, err := codingsOf(resp.Header)
	if err != nil {
		return body{}, err
	}
	size := bufferSize(resp.ContentLength, o.limit)
	coded := len(codings) > 0
	received := o.limit
	if resp.ContentLength >= 0 {
		received = min(o.limit, resp.ContentLength+int64(len(o.start))) + 1
	}
	o.hold.size = received
	if coded {
		o.hold.size = o.limit
		if o.raw {
			wire.copy = newBuffer(size)
			o.hold.size += received
		}
		size = min(8*size, initialBuffer) // a typical ratio for text
	}
	var first *bufio.Reader
	if decoderMemory(codings, nil) > 0 {
		first = shortBodies.Get().(*bufio.Reader)
		first.Reset(wire)
		defer func() {
			first.Reset(nil)
			shortBodies.Put(first)
		}()
		release, err := o.awaitBody(first, codings)
		if err != nil {
			return body{}, err
		}
		defer release()
	}
	data := o.start
	if data == nil {
		data = newBuffer(size)
	}
	src, free := decode(wire, first, codings, o.limit)
	data, err = o.readUpTo(data, src)
	free()
	b := body{
		data: data[:min(int64(len(data)), o.limit)], raw: wire.copy, coded: coded && o.raw,
		cut: int64(len(data)) > o.limit || errors.Is(err, errTooLong),
	}
	if !coded {
		b.raw = b.data
	}
	if err == nil || b.cut {
		return b, nil
	}
	if coded {
		putBuffer(data)
		b.data = nil
	}
	return b, err
}

// bufferSize returns the initial buffer size for a body with a Content-Length. The end of the body
// is detected with one more byte.
func bufferSize(length, limit int64) int64 {
	if length < 0 {
		return initialBuffer
	}
	return min(length, limit, freeBody-1) + 1
}

// readUpTo appends the data of src to b, until the end of src or more than the limit.
func (o *bodyOptions) readUpTo(b []byte, src io.Reader) ([]byte, error) {
	undecided := o.html
	if cap(b) > freeBody { // the beginning of an earlier response
		if err := o.hold.acquire(); err != nil {
			return b, err
		}
	}
	for int64(len(b)) <= o.limit {
		if len(b) == cap(b) {
			size := min(2*int64(cap(b))+initialBuffer, o.limit+1)
			if size > freeBody {
				if err := o.hold.acquire(); err != nil {
					return b, err
				}
				size = min(size, max(o.hold.size, int64(len(b))+initialBuffer))
			}
			grown := make([]byte, len(b), size)
			copy(grown, b)
			putBuffer(b)
			b = grown
		}
		end := min(int64(cap(b)), o.limit+1)
		if undecided {
			end = min(end, int64(len(b))+initialBuffer) // a reused buffer may be large
		}
		n, err := src.Read(b[len(b):end])
		b = b[:len(b)+n]
		if err != nil && err != io.EOF {
			return b, err
		}
		if undecided && (len(b) >= sniffed || err == io.EOF) {
			undecided = false
			if found := sniffType(o.sent, b); len(b) > 0 && found != o.sent &&
				!extract.IsHTML(found) {
				return b, errUnwanted
			}
		}
		if err == io.EOF {
			return b, nil
		}
	}
	return b, nil
}

// errTooLong means that a body is longer than its limit.
var errTooLong = errors.New("body too long")

// countingReader counts the bytes of a body, and fails with errTooLong after left bytes.
type countingReader struct {
	r    io.Reader
	n    atomic.Int64 // bytes; also read by progress
	left int64
	copy []byte // receives the bytes, unless it is nil
	hold *reservation
	err  error // that ended it, except io.EOF
}

func (m *countingReader) readErr() error { return m.err }

// Read reads and counts bytes, and records an error.
func (m *countingReader) Read(p []byte) (int, error) {
	if m.left < 0 {
		return 0, m.err
	}
	if int64(len(p)) > m.left+1 { // one more shows whether the body is too long
		p = p[:m.left+1]
	}
	n, err := m.r.Read(p)
	m.n.Add(int64(n))
	if m.left -= int64(n); m.left < 0 {
		n, err = n-1, errTooLong
	}
	if m.copy != nil {
		if len(m.copy)+n > freeBody {
			if full := m.hold.acquire(); full != nil {
				m.err = full
				return 0, full
			}
		}
		m.copy = append(m.copy, p[:n]...)
	}
	if err != nil && err != io.EOF {
		m.err = err
	}
	return n, err
}

// drain reads a small body that is not wanted, so that the connection can be reused. Errors are
// ignored: unless the end of the body is reached, the connection is closed.
func (f *Fetcher) drain(cancel context.CancelFunc, resp *http.Response, wire *countingReader) {
	if resp.ContentLength > drainLimit {
		return
	}
	defer time.AfterFunc(f.cfg.DrainTimeout, cancel).Stop()
	wire.left, wire.copy = drainLimit, nil
	_, _ = io.Copy(io.Discard, wire)
}

// readRaw reads the rest of a body that is kept only as received: up to limit bytes with those in
// start. An error ends the body.
func readRaw(
	resp *http.Response, wire *countingReader, start []byte, limit int64, hold *reservation,
) (b []byte, err error) {
	if start == nil {
		start = newBuffer(bufferSize(resp.ContentLength, limit))
	}
	o := bodyOptions{limit: max(min(limit, maxBodyLimit), int64(len(start))), hold: hold}
	wire.left, wire.copy = o.limit-int64(len(start)), nil
	if hold.size = o.limit; resp.ContentLength >= 0 {
		hold.size = min(o.limit, resp.ContentLength) + 1
	}
	b, err = o.readUpTo(start, wire)
	return b[:min(int64(len(b)), o.limit)], err
}
