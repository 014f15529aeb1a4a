package sitemap

import (
	"bufio"
	"bytes"
	"errors"
	"io"

	"github.com/klauspost/compress/gzip"
)

const (
	// maxGzipLayers is how often a document is inflated at most: some servers compress a file
	// that is already compressed.
	maxGzipLayers = 2
	// ratioExempt is the size up to which the compression ratio is not limited.
	ratioExempt = 1 << 20
	// maxToken is the maximum size in bytes of a tag, text or comment, which the XML decoder
	// holds in memory as a whole.
	maxToken = 1 << 20
)

var (
	errBytes = errors.New("sitemap: too many bytes")
	errToken = errors.New("sitemap: token is too long")
)

// inflate returns a reader of the content of body, within the limits. Errors in the compressed
// data are returned when they are read.
func inflate(body []byte, o Options) *bufio.Reader {
	r := bufio.NewReader(bytes.NewReader(body))
	left := o.MaxBytes
	for range maxGzipLayers {
		if magic, _ := r.Peek(2); string(magic) != "\x1f\x8b" {
			break
		}
		gz, err := gzip.NewReader(r)
		if err != nil {
			return bufio.NewReader(&errorReader{err})
		}
		left = min(left, max(ratioExempt, o.MaxRatio*int64(len(body))))
		r = bufio.NewReader(&limitedReader{r: gz, left: o.MaxBytes})
	}
	return bufio.NewReaderSize(&limitedReader{r: r, left: left}, 16<<10)
}

// limitedReader fails after left bytes, unless the data ends there.
type limitedReader struct {
	r    io.Reader
	left int64
}

func (l *limitedReader) Read(p []byte) (int, error) {
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

// errorReader is a reader that returns only an error.
type errorReader struct{ err error }

func (f *errorReader) Read([]byte) (int, error) { return 0, f.err }

// source passes single bytes to the XML decoder, so that the size of a token can be limited.
type source struct {
	r    *bufio.Reader
	left int // bytes that the current token may still read
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
