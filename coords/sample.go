package coords

import (
	"fmt"
	"time"
)

// Sample is one download, or failed download, that a peer made from a server. Samples
// move with a subnet from owner to owner.
type Sample struct {
	// Peer is the peer that made the download. Not empty.
	Peer string `cbor:"1,keyasint" json:"peer"`
	// At is the coordinate of the peer at that time, without load.
	At Coordinate `cbor:"2,keyasint" json:"at"`
	// Connect is the time of the transport's handshake, one bare round trip. Zero when
	// Reused.
	Connect time.Duration `cbor:"3,keyasint" json:"connect"`
	// FirstByte is the time from writing the request to the first byte of the answer: a
	// round trip and the server's delay.
	FirstByte time.Duration `cbor:"4,keyasint" json:"first_byte"`
	// Body is the time from the first to the last byte of the answer.
	Body time.Duration `cbor:"5,keyasint" json:"body"`
	// Reused reports whether the connection already existed.
	Reused bool `cbor:"6,keyasint" json:"reused"`
	// Bytes is the size of the body.
	Bytes int64 `cbor:"7,keyasint" json:"bytes"`
	// Failed reports that there was no usable answer; times and size are then meaningless.
	// It is counted as a failure of this peer, never as a long distance.
	Failed bool `cbor:"8,keyasint" json:"failed"`
	// Taken is the time of the download by the clock of the subnet's owner. Zero: unknown.
	Taken time.Time `cbor:"9,keyasint,omitzero" json:"taken,omitzero"`
}

// HandshakeOnly reports whether s is a handshake without a request.
func (s Sample) HandshakeOnly() bool {
	return !s.Failed && !s.Reused && s.Connect > 0 &&
		(s.FirstByte == 0 || s.FirstByte == s.Connect) && s.Body == 0 && s.Bytes == 0
}

// kb returns the size of the body in kB.
func (s Sample) kb() float64 { return float64(s.Bytes) / 1000 }

// sampleTimeMax bounds each phase of a download.
const sampleTimeMax = time.Hour

// sampleBytesMax bounds the size of a body: 1 TiB.
const sampleBytesMax = 1 << 40

// Validate reports whether s may be used: it has a peer, a valid coordinate of dims
// components, times in [0, 1 h] and a size in [0, 1 TiB]. The errors wrap ErrPeer,
// ErrDimension or ErrBounds.
func (s Sample) Validate(dims int) error {
	if s.Peer == "" {
		return ErrPeer
	}
	if err := s.At.Validate(dims); err != nil {
		return fmt.Errorf("sample of %s: %w", s.Peer, err)
	}
	for _, d := range []time.Duration{s.Connect, s.FirstByte, s.Body} {
		if d < 0 || d > sampleTimeMax {
			return fmt.Errorf("%w: sample of %s took %v", ErrBounds, s.Peer, d)
		}
	}
	if s.Bytes < 0 || s.Bytes > sampleBytesMax {
		return fmt.Errorf("%w: sample of %s has %d bytes", ErrBounds, s.Peer, s.Bytes)
	}
	return nil
}
