package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// ErrTooLarge is returned when a frame, or what it decompresses to, is larger
// than the reader or the format allows. The stream is of no use afterwards.
var ErrTooLarge = errors.New("wire: message too large")

// errEmpty is returned for a frame without a body, in which no value can be encoded.
var errEmpty = errors.New("wire: empty frame")

// MaxFrame is the largest body that is written or read, whatever the
// caller allows. Bytes.
const MaxFrame = 64 << 20

// initialBuffer is how much is allocated for a frame before its bytes arrive, so
// that a length alone costs the reader next to nothing.
const initialBuffer = 64 << 10

// WriteMsg writes v as one frame in a single Write. It returns ErrTooLarge,
// with nothing written, when v encodes to more than MaxFrame bytes.
func WriteMsg(w io.Writer, v any) error {
	body, err := Marshal(v)
	if err != nil {
		return err
	}
	return writeFrame(w, body)
}

// charger counts the memory of a message, as a Conn does.
type charger interface{ Use(n int) error }

// decode decodes the body of a frame into the pointer v. Before memory is allocated for n
// bytes, it calls from.Use(n) and returns its error.
func decode(body []byte, max int, v any, packed bool, from charger) error {
	if packed {
		var err error
		if body, err = unpack(body, min(max, MaxFrame), from); err != nil {
			return err
		}
	}
	size, err := decodedSize(body, v)
	if err != nil {
		return err
	}
	if err := from.Use(size); err != nil {
		return err
	}
	return unmarshal(body, v)
}

// writeFrame puts length and body into one Write: one packet, where two would
// cost the other side a wake-up more.
func writeFrame(w io.Writer, body []byte) error {
	if len(body) > MaxFrame {
		return fmt.Errorf("%w: %d bytes to write, at most %d", ErrTooLarge, len(body), MaxFrame)
	}
	frame := make([]byte, 0, binary.MaxVarintLen32+len(body))
	frame = binary.AppendUvarint(frame, uint64(len(body)))
	frame = append(frame, body...)
	if _, err := w.Write(frame); err != nil {
		return fmt.Errorf("wire: write frame: %w", err)
	}
	return nil
}

// readBody returns the n bytes of a frame.
func readBody(r io.Reader, n int) ([]byte, error) {
	var body []byte
	for len(body) < n {
		size := min(n, max(initialBuffer, 8*len(body)))
		body = append(make([]byte, 0, size), body...)
		got, err := io.ReadFull(r, body[len(body):size])
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return nil, fmt.Errorf("wire: read frame: %w", err)
		}
		body = body[:len(body)+got]
	}
	return body, nil
}

// readLength returns the length of the next frame, which has 1 to max bytes.
func readLength(r io.Reader, max int) (int, error) {
	n, err := readUvarint(r)
	if err != nil {
		return 0, err
	}
	if n == 0 {
		return 0, errEmpty
	}
	if n > uint64(min(max, MaxFrame)) {
		return 0, fmt.Errorf("%w: a frame of %d bytes, at most %d", ErrTooLarge, n, max)
	}
	return int(n), nil
}

// readUvarint reads the length byte by byte, as the stream behind is not
// buffered and the bytes after the frame belong to the next reader.
func readUvarint(r io.Reader) (uint64, error) {
	var length uint64
	var b [1]byte
	for i := range binary.MaxVarintLen32 {
		if _, err := io.ReadFull(r, b[:]); err != nil {
			if i == 0 {
				return 0, err
			}
			return 0, fmt.Errorf("wire: read length: %w", io.ErrUnexpectedEOF)
		}
		length |= uint64(b[0]&0x7f) << (7 * i)
		if b[0] < 0x80 {
			return length, nil
		}
	}
	return 0, fmt.Errorf("%w: the length has more than %d bytes", ErrTooLarge,
		binary.MaxVarintLen32)
}
