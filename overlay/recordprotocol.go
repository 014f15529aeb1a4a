package overlay

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/overlay/wire"
)

// Bounds of the messages about a record to a peer that may hold it. Bytes.
const (
	maxKey    = 512
	maxRecord = 64 << 10 // the largest has 32 KiB
	// digestSize is how many bytes of the SHA-256 of a record stand for it. With fewer, the author
	// of two records could give them one digest.
	digestSize       = 16
	maxRecordMessage = maxKey + maxRecord + 64
)

var recordLimits = wire.Limits{MaxMsg: maxRecordMessage, Timeout: answerTimeout}

// recordRate limits the requests of each peer. An honest one that takes up a hundred hosts a
// second stays below. A request counts once for each recordUnit that it has begun, so that records
// come about as slowly as other requests of the DHT (dhtRate).
var recordRate = wire.Rate{PerSecond: 256, Burst: 4096, TotalFactor: 8}

const recordUnit = 2 << 10

var (
	errRecordMessage = errors.New("overlay: invalid message about a record")
	errRecordRate    = errors.New("overlay: too many requests about records")
)

// recordRequest asks a peer which record it holds under a key, after it has taken the one that
// comes with the request.
type recordRequest struct {
	Key string `cbor:"1,keyasint"`
	// Known is the digest of the record that the sender has; none if it has none, or sends it.
	Known []byte `cbor:"2,keyasint,omitempty"`
	// Record is to be held unless there is a better one. None: the request only reads.
	Record []byte `cbor:"3,keyasint,omitempty"`
	// Sign asks for a receipt for Record.
	Sign bool `cbor:"4,keyasint,omitempty"`
}

// check checks a received request.
func (q recordRequest) check() error {
	if q.Key == "" || len(q.Key) > maxKey {
		return fmt.Errorf("%w: a key of %d bytes", errRecordMessage, len(q.Key))
	}
	if len(q.Known) != 0 && len(q.Known) != digestSize {
		return fmt.Errorf("%w: a digest of %d bytes", errRecordMessage, len(q.Known))
	}
	if len(q.Record) > maxRecord {
		return fmt.Errorf("%w: a record of %d bytes", errRecordMessage, len(q.Record))
	}
	return nil
}

// answer returns the answer of a peer that holds val; nil: none.
func (q recordRequest) answer(val []byte) recordAnswer {
	known := q.Known
	if len(q.Record) > 0 {
		known = digest(q.Record)
	}
	if len(val) > 0 && bytes.Equal(digest(val), known) {
		return recordAnswer{Same: true}
	}
	return recordAnswer{Record: val}
}

// recordAnswer is the answer to a recordRequest. If both fields are zero the peer holds no record.
type recordAnswer struct {
	Record []byte `cbor:"1,keyasint,omitempty"`
	// Same says that the record is the one that the sender of the request has.
	Same bool `cbor:"2,keyasint,omitempty"`
	// Receipt is a signature of the statement of the request's Record.
	Receipt []byte `cbor:"3,keyasint,omitempty"`
}

// record returns the record that an answer means; nil: none. known is the one that this peer has.
// Others are not validated.
func (a recordAnswer) record(known []byte) ([]byte, error) {
	switch {
	case len(a.Record) > maxRecord, a.Same && (len(known) == 0 || len(a.Record) > 0):
		return nil, fmt.Errorf("%w: %d bytes, the same: %t", errRecordMessage, len(a.Record),
			a.Same)
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

// serve answers one request from the records that this peer holds.
func (v *Values) serve(ctx context.Context, c *wire.Conn) error {
	var q recordRequest
	if err := c.Recv(&q); err != nil {
		return err
	}
	if err := q.check(); err != nil {
		return err
	}
	now := time.Now()
	if !v.requests.AllowN(recordRate, c.Peer(), 1+len(q.Record)/recordUnit, now) {
		return errRecordRate
	}
	if len(q.Record) > 0 {
		if err := v.local.validator.Validate(q.Key, q.Record); err != nil {
			return fmt.Errorf("overlay: record for %s: %w", q.Key, err)
		}
		// If it is refused the answer shows that.
		if _, err := v.local.offer(ctx, q.Key, q.Record); err != nil && ctx.Err() != nil {
			return err
		}
	}
	val, err := v.local.served(ctx, q.Key, now)
	if err != nil {
		return err
	}
	if len(val) > maxRecord { // this peer itself has stored it
		return fmt.Errorf("%w: a record of %d bytes", errRecordMessage, len(val))
	}
	a := q.answer(val)
	if q.Sign && len(q.Record) > 0 {
		if a.Receipt, err = v.receipt(ctx, q.Key, q.Record); err != nil {
			return err
		}
	}
	return c.Send(a)
}

// request sends a request to p, and returns the answer.
func (r *holders) request(ctx context.Context, p peer.ID, q recordRequest) (
	a recordAnswer, err error,
) {
	err = wire.Ask(ctx, r.host, p, recordLimits, r.proto, q, &a)
	return a, err
}
