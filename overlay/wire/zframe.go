package wire

import (
	"bytes"
	"fmt"
	"io"
	"sync"

	"github.com/klauspost/compress/zstd"
)

// window is how far back references in a compressed frame go (RFC 8878 section 3.1.1.1.2). The
// reader of the smallest frame has to allocate as much, and does not count it. Bytes.
const window = 1 << 20

// encoder is shared: EncodeAll is safe for concurrent use.
var encoder = must(zstd.NewWriter(nil,
	zstd.WithEncoderLevel(zstd.SpeedDefault),
	zstd.WithEncoderConcurrency(1),
	zstd.WithWindowSize(window),
	zstd.WithZeroFrames(true),
	zstd.WithEncoderCRC(true),
))

// decoders keeps synchronous decoders: they own no goroutine.
var decoders = sync.Pool{New: func() any {
	return must(zstd.NewReader(nil,
		zstd.WithDecoderConcurrency(1),
		zstd.WithDecoderLowmem(true),
		zstd.WithDecoderMaxWindow(window),
	))
}}

// WriteMsgZ writes v as one compressed frame. Use it where messages are large
// and alike, such as lists of URLs.
func WriteMsgZ(w io.Writer, v any) error {
	body, err := Marshal(v)
	if err != nil {
		return err
	}
	return WriteBodyZ(w, body)
}

// WriteBodyZ writes an encoded message as one compressed frame.
func WriteBodyZ(w io.Writer, body []byte) error {
	if len(body) > MaxFrame {
		return fmt.Errorf("%w: %d bytes to write, at most %d", ErrTooLarge, len(body), MaxFrame)
	}
	return writeFrame(w, encoder.EncodeAll(body, nil))
}

// unpack decompresses at most max bytes. It calls from.Use before it allocates.
func unpack(packed []byte, max int, from charger) ([]byte, error) {
	d := decoders.Get().(*zstd.Decoder)
	defer decoders.Put(d)
	if err := d.Reset(bytes.NewReader(packed)); err != nil {
		return nil, fmt.Errorf("wire: decompress: %w", err)
	}
	defer func() { _ = d.Reset(nil) }() // drops the reference to packed
	body := boundedBuffer{max: max, from: from}
	if _, err := d.WriteTo(&body); err != nil {
		return nil, fmt.Errorf("wire: decompress: %w", err)
	}
	return body.Bytes(), nil
}

// boundedBuffer is a buffer that does not grow above max bytes.
type boundedBuffer struct {
	bytes.Buffer
	max  int
	from charger // charged before it grows
}

// Write implements io.Writer.
func (b *boundedBuffer) Write(p []byte) (int, error) {
	if b.Len()+len(p) > b.max {
		return 0, fmt.Errorf("%w: it decompresses to more than %d bytes", ErrTooLarge, b.max)
	}
	if err := b.from.Use(len(p)); err != nil {
		return 0, err
	}
	return b.Buffer.Write(p)
}
