//go:build !wasip1

package record

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/fxamacker/cbor/v2"
)

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
