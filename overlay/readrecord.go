package overlay

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/overlay/wire"
)

// Bounds of the messages that read a record from a peer that may hold it. Bytes.
const (
	maxKey    = 512
	maxRecord = 64 << 10 // the largest has 32 KiB
	// digestSize is how many bytes of the SHA-256 of a record stand for it. With fewer, the author
	// of two records could give them one digest.
	digestSize     = 16
	maxReadRequest = maxKey + digestSize + 64
	maxReadAnswer  = maxRecord + 64
)

// readRate limits the requests of each peer. An honest one that takes up a hundred hosts a second
// stays below.
var readRate = wire.Rate{PerSecond: 256, Burst: 4096, TotalFactor: 8}

var (
	errReadMessage = errors.New("overlay: invalid message about a record")
	errReadRate    = errors.New("overlay: too many requests for records")
)

// readRequest asks a peer for the record that it holds under a key.
type readRequest struct {
	Key string `cbor:"1,keyasint"`
	// Known is the digest of the record that the reader has; none if it has none.
	Known []byte `cbor:"2,keyasint,omitempty"`
}

// check checks a received request.
func (q readRequest) check() error {
	if q.Key == "" || len(q.Key) > maxKey {
		return fmt.Errorf("%w: a key of %d bytes", errReadMessage, len(q.Key))
	}
	if len(q.Known) != 0 && len(q.Known) != digestSize {
		return fmt.Errorf("%w: a digest of %d bytes", errReadMessage, len(q.Known))
	}
	return nil
}

// readAnswer is the answer to a readRequest. If both fields are zero the peer holds no record.
type readAnswer struct {
	Record []byte `cbor:"1,keyasint,omitempty"`
	// Same says that the record is the one that the reader has.
	Same bool `cbor:"2,keyasint,omitempty"`
}

// record returns the record that an answer means; nil: none. known is the one that the reader has.
// It is not validated.
func (a readAnswer) record(known []byte) ([]byte, error) {
	switch {
	case len(a.Record) > maxRecord, a.Same && (len(known) == 0 || len(a.Record) > 0):
		return nil, fmt.Errorf("%w: %d bytes, the same: %t", errReadMessage, len(a.Record), a.Same)
	case a.Same:
		return known, nil
	case len(a.Record) == 0:
		return nil, nil
	}
	return a.Record, nil
}

// digest stands for a record in a request; nil: none.
func digest(val []byte) []byte {
	if len(val) == 0 {
		return nil
	}
	sum := sha256.Sum256(val)
	return sum[:digestSize]
}

// answerTo returns the answer to a request of a peer that holds val; nil: none.
func answerTo(q readRequest, val []byte) readAnswer {
	if len(val) > 0 && string(digest(val)) == string(q.Known) {
		return readAnswer{Same: true}
	}
	return readAnswer{Record: val}
}

// serve answers one request from the records that this peer holds.
func (v *Values) serve(ctx context.Context, c *wire.Conn) error {
	var q readRequest
	if err := c.Recv(&q); err != nil {
		return err
	}
	if err := q.check(); err != nil {
		return err
	}
	now := time.Now()
	if !v.reads.Allow(readRate, c.Peer(), now) {
		return errReadRate
	}
	val, err := v.local.served(ctx, q.Key, now)
	if err != nil {
		return err
	}
	if len(val) > maxRecord { // its own protocol still sends it
		return fmt.Errorf("%w: a record of %d bytes", errReadMessage, len(val))
	}
	return c.Send(answerTo(q, val))
}

// read asks p for its record of key in the protocol for that.
func (r *holders) read(ctx context.Context, p peer.ID, key string, known []byte) (
	val []byte, err error,
) {
	c, err := wire.Dial(ctx, r.host, p, readLimits(maxReadAnswer), r.reads)
	if err != nil {
		return nil, err
	}
	defer func() { c.End(err) }()
	if err := c.Send(readRequest{Key: key, Known: digest(known)}); err != nil {
		return nil, err
	}
	var a readAnswer
	if err := c.Recv(&a); err != nil {
		return nil, err
	}
	return a.record(known)
}

func readLimits(most int) wire.Limits { return wire.Limits{MaxMsg: most, Timeout: answerTimeout} }
