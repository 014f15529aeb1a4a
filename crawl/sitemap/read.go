package sitemap

import (
	"bufio"
	"bytes"
	"errors"
	"io"

	"github.com/klauspost/compress/gzip"
)

const (
	// maxLayers is how often a document is inflated: once as file, once more
	// where a server compressed the compressed.
	maxLayers = 2
	// freeBytes may be inflated from however few bytes.
	freeBytes = 1 << 20
	// maxToken bounds one tag, text or comment in bytes, which the XML decoder
	// holds as a whole.
	maxToken = 1 << 20
)

var (
	errBytes = errors.New("sitemap: too many bytes")
	errToken = errors.New("sitemap: token is too long")
)

// inflate returns the content of body, to be read up to the limits. An error
// within the compressed data is met when it is read.
func inflate(body []byte, o Options) *bufio.Reader {
	r := bufio.NewReader(bytes.NewReader(body))
	left := o.MaxBytes
	for range maxLayers {
		if magic, _ := r.Peek(2); string(magic) != "\x1f\x8b" {
			break
		}
		gz, err := gzip.NewReader(r)
		if err != nil {
			return bufio.NewReader(&failing{err})
		}
		left = min(left, max(freeBytes, o.MaxRatio*int64(len(body))))
		r = bufio.NewReader(&limited{r: gz, left: o.MaxBytes})
	}
	return bufio.NewReaderSize(&limited{r: r, left: left}, 16<<10)
}

// limited fails when more than left bytes come.
type limited struct {
	r    io.Reader
	left int64
}

func (l *limited) Read(p []byte) (int, error) {
	if int64(len(p)) > l.left+1 {
		p = p[:l.left+1]
	}
	n, err := l.r.Read(p)
	if l.left -= int64(n); l.left < 0 {
		n, l.left = n-1, 0
		return n, errBytes
	}
	return n, err
}

// failing is a reader that holds nothing but an error.
type failing struct{ err error }

func (f *failing) Read([]byte) (int, error) { return 0, f.err }

// source hands bytes to the XML decoder, one at a time, so that what one token
// reads can be bounded.
type source struct {
	r    *bufio.Reader
	left int // bytes that the present token may still read
}

func newSource(r io.Reader) *source {
	return &source{r: bufio.NewReaderSize(r, 16<<10), left: maxToken}
}

// head returns the first kilobytes without consuming them.
func (s *source) head() []byte {
	b, _ := s.r.Peek(4 << 10)
	return b
}

// ReadByte implements io.ByteReader.
func (s *source) ReadByte() (byte, error) {
	if s.left <= 0 {
		return 0, errToken
	}
	s.left--
	return s.r.ReadByte()
}

// Read implements io.Reader. The decoder prefers ReadByte.
func (s *source) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	b, err := s.ReadByte()
	if err != nil {
		return 0, err
	}
	p[0] = b
	return 1, nil
}
