package crawllet

import (
	"fmt"
	"io"
	"time"

	"github.com/klauspost/compress/zstd"
)

const (
	// flushSize and flushTime are how much output, and for how long, is kept back for better
	// compression.
	flushSize = 256 << 10
	flushTime = 50 * time.Millisecond
	// window is the distance over which repetitions are found, bytes. Pages of one site resemble
	// each other.
	window = 4 << 20
	chunk  = 64 << 10
)

// stream compresses output and sends it in frames.
type stream struct {
	enc *zstd.Encoder
	to  flushWriter
}

// flushWriter sends what was written when it is flushed.
type flushWriter interface {
	io.Writer
	Flush() error
}

func newStream(to flushWriter) (*stream, error) {
	enc, err := zstd.NewWriter(frameWriter{to}, zstd.WithEncoderConcurrency(1),
		zstd.WithWindowSize(window), zstd.WithEncoderLevel(zstd.SpeedDefault))
	return &stream{enc, to}, err
}

// copy sends the output as it is produced, up to the limit, in bytes. If it returns an error, it
// has called stop, which must end the output. The error is OutputLimit, or that of the connection.
func (s *stream) copy(out io.Reader, limit uint64, stop func()) (written uint64, err error) {
	ended := make(chan struct{})
	chunks := chunksOf(out, ended)
	defer func() {
		if err != nil {
			stop()
		}
		close(ended)
		for range chunks {
		}
	}()
	pending := flushSize // the first output is sent at once
	var due <-chan time.Time
	for {
		select {
		case p, ok := <-chunks:
			if !ok {
				return written, nil
			}
			n, err := s.write(p, limit-written)
			if written += n; err != nil {
				return written, err
			}
			if pending += len(p); due == nil {
				due = time.After(flushTime)
			}
			if pending < flushSize {
				continue
			}
		case <-due:
		}
		pending, due = 0, nil
		if err := s.sendPending(); err != nil {
			return written, fmt.Errorf("send output: %w", err)
		}
	}
}

// chunksOf returns what can be read from out, until it ends. After ended was closed, it drops it.
func chunksOf(out io.Reader, ended <-chan struct{}) <-chan []byte {
	chunks := make(chan []byte)
	go func() {
		defer close(chunks)
		for {
			p := make([]byte, chunk)
			n, err := out.Read(p)
			if n > 0 {
				select {
				case chunks <- p[:n]:
				case <-ended:
				}
			}
			if err != nil {
				return
			}
		}
	}()
	return chunks
}

// write compresses p, or the part that is within the limit.
func (s *stream) write(p []byte, limit uint64) (uint64, error) {
	over := uint64(len(p)) > limit
	if over {
		p = p[:limit]
	}
	if _, err := s.enc.Write(p); err != nil {
		return 0, fmt.Errorf("send output: %w", err)
	}
	if over {
		return limit, fail(OutputLimit, "")
	}
	return uint64(len(p)), nil
}

// sendPending sends what was written.
func (s *stream) sendPending() error {
	if err := s.enc.Flush(); err != nil {
		return err
	}
	return s.to.Flush()
}

// close ends the stream and sends the last frame.
func (s *stream) close(end End) error {
	if err := s.enc.Close(); err != nil {
		return err
	}
	payload, err := encMode.Marshal(end)
	if err != nil {
		return err
	}
	if err := writeFrame(s.to, frameEnd, payload); err != nil {
		return err
	}
	return s.to.Flush()
}
