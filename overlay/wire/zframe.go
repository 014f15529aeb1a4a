package wire

import (
	"bytes"
	"fmt"
	"io"
	"sync"

	"github.com/klauspost/compress/zstd"
)

// maxWindow bounds the memory that a compressed frame may ask its reader to
// keep for back references (RFC 8878 section 3.1.1.1.2). Bytes.
const maxWindow = 8 << 20

// encoder is shared: EncodeAll is safe for concurrent use.
var encoder = must(zstd.NewWriter(nil,
	zstd.WithEncoderLevel(zstd.SpeedDefault),
	zstd.WithEncoderConcurrency(1),
	zstd.WithWindowSize(1<<20),
	zstd.WithZeroFrames(true),
	zstd.WithEncoderCRC(true),
))

// decoders keeps synchronous decoders: they own no goroutine.
var decoders = sync.Pool{New: func() any {
	return must(zstd.NewReader(nil,
		zstd.WithDecoderConcurrency(1),
		zstd.WithDecoderLowmem(true),
		zstd.WithDecoderMaxWindow(maxWindow),
	))
}}

// WriteMsgZ writes v as one compressed frame. Use it where messages are large
// and alike, such as lists of URLs.
func WriteMsgZ(w io.Writer, v any) error {
	body, err := Marshal(v)
	if err != nil {
		return err
	}
	if len(body) > MaxFrame {
		return fmt.Errorf("%w: %d bytes to write, at most %d", ErrTooLarge, len(body), MaxFrame)
	}
	return writeFrame(w, encoder.EncodeAll(body, nil))
}

// ReadMsgZ reads one compressed frame into the pointer v. Neither the frame
// nor what it decompresses to may exceed max bytes; decompression stops there.
func ReadMsgZ(r io.Reader, max int, v any) error {
	packed, err := readFrame(r, max)
	if err != nil {
		return err
	}
	body, err := unpack(packed, min(max, MaxFrame))
	if err != nil {
		return err
	}
	return Unmarshal(body, v)
}

// unpack decompresses at most max bytes.
func unpack(packed []byte, max int) ([]byte, error) {
	d := decoders.Get().(*zstd.Decoder)
	defer decoders.Put(d)
	if err := d.Reset(bytes.NewReader(packed)); err != nil {
		return nil, fmt.Errorf("wire: decompress: %w", err)
	}
	defer func() { _ = d.Reset(nil) }() // drops the reference to packed
	body, err := io.ReadAll(io.LimitReader(d, int64(max)+1))
	if err != nil {
		return nil, fmt.Errorf("wire: decompress: %w", err)
	}
	if len(body) > max {
		return nil, fmt.Errorf("%w: it decompresses to more than %d bytes", ErrTooLarge, max)
	}
	return body, nil
}
