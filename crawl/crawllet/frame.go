package crawllet

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// A reply is a sequence of frames: a byte for the kind, the length of the payload in four bytes,
// big endian, and the payload. The payloads of the data frames are one zstd stream (RFC 8878) with
// what the crawllet wrote. The last frame is an End in CBOR.
const (
	frameData = 'd'
	frameEnd  = 'e'

	frameHeader = 5
	maxFrame    = 1 << 20 // bytes of a payload
)

// writeFrame writes one frame.
func writeFrame(w io.Writer, kind byte, payload []byte) error {
	head := [frameHeader]byte{kind}
	binary.BigEndian.PutUint32(head[1:], uint32(len(payload)))
	if _, err := w.Write(head[:]); err != nil {
		return err
	}
	_, err := w.Write(payload)
	return err
}

// frameWriter writes data frames.
type frameWriter struct{ w io.Writer }

// Write implements io.Writer.
func (f frameWriter) Write(p []byte) (int, error) {
	for n := 0; n < len(p); {
		part := p[n:min(len(p), n+maxFrame)]
		if err := writeFrame(f.w, frameData, part); err != nil {
			return n, err
		}
		n += len(part)
	}
	return len(p), nil
}

// frameReader returns the payloads of data frames up to the last frame, which it keeps.
type frameReader struct {
	r    io.Reader
	left int   // bytes of the current frame
	end  *End  // the last frame, nil before it was read
	err  error // of all further reads
}

// Read implements io.Reader. The error is io.EOF only after a valid last frame.
func (f *frameReader) Read(p []byte) (int, error) {
	for f.left == 0 && f.err == nil {
		f.err = f.next()
	}
	if f.err != nil {
		return 0, f.err
	}
	n, err := f.r.Read(p[:min(len(p), f.left)])
	f.left -= n
	if err != nil && (f.left > 0 || !errors.Is(err, io.EOF)) {
		f.err = cutOff(err)
	}
	return n, nil
}

// next reads the header of a frame, and the payload of the last one.
func (f *frameReader) next() error {
	var head [frameHeader]byte
	if _, err := io.ReadFull(f.r, head[:]); err != nil {
		return cutOff(err)
	}
	n := binary.BigEndian.Uint32(head[1:])
	switch {
	case n > maxFrame:
		return fail(BadReply, fmt.Sprintf("a frame of %d bytes", n))
	case head[0] == frameData:
		f.left = int(n)
		return nil
	case head[0] != frameEnd:
		return fail(BadReply, "a frame of an unknown kind")
	}
	payload := make([]byte, n)
	if _, err := io.ReadFull(f.r, payload); err != nil {
		return cutOff(err)
	}
	end := new(End)
	if err := decMode.Unmarshal(payload, end); err != nil || len(end.Reason) > 64 {
		return fail(BadReply, "the last frame is not valid")
	}
	end.Detail = end.Detail[:min(len(end.Detail), maxDetail)]
	f.end = end
	return io.EOF
}

// cutOff returns the error of a reply that ended with err.
func cutOff(err error) error {
	return &Failure{CutOff, fmt.Sprintf("the reply ended early: %v", err)}
}
