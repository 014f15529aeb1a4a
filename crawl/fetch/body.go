package fetch

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// ratioFree is how much a body may hold before the ratio of its coding counts:
// pages of nothing but spaces are no attack.
const ratioFree = 1 << 20

const (
	// firstBuffer is what a body of unknown length begins with.
	firstBuffer = 32 << 10
	// trusted is how much room a Content-Length gets before anything came.
	trusted = 256 << 10
	// keptBuffer is the largest buffer that is kept for the next body.
	keptBuffer = 1 << 20
	// hugeBody keeps sums with a limit from overflowing.
	hugeBody = 1 << 40
)

// buffers holds what bodies were read into and Result.Release gave back.
var buffers sync.Pool // of *[]byte

// newBuffer returns an empty buffer with room for at least size bytes.
func newBuffer(size int64) []byte {
	if b, ok := buffers.Get().(*[]byte); ok && int64(cap(*b)) >= size {
		return (*b)[:0]
	}
	return make([]byte, 0, size)
}

func putBuffer(b []byte) {
	if c := cap(b); c >= 4<<10 && c <= keptBuffer {
		buffers.Put(&b)
	}
}

// lent is what a Result borrows from buffers. Copies of the Result share it, so
// that only the first Release gives anything back.
type lent struct{ body, raw atomic.Pointer[[]byte] }

func (l *lent) release() {
	for _, p := range []*atomic.Pointer[[]byte]{&l.body, &l.raw} {
		if b := p.Swap(nil); b != nil {
			putBuffer(*b)
		}
	}
}

// body is what was read of one.
type body struct {
	data  []byte // decoded
	raw   []byte // as it came; data itself if there is no coding, nil if not asked for
	cut   bool   // there was more than the limit
	coded bool   // raw is not data
}

// readBody reads and decodes a body of at most limit bytes, on the wire and
// decoded; beyond that it is cut. The caller closes the body. An error of the
// connection is returned as it is, one of the coding wrapped; then there is no
// body. With raw, the bytes are kept as they came, too.
func (f *Fetcher) readBody(resp *http.Response, wire *meter, limit int64, raw bool) (body, error) {
	limit = min(limit, hugeBody)
	wire.left = limit
	codings, err := codingsOf(resp.Header)
	if err != nil {
		return body{}, err
	}
	if raw = raw && len(codings) > 0; raw {
		wire.copy = newBuffer(room(resp.ContentLength, limit))
	}
	size := room(resp.ContentLength, limit)
	if len(codings) > 0 {
		size = min(8*size, firstBuffer) // text gets that small
	}
	src, free := decode(wire, codings, limit, f.cfg.MaxRatio)
	data, err := fill(newBuffer(size), src, limit)
	free()
	cut := int64(len(data)) > limit || errors.Is(err, errMeter)
	if err != nil && !cut {
		putBuffer(data)
		putBuffer(wire.copy)
		return body{}, err
	}
	b := body{data: data[:min(int64(len(data)), limit)], cut: cut, raw: wire.copy, coded: raw}
	if !raw {
		b.raw = b.data
	}
	return b, nil
}

// room is what to set aside for a body whose head promises length bytes; one
// byte more is where its end is met.
func room(length, limit int64) int64 {
	if length < 0 {
		return firstBuffer
	}
	return min(length, limit, trusted) + 1
}

// fill appends what src has to b, until its end or more than limit bytes.
func fill(b []byte, src io.Reader, limit int64) ([]byte, error) {
	for int64(len(b)) <= limit {
		if len(b) == cap(b) {
			grown := make([]byte, len(b), min(2*int64(cap(b))+firstBuffer, limit+1))
			copy(grown, b)
			putBuffer(b)
			b = grown
		}
		n, err := src.Read(b[len(b):min(int64(cap(b)), limit+1)])
		b = b[:len(b)+n]
		if err == io.EOF {
			return b, nil
		}
		if err != nil {
			return b, err
		}
	}
	return b, nil
}

// errMeter ends a body that is longer than its limit.
var errMeter = errors.New("body too long")

// meter counts what comes in, and ends it with errMeter after left bytes.
type meter struct {
	r    io.Reader
	n    atomic.Int64 // bytes; read by pace, too
	left int64
	copy []byte // of what came, if it is not nil
	err  error  // what ended it, except io.EOF
}

func (m *meter) failed() error { return m.err }

// Read reads, counts and remembers an error.
func (m *meter) Read(p []byte) (int, error) {
	if m.left < 0 {
		return 0, m.err
	}
	if int64(len(p)) > m.left+1 { // one more tells "too long" from "just fits"
		p = p[:m.left+1]
	}
	n, err := m.r.Read(p)
	m.n.Add(int64(n))
	if m.left -= int64(n); m.left < 0 {
		n, err = n-1, errMeter
	}
	if m.copy != nil {
		m.copy = append(m.copy, p[:n]...)
	}
	if err != nil && err != io.EOF {
		m.err = err
	}
	return n, err
}

// drain reads away a body that is not taken if it is small, for the sake of
// its connection. How it ends does not matter: if not at the end of the body,
// the connection is closed. With raw it returns what came, and whether that is
// the whole body.
func (f *Fetcher) drain(cancel context.CancelFunc, resp *http.Response, wire *meter, raw bool) (b []byte, whole bool) {
	if resp.ContentLength > drainLimit && !raw {
		return nil, false
	}
	defer time.AfterFunc(f.cfg.DrainTimeout, cancel).Stop()
	wire.left = drainLimit
	if !raw {
		_, err := io.Copy(io.Discard, wire)
		return nil, err == nil
	}
	b, err := fill(newBuffer(room(resp.ContentLength, drainLimit)), wire, drainLimit)
	return b, err == nil
}
